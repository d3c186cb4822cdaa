"""Horizons whose prices, objectives or menus change after the first quarter: figures by hand, and the checker."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import planner
from planner.case.case import case_from_json
from planner.checker import check_plan
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.horizon.horizon_view import break_even_frac
from planner.plan.plan import Plan
from planner.reports.horizon import horizon_document
from planner.reports.text import as_text
from tests.support.horizon_plans import FLAT_DEMAND
from tests.support.rows import for_each

QUARTER_H = 2190.0
BASE = "starts: 2027-01-01\nhorizon: 2 quarters\n" + FLAT_DEMAND
OWN = "prices: {aws/g6e.xlarge: {on_demand: $2/h, reserved_1y: $1.20/h%s}}\n"
OFFER = "aws/g6e.xlarge@us-east-1"


@cache
def planned(*parts: str) -> HorizonPlan:
    return planner.plan_fleet(planner.case_from_text(BASE + "".join(parts)), planner.Options(gap_frac=1e-3))


def instances(plan: Plan) -> int:
    """Of the one offer, in all hours alike."""
    counts = {sum(n) for n in zip(*(f.instances_by_slot for f in plan.fleet), strict=True)}
    assert len(counts) == 1
    return counts.pop()


def test_a_commitment_is_not_signed_where_the_price_falls_below_it() -> None:
    """Two instances: 2 x 2,190 h x ($2 + $0.30) on demand, against 2 x 2,190 h x 2 x $1.20 committed."""
    steady, falls = planned(OWN % ""), planned(OWN % ", steps: [{from: 2027-04-01, on_demand: $0.30/h}]")
    (signed,) = steady.commitments
    assert (signed.quarter, signed.instances, instances(steady.quarters[0].plan)) == (0, 2, 2)
    assert steady.expected_cost_usd == pytest.approx(2 * QUARTER_H * 2 * 1.20)
    assert falls.commitments == ()
    assert falls.scenarios[0].by_quarter_usd == pytest.approx((2 * QUARTER_H * 2.0, 2 * QUARTER_H * 0.30))


def test_a_commitment_is_signed_at_the_price_of_its_quarter() -> None:
    """$1.90/h now, $0.50/h from April on: it begins in April, and the first quarter is on demand."""
    text = OWN.replace("$1.20/h", "$1.90/h") % ", steps: [{from: 2027-04-01, reserved_1y: $0.50/h}]"
    horizon = planned(text)
    (signed,) = horizon.commitments
    assert (signed.quarter, signed.instances, signed.usd_per_h) == (1, 2, 0.5)
    assert horizon.expected_cost_usd == pytest.approx(2 * QUARTER_H * (2.0 + 0.5))
    assert break_even_frac(horizon, signed) == pytest.approx(0.25)


SCARCE = """\
scenarios:
  - {name: usual, probability: 75%}
  - name: scarce
    probability: 25%
    changes: {prices.aws/g6e.xlarge.on_demand: $9/h, prices.aws/g6e.xlarge.reserved_1y: $8/h}
"""


def test_signing_now_insures_against_a_price_that_may_rise() -> None:
    """Committed: 2 x $1.50. On demand: $1.10 + 75% x $1.10 + 25% x $8 (a year signed late) = $3.925 for each."""
    own = "prices: {aws/g6e.xlarge: {on_demand: $1.10/h, reserved_1y: $1.50/h}}\n"
    assert planned(own).commitments == ()
    horizon = planned(own, SCARCE)
    (signed,) = horizon.commitments
    assert (signed.quarter, signed.instances) == (0, 2)
    assert horizon.expected_cost_usd == pytest.approx(2 * QUARTER_H * 2 * 1.50)
    usual, scarce = horizon.scenarios
    assert usual.if_known_usd == pytest.approx(2 * QUARTER_H * 2 * 1.10)
    assert usual.regret_usd == pytest.approx(2 * QUARTER_H * 2 * 0.40)
    assert scarce.if_known_usd == pytest.approx(2 * QUARTER_H * 3.0)
    mean = (1.10 + 0.75 * 1.10 + 0.25 * 9) / 2
    assert break_even_frac(horizon, signed) == pytest.approx(1.50 / mean)


LAUNCH = (
    "scenarios: [{name: on time, probability: 60%}, "
    "{name: late, probability: 40%, changes: {workloads.docs.from: 2027-10-01}}]\n"
)


def test_a_launch_that_slips_costs_nothing_until_it_comes() -> None:
    docs = BASE[BASE.index("  - name: chat") : BASE.index("menu:")].replace("chat", "docs") + "    from: 2027-04-01\n"
    text = BASE.replace("menu:", docs + "menu:").replace(", reserved-1y]", "]") + OWN % ""
    horizon = planner.plan_fleet(planner.case_from_text(text + LAUNCH), planner.Options(gap_frac=1e-3))
    on_time, late = horizon.scenarios
    both = instances(horizon.plan_of(1, "on time"))
    assert both > 2
    assert late.by_quarter_usd == pytest.approx((2 * QUARTER_H * 2.0,) * 2)
    assert on_time.by_quarter_usd == pytest.approx((2 * QUARTER_H * 2.0, both * QUARTER_H * 2.0))
    expected = QUARTER_H * 2.0 * (0.6 * (2 + both) + 0.4 * 4)
    assert horizon.expected_cost_usd == pytest.approx(expected)


NEW = """\
scenarios:
  - {name: usual, probability: 50%}
  - name: new
    probability: 50%
    changes:
      menu.gpus: [l40s, l4]
      prices.aws/g6.xlarge: {on_demand: $0.30/h, reserved_1y: $0.05/h}
