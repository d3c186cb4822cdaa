"""What the first screen says of rent, buy and API, against plans made anew at that volume."""

from __future__ import annotations

import re
from typing import Literal

import pytest

import planner
from planner.case.changes import multiplied, without_apis
from planner.plan.account.other_demand import other_demand
from planner.plan.plan import Plan
from planner.plan.study_records import BreakEven, Studies, VolumePoint
from planner.reports.ways_to_buy import cheaper_from, gpus_pay, shares_of_cost, ways_to_buy
from tests.support.rows import for_each
from tests.support.shared_plans import example_plan, fleet_plan
from tests.support.shown import first_screen

LIMITED = "examples/api-limits.yaml"


def api_only() -> Plan:
    return example_plan("examples/service-tiers.yaml")


def test_shares_add_up_to_the_cost() -> None:
    for plan in (example_plan(LIMITED), api_only()):
        assert sum(share for _, share in shares_of_cost(plan)) == pytest.approx(1)
    assert shares_of_cost(api_only())[0] == ("APIs by the token", pytest.approx(1))


@pytest.mark.parametrize("name", ["savings-plan", "provisioned-api"])
def test_what_is_signed_in_dollars_or_units_is_committed(name: str) -> None:
    plan = example_plan(f"examples/{name}.yaml")
    signed = sum(a.usd_per_month for a in plan.allowances or () if not a.held)
    shares = dict(shares_of_cost(plan))
    assert shares["committed"] == pytest.approx((plan.costs.reserved_usd_per_month + signed) / plan.total_usd_per_month)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) > -1e-9


def test_more_demand_than_an_api_takes_is_said_to_be_beyond_it() -> None:
    """No overflow is counted on where it is limited, so that no new plan may be dearer than what is said without it."""
    plan = example_plan(LIMITED)
    less, same, more = other_demand(plan, (0.5, 1.0, 3.0))
    assert not less.beyond and not same.beyond
    assert any("a minute at openai/gpt-4.1-nano" in what for what in more.beyond)


def test_a_new_plan_at_that_volume_costs_less_than_the_baseline() -> None:
    """A fleet that is planned for less demand costs no more than this one with replicas to spare."""
    plan = example_plan(LIMITED)
    least = cheaper_from(plan)
    assert least is not None
    assert 0.1 < least < 0.9
    for multiple in (least, (1 + least) / 2):
        less = fleet_plan(multiplied(multiple)(plan.case), planner.Options(gap_frac=0.01))
        assert less.cost_usd_per_month < multiple * plan.baseline.cost_usd_per_month * (1 + 1e-6)


def test_the_first_screen_says_both() -> None:
    plan = example_plan(LIMITED)
    shares, volume = ways_to_buy(plan)
    assert shares == "of the cost: 86% rented by the hour, 14% APIs by the token"
    assert volume.startswith("from this volume down to ")
    assert volume.endswith("of it, or to fewer: this fleet costs less than openai gpt-4.1-nano")
    assert "of the cost: 86% rented by the hour" in first_screen(plan)
    assert next(ways_to_buy(api_only())) == "of the cost: 100% APIs by the token"
    assert cheaper_from(api_only()) is None


