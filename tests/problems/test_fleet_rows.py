"""Golden rows: what each constraint family says about one small fleet, row by row.

The files in tests/golden/rows are named after the functions. To write them again after a change that is meant:

    REFRESH_GOLDEN_ROWS=1 python -m pytest tests/problems/test_fleet_rows.py

and read the difference: each row must say what the docstring of its family says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from problems.allowance import Allowance
from problems.allowance_rows import (
    allowances_begin_with_the_fewest,
    allowances_cover_what_is_signed,
    no_more_is_covered_than_used,
)
from problems.api_limit_rows import no_api_is_asked_for_more_than_it_takes
from problems.api_limits import ApiLimit
from problems.beyond_commitments import Beyond
from problems.fleet import (
    FAMILIES,
    deferred_work_takes_whole_lots,
    few_vendors_are_used,
    gpus_in_use_are_bought,
    master,
    power_is_kept,
    replicas_fit_into_boxes,
    the_budget_is_kept,
    the_budget_of_all_months_is_kept,
    vendors_in_use_are_paid,
)
from problems.fleet_problem import FleetProblem, Offer
from problems.fleet_variables import Variables, define_variables
from problems.model import Row
from problems.power import PowerLimit
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.vendors import Vendors
from problems.rounding_up import BOTH, Rounded
from problems.staffing import Staffing
from problems.valid_inequalities import used_offers_are_charged
from tests.support.fleets import Case
from tests.support.places import TESTS
from tests.support.rows import for_each

GOLDEN = TESTS / "golden" / "rows"
Family = Callable[[FleetProblem, Variables], Iterator[Row]]


def small_case() -> Case:
    """A month of three slots (200, 300 and 230 hours, in turn) and a month of one.

    chat    2, 1, 1 and 1 replicas of 2 GPUs on quad, half of them may be spot; an API may help or do all, or it is shed
    batch   1, 3, 1 and 1 replicas of 1 GPU on quad or on solo, all of them may be spot, no API
    both    chat and batch on the same replicas of 2 GPUs on quad: 3, 4, 2 and 2, none of them spot
    nightly half a replica, none, a quarter and one more, on quad or duo or from an API; it may wait for a slot of its
            month
    """
    exact = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    second = np.ones(1)
    chat = Pool(
        key="chat", workloads=("chat",), rate_rps=np.array([[2.0], [1.0], [1.0], [1.0]]), critical_share=0.5,
        spot_allowed=True, deployments=(Deployment("chat on quad", "quad", 2, second, exact),),
        apis=(Api("api", np.array([0.0005])),), shed_usd_per_request=np.array([0.001]),
    )  # fmt: skip
    batch = Pool(
        key="batch", workloads=("batch",), rate_rps=np.array([[1.0], [3.0], [1.0], [1.0]]), critical_share=0.0,
        spot_allowed=True, apis=(),
        deployments=(
            Deployment("batch on quad", "quad", 1, second, exact),
            Deployment("batch on solo", "solo", 1, second, exact),
        ),
    )  # fmt: skip
    both = Pool(
        key="both", workloads=("chat", "batch"), critical_share=1.0, spot_allowed=False, apis=(),
        rate_rps=np.array([[2.0, 1.0], [1.0, 3.0], [1.0, 1.0], [1.0, 1.0]]),
        deployments=(Deployment("both on quad", "quad", 2, np.ones(2), exact),),
    )  # fmt: skip
    nightly = Pool(
        key="nightly", workloads=("nightly",), critical_share=1.0, spot_allowed=False,
        rate_rps=np.array([[0.5], [0.0], [0.25], [1.0]]), apis=(Api("api", np.array([0.001])),),
        deployments=(
            Deployment("nightly on quad", "quad", 1, second, exact),
            Deployment("nightly on duo", "duo", 2, second, exact),
        ),
        window=np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1]], dtype=bool),
    )  # fmt: skip
    return Case(
        pools=(chat, batch, both, nightly),
        offers={
            "quad": Offer("quad", "h100", 4, 8.0, 3.0, {"1y": 6.0}, max_instances=5, start_h=0.25),
            "solo": Offer("solo", "h100", 1, on_demand_usd_per_h=2.5),
            "duo": Offer("duo", "a100", 2, on_demand_usd_per_h=3.0),
        },
        slot_hours=np.array([200.0, 300.0, 230.0, 730.0]),
        slot_month=np.array([0, 0, 0, 1]),
        slot_before=np.array([2, 0, 1, 3]),
        max_gpus={"h100": 12},
        max_gpu_types=1,
        budget_usd_per_month=20_000.0,
        team_usd_per_month=5_000.0,
    )


SELLERS = Vendors(
    of_offer={
        "quad": (("provider", "a"), ("region", "a east")),
        "solo": (("provider", "a"), ("region", "a west")),
        "duo": (("provider", "b"), ("region", "b east")),
    },
    of_api={"api": (("api", "c"),)},
    usd_per_month={("provider", "a"): 300.0, ("provider", "b"): 500.0, ("api", "c"): 100.0},
    at_most={"provider": 1, "region": 2},
)


ALLOWANCES = (
    Allowance("savings plan", 1.0, {"quad": 5.0, "duo": 2.0}),
    Allowance("units", 0.5, {("chat", "api"): 2000.0}, covers=600.0, fewest=3.0, step=2.0),
)


POWER = PowerLimit(
    box_kw={"quad": 2.0, "solo": 0.5, "duo": 1.0},
    gpu_kw={"quad": 0.5, "solo": 0.6, "duo": 0.3},
    most_kw=9.0,
)


def small_fleet(family: Family | None = None) -> FleetProblem:
    """With rows about whole boxes; or with boxes in parts, with gaps, or without an API for work that may wait, for the
    one family that is about those.
    """
    fleet = small_case().fleet
    if family is deferred_work_takes_whole_lots:
        case = small_case()
        return replace(case, pools=(*case.pools[:-1], replace(case.pools[-1], apis=()))).fleet
    if family is the_budget_of_all_months_is_kept:
        return replace(fleet, budget_usd_on_average=15_000.0)
    if family is replicas_fit_into_boxes:
        return replace(fleet, offers=fleet.offers | {"quad": replace(fleet.offers["quad"], box=3)})
    if family in (vendors_in_use_are_paid, few_vendors_are_used):
        return replace(small_case(), vendors=SELLERS).fleet
    if family in (
        allowances_cover_what_is_signed,
        allowances_begin_with_the_fewest,
        no_more_is_covered_than_used,
    ):
        return replace(small_case(), allowances=ALLOWANCES).fleet
    if family is no_api_is_asked_for_more_than_it_takes:
        per_usd = {"chat": np.array([0.4, 0.5, 0.6, 0.7])}  # what waits is not counted
        return replace(small_case(), api_limits=(ApiLimit("api", "tokens", 1.0, per_usd),)).fleet
    if family is power_is_kept:
        case = small_case()
        spare = case.with_offer("spare", Offer("spare", "a100", 2, on_demand_usd_per_h=9.0, on_hand=1))
        box_kw, gpu_kw = POWER.box_kw | {"spare": 0.8}, POWER.gpu_kw | {"spare": 0.3}
        return replace(spare, power=replace(POWER, box_kw=box_kw, gpu_kw=gpu_kw)).fleet
    if family is used_offers_are_charged:
        return replace(fleet, boxes_in_parts=True)
    beyond = {"batch": np.array([0.0] * 5 + [0.5]), "chat": np.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 1.0])}
    steps = {"batch": np.array([-0.5, 0.0, 0.5, 0.5]), "chat": np.array([0.0, 0.0, 0.5, 1.0])}
    parts = {w: 0.75 * step[:, None] + 0.25 * step[None, :] for w, step in steps.items()}
    return replace(
        fleet,
        own_boxes=frozenset(
            {("in-use", "chat", "quad", 0), ("in-use", "batch", "quad", 1), ("firm", "chat", "quad", 0)}
        ),
        rounded={
            (BOTH, "quad", 1, 0): Rounded("quad", 1, 4, parts, firm_frac=0.25),
            ("in-use", "quad", 2, 0): Beyond("in-use", "quad", 2, beyond, 1, by_hour=True),
            ("firm", "quad", 2, 0): Beyond("firm", "quad", 2, beyond, 1, by_hour=False),
        },
    )


def rows_as_data(family: Family, fleet: FleetProblem) -> list[dict[str, Any]]:
    v = define_variables(fleet)
    return [
        {
            "row": _name(row.key),
            "terms": {_name(v.columns[c].key): round(coefficient, 6) for c, coefficient in row.terms},
            "sense": row.sense,
            "rhs": round(row.rhs, 6),
        }
        for row in family(fleet, v)
    ]


def columns_as_data(fleet: FleetProblem) -> list[dict[str, Any]]:
    return [
        {"column": _name(c.key), "cost": round(c.cost, 6), "lower": c.lower, "upper": c.upper, "whole": c.integer}
        for c in define_variables(fleet).columns
    ]


def _name(key: tuple[Any, ...]) -> str:
    return " ".join(str(part) for part in key)


def golden(name: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    path = GOLDEN / f"{name}.json"
    if os.environ.get("REFRESH_GOLDEN_ROWS"):
        lines = ",\n".join("  " + json.dumps(item) for item in found)
        path.write_text(f"[\n{lines}\n]\n" if found else "[]\n")
    assert path.exists(), f"{name} has no golden rows; see the docstring of this file"
    return json.loads(path.read_text())


@for_each("family", FAMILIES)
def test_rows_are_golden(family: Family) -> None:
    found = rows_as_data(family, small_fleet(family))
    assert found, "the small fleet has no row of this family: widen it"
    assert found == golden(family.__name__, found)


def test_columns_are_golden() -> None:
    found = columns_as_data(small_fleet())
    assert found == golden("define_variables", found)


def test_every_golden_file_belongs_to_a_family() -> None:
    assert {p.stem for p in GOLDEN.glob("*.json")} == {f.__name__ for f in FAMILIES} | {"define_variables"}


def test_every_family_says_what_it_means() -> None:
    """A true sentence, prose, an inequality with its index set, and a unit."""
    for family in FAMILIES:
        doc = family.__doc__ or ""
        assert any(sign in doc for sign in ("<=", ">=", " = ")), family.__name__
        assert "for " in doc, family.__name__
        assert "]\n" in doc or doc.rstrip().endswith("]"), f"{family.__name__} names no unit"


def test_the_master_holds_every_family() -> None:
    fleet = small_fleet()
    model, v = master(fleet)
    expected = [row.key for family in FAMILIES for row in family(fleet, v)]
    assert list(model.row_keys) == expected
    assert list(model.column_keys) == [c.key for c in v.columns]


def test_boxes_in_parts_are_charged_half_a_box() -> None:
    """For every offer of several GPUs, and in the program with boxes in parts alone."""
    in_parts = replace(small_case().fleet, boxes_in_parts=True)
    rows = {row["row"]: row["terms"] for row in rows_as_data(gpus_in_use_are_bought, in_parts)}
    assert rows["in-use quad 0"]["charged quad"] == -2.0
    assert rows["in-use duo 0"]["charged duo"] == -1.0
    assert not any("charged" in name for name in rows["in-use solo 0"])
    bought_by_the_hour = [c for c in columns_as_data(in_parts) if c["column"].startswith(("on-demand", "spot"))]
    assert not any(c["whole"] for c in bought_by_the_hour)
    whole = rows_as_data(gpus_in_use_are_bought, small_fleet())
    assert not any("charged" in name for row in whole for name in row["terms"])


def test_limits_that_are_not_set_make_no_rows() -> None:
    case = replace(small_case().without_limits(), team_usd_per_month=0.0, slot_before=None)
    case = replace(case, pools=tuple(pool for pool in case.pools if pool.window is None))
    model, _ = master(case.fleet)
    kinds = {key[0] for key in model.row_keys}
    assert kinds == {"served", "one-serving", "in-use", "firm"}


def test_vendors_are_columns_that_cost_and_count_in_every_month() -> None:
    fleet = small_fleet(few_vendors_are_used)
    columns = {c["column"]: c for c in columns_as_data(fleet) if c["column"].startswith("vendor")}
    assert {name: c["cost"] for name, c in columns.items()} == {
        "vendor api c": 100.0, "vendor provider a": 300.0, "vendor provider b": 500.0,
        "vendor region a east": 0.0, "vendor region a west": 0.0, "vendor region b east": 0.0,
    }  # fmt: skip
    assert all((c["lower"], c["upper"], c["whole"]) == (0, 1, True) for c in columns.values())
    for row in rows_as_data(the_budget_is_kept, fleet):
        assert [usd for name, usd in row["terms"].items() if name.startswith("vendor")] == [100.0, 300.0, 500.0]
    decided = replace(fleet, vendors_decided={("provider", "b"): True})
    assert {c["column"] for c in columns_as_data(decided) if c["lower"]} == {"vendor provider b"}


def test_where_an_api_costs_something_to_have_gpus_do_without_it_too() -> None:
    keys = {recipe.key for recipe in small_fleet(few_vendors_are_used).recipes}
    assert {("chat", ("chat on quad",), "api"), ("chat", ("chat on quad",), None)} <= keys
    assert ("chat", ("chat on quad",), None) not in {recipe.key for recipe in small_fleet().recipes}


def test_an_offer_without_spot_has_no_firm_rows() -> None:
    case = small_case()
    case = case.with_offer("quad", replace(case.offers["quad"], spot_usd_per_h=None))
    model, _ = master(case.fleet)
    assert "firm" not in {key[0] for key in model.row_keys}


def test_a_month_that_costs_nothing_keeps_any_budget() -> None:
    """No demand in the second month and only an API: the budget of that month has nothing to count."""
    idle = Pool("w", ("w",), np.array([[1.0], [1.0], [1.0], [0.0]]), 1.0, False, (), (Api("api", np.array([0.001])),))
    case = replace(small_case(), pools=(idle,))
    model, _ = master(case.fleet)
    assert ("budget", 0) in model.row_keys
    assert ("budget", 1) not in model.row_keys
    assert model.objective(np.ones(model.n_columns)) == pytest.approx(0.001 * 3600 * 730 / 2)