"""


def test_instances_that_one_scenario_adds_are_signed_there_and_keep_others_from_being_signed_now() -> None:
    """Now for both: 2 x $1.80 x 2. Later: 2 x $1.86, then 2 x $1.80 or n x $0.05."""
    own = "prices: {aws/g6e.xlarge: {on_demand: $1.86/h, reserved_1y: $1.80/h}}\n"
    horizon = planned(own, NEW)
    assert horizon.signed_now == ()
    later = {c.scenario: c for c in horizon.commitments}
    assert (later["usual"].offer, later["usual"].instances) == (OFFER, 2)
    assert (later["new"].offer, later["new"].usd_per_h) == ("aws/g6.xlarge@us-east-1", 0.05)
    usual, new = horizon.scenarios
    assert usual.by_quarter_usd == pytest.approx((2 * QUARTER_H * 1.86, 2 * QUARTER_H * 1.80))
    assert new.by_quarter_usd == pytest.approx((2 * QUARTER_H * 1.86, later["new"].instances * QUARTER_H * 0.05))
    assert "aws/g6.xlarge@us-east-1" in as_text(horizon_document(horizon))


# -- the checker ----------------------------------------------------------------------------------------------------


def _amendment(data: Any) -> Any:
    return data["case"]["future"]["scenarios"][1]["amendments"][0]


def _rehash(data: Any) -> None:
    data["case_hash"] = case_from_json(data["case"]).hash()


def _cheaper(data: Any) -> None:
    _amendment(data)["offers"][OFFER]["prices"]["on_demand"]["usd_per_h"] = 1.0


def _gone(data: Any) -> None:
    del _amendment(data)["offers"][OFFER]


def _more_demand(data: Any) -> None:
    workload = copy.deepcopy(data["case"]["workloads"][0])
    workload["weekday_rps"][3] *= 2
    _amendment(data)["workloads"] = [workload]


def _late(data: Any) -> None:
    _amendment(data)["from_quarter"] = 2


def _none(data: Any) -> None:
    del data["case"]["future"]["scenarios"][1]["amendments"]


TAMPERED: dict[str, tuple[Callable[[Any], None], str]] = {
    "another price": (_cheaper, "quarter 2, scarce: the offers of its case differ from those of the horizon"),
    "an offer gone": (_gone, "offers that may be signed for now are gone later"),
    "other rates": (_more_demand, "come at other rates"),
    "after the horizon": (_late, "its amendments do not begin with later quarters"),
    "no change at all": (_none, "quarter 2, scarce: the offers of its case differ from those of the horizon"),
}


@for_each("name", TAMPERED)
def test_the_checker_works_each_quarter_out_from_the_json(name: str) -> None:
    own = "prices: {aws/g6e.xlarge: {on_demand: $1.10/h, reserved_1y: $1.50/h}}\n"
    data = planned(own, SCARCE).as_json()
    assert check_plan(data) == []
    change, words = TAMPERED[name]
    change(data)
    _rehash(data)
    assert any(words in problem for problem in check_plan(data)), check_plan(data)


def test_the_checker_knows_the_price_of_the_day_of_signing() -> None:
    text = OWN.replace("$1.20/h", "$1.90/h") % ", steps: [{from: 2027-04-01, reserved_1y: $0.50/h}]"
    data = planned(text).as_json()
    assert check_plan(data) == []
    data["case"]["offers"][OFFER]["prices"]["reserved_1y"]["usd_per_h"] = 0.5
    data["commitments"][0]["usd_per_h"] = 1.9
    assert any("its price usd_per_h" in problem for problem in check_plan(data))