SMALL = """
workloads:
  - {name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 40k}, tokens: {input: 800, output: 200}}
menu: {gpus: [l40s], quantizations: [fp8], providers: [aws], regions: [us-east-1], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""


def test_a_plan_on_apis_says_from_which_volume_gpus_pay_or_what_tells() -> None:
    """Just above that volume the best plan without APIs is the cheaper one, and some way below it is not."""
    plan = fleet_plan(planner.case_from_text(SMALL))
    assert not plan.fleet
    assert list(ways_to_buy(plan))[1] == (
        "from which volume on GPUs would cost less: 'fleetplan study PLAN.json --only break-even'"
    )
    studied = planner.study(plan, only="break-even").plan
    (_, said) = ways_to_buy(studied)
    assert said in first_screen(studied)
    expected = r"from at most [0-9.]+B tokens a month on, ([0-9.]+) times this demand: GPUs alone cost less than .*"
    found = re.fullmatch(expected, said)
    assert found is not None
    assert "openai gpt-4o-mini" in said
    for multiple, pays in ((0.9, False), (1.01, True)):
        more = multiple * float(found[1])
        alone = fleet_plan(without_apis(multiplied(more)(plan.case)))
        assert (alone.cost_usd_per_month < more * plan.baseline.cost_usd_per_month) is pays


def test_a_plan_on_an_api_that_is_not_the_baseline_claims_nothing_of_the_baseline() -> None:
    """GPUs that cost less than the baseline may still cost more than what the plan has."""
    cheaper = SMALL.replace("purchase: [on-demand]}", "purchase: [on-demand], apis: same-model}")
    plan = fleet_plan(planner.case_from_text(cheaper))
    (api,) = {w.api for w in plan.workloads}
    assert not plan.fleet
    assert api != "openai/gpt-4o-mini"
    for known in (plan, with_study(plan, curve((1, 150.0), (10, 150.0)))):
        (_, said) = ways_to_buy(known)
        assert said.startswith(f"from which volume on GPUs would cost less: plan with 'baseline: {api}', then ")
        assert "cost less than" not in said


def test_an_unfinished_study_is_named_and_not_believed() -> None:
    plan = fleet_plan(planner.case_from_text(SMALL))
    (_, said) = ways_to_buy(with_study(plan, curve((4, 1360.0), (10, 1360.0), stopped="time-limit")))
    assert said == (
        "from which volume on GPUs alone would cost less than openai gpt-4o-mini: "
        "'fleetplan study PLAN.json --only break-even'"
    )


def with_study(plan: Plan, study: BreakEven) -> Plan:
    return plan.model_copy(update={"studies": Studies(break_even=study)})


def curve(*costs: tuple[float, float], stopped: Literal["time-limit"] | None = None) -> BreakEven:
    """GPUs alone at multiples of a demand of 1B tokens whose API bill is $200; a cost with its proof."""
    points = tuple(
        VolumePoint(
            multiple=m,
            tokens_per_month=1e9 * m,
            api_usd_per_month=200.0 * m,
            self_hosted_usd_per_month=usd,
            self_hosted_bound_usd_per_month=usd,
            mixed_usd_per_month=None,
            mixed_bound_usd_per_month=None,
        )
        for m, usd in costs
    )
    return BreakEven(
        provider="x",
        model="y",
        engineers_usd_per_month=0.0,
        points=points,
        crossings=(),
        mixed_crossings=(),
        notes=(),
        stopped=stopped,
    )


@for_each(
    ("study", "said"),
    [
        (curve((1, 1360), (6.7, 1360), (6.9, 1360)), "from at most 6.9B tokens a month on, 6.9 times this demand: "),
        (
            curve((1, 1360), (4, 1360), (10, 1360)),
            "from somewhere between 4B and 10B tokens a month on, 4 to 10 times ",
        ),
        (curve((4, 1360), (10, 1360), stopped="time-limit"), "from which volume on GPUs would cost less than x y: "),
        (curve((1, 1360), (2, 1360), stopped="time-limit"), "from which volume on GPUs would cost less than x y: "),
        (curve((0.5, 150), (0.52, 90), (1, 90), (10, 90)), "from at most 520M tokens a month on, 0.52 times this "),
        (curve((0.1, 10), (1, 90), (10, 90)), "from at most 100M tokens a month on, 0.1 times this demand: GPUs cost "),
        (curve((1, 1360), (8, 1360), (9, 2720)), "GPUs were proved to cost less than x y at some volumes only, the "),
        (curve((1, 1360), (2, 1360)), "GPUs were proved to cost less than x y at no volume tried, up to 2 times this "),
    ],
)
def test_what_is_said_is_proved(study: BreakEven, said: str) -> None:
    assert gpus_pay(study, "GPUs", "x y").startswith(said)
