"""Plans of the examples: golden decisions, both solvers, and what the mission says must come out of a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import planner
from planner.case.case import Case
from planner.pipeline import attempt
from planner.plan.plan import DeploymentPlan, Plan
from planner.plan.saved import plan_from_json
from solvers.search.fleet_solution import Options
from tests.support.golden_plans import EXAMPLES, as_text, digest, golden_file
from tests.support.rows import for_each
from tests.support.shared_plans import example_plan, fleet_plan


def named(name: str) -> Plan:
    return example_plan(f"examples/{name}.yaml")


@for_each("example", EXAMPLES)
def test_golden_plans(example: Path) -> None:
    """Decisions do not change unnoticed. After a wanted change: python tests/refresh.py, and read the diff."""
    assert json.loads(golden_file(example).read_text()) == json.loads(as_text(digest(example_plan(example))))


BY_BOTH = [e for e in EXAMPLES if e.stem in ("agents", "api-limits", "own-or-rent", "savings-plan", "two-models")]
"""one for each kind of program; tests/oracle compares both solvers with enumeration"""


@pytest.mark.smoke
def test_the_quickstart_is_as_it_was_by_either_solver() -> None:
    (quickstart,) = (e for e in EXAMPLES if e.stem == "quickstart")
    plan = example_plan(quickstart)
    assert json.loads(golden_file(quickstart).read_text()) == json.loads(as_text(digest(plan)))
    assert plan_from_json(plan.to_json()) == plan
    agree_within_their_gaps(quickstart, plan)


@for_each("example", BY_BOTH)
def test_cbc_and_highs_agree_within_their_gaps(example: Path) -> None:
    agree_within_their_gaps(example, example_plan(example))


def agree_within_their_gaps(example: Path, cbc: Plan) -> None:
    highs = attempt(planner.load_case(example), Options(solver="highs")).plan
    assert highs is not None
    one, other = (plan.cost_usd_per_month + plan.penalty_usd_per_month for plan in (cbc, highs))
    assert cbc.bound_usd_per_month <= other * (1 + 1e-6)
    assert highs.bound_usd_per_month <= one * (1 + 1e-6)
    assert abs(one - other) <= 1e-3 * one


@for_each("example", EXAMPLES)
def test_examples_are_proved_and_round_trip(example: Path) -> None:
    plan = example_plan(example)
    assert plan.status in ("optimal", "within-gap")
    assert plan.gap_frac <= 1e-3
    assert plan_from_json(plan.to_json()) == plan
    assert planner.check_plan(plan.as_json()) == []


def test_the_same_case_gives_the_same_bytes() -> None:
    again = planner.plan_fleet(planner.load_case(EXAMPLES[0]))
    assert again.to_json() == example_plan(EXAMPLES[0]).to_json()


def test_the_quickstart_is_a_real_decision() -> None:
    """It hosts something, buys in at least two ways, and the API is neither the best option nor the worst."""
    plan = named("quickstart")
    assert any(pool.deployments for pool in plan.pools)
    ways = {f.purchase for f in plan.fleet} | ({"api"} if plan.costs.api_usd_per_month else set())
    assert len(ways & {"reserved-1y", "on-demand", "spot"}) >= 2
    api = next(o for o in plan.options if o.offer is None)
    hosted = [o.cost_usd_per_month for o in plan.options if o.offer and o.cost_usd_per_month is not None]
    assert api.cost_usd_per_month is not None
    assert min(hosted) < api.cost_usd_per_month < max(hosted)
    assert plan.cost_usd_per_month < plan.baseline.cost_usd_per_month


def test_costs_add_up() -> None:
    for plan in map(example_plan, EXAMPLES):
        other = (plan.costs.api_usd_per_month, plan.costs.caching_usd_per_month, plan.costs.engineers_usd_per_month)
        parts = sum(f.cost_usd_per_month for f in plan.fleet) + sum(other)
        parts += plan.costs.energy_usd_per_month or 0.0
        assert parts == pytest.approx(plan.cost_usd_per_month)
        mine = sum(w.cost_usd_per_month for w in plan.workloads) + plan.costs.engineers_usd_per_month
        assert mine == pytest.approx(plan.cost_usd_per_month)
        assert sum(o.chosen for o in plan.options) == len(plan.workloads)


def hosted(plan: Plan) -> DeploymentPlan:
    """The first deployment of the first pool."""
    return plan.pools[0].deployments[0]


def held_case(hourly: list[float]) -> Case:
    """One workload without any margin, on capacity that is held all the time."""
    return planner.case_from_text(
        f"""
workloads:
  - name: w
    models: [llama-3.1-8b]
    forecast: {{hourly: {hourly}, variation: 0%, burstiness: 1}}
    tokens: {{input: 1000, output: 200}}
    slo: {{ttft_p50: 2s, tpot_p50: 50ms}}
    api: forbidden
menu: {{gpus: [l40s], quantizations: [fp16], purchase: [reserved-1y]}}
baseline: openai/gpt-4o-mini
policy: {{min_replicas: 1}}
"""
    )


def test_a_steady_70_percent_is_cheaper_than_bursts_of_99() -> None:
    """Cost follows the hours paid for, not how busy the busy hours are: two plans for the same tokens."""
    (seconds,) = hosted(fleet_plan(held_case([3600.0] * 24))).deployment.seconds_per_request
    assert seconds is not None
    per_hour = 3600 / seconds
    steady_load = 1.4
    bursts = [0.01] * 18 + [steady_load * 24 / 6 * per_hour] * 6
    steady = fleet_plan(held_case([steady_load * per_hour] * 24))
    bursty = fleet_plan(held_case(bursts))
    assert bursty.tokens_per_month == pytest.approx(steady.tokens_per_month, rel=1e-3)
    assert hosted(steady).utilization_frac == pytest.approx(0.70, abs=0.01)
    busy_hour = max(bursts) / per_hour / max(hosted(bursty).replicas_by_slot)
    assert busy_hour > 0.93
    assert steady.usd_per_1m_tokens < 0.5 * bursty.usd_per_1m_tokens


def test_a_quarter_that_grows_has_three_months() -> None:
    plan = named("two-models")
    assert [s.month for s in plan.slots] == [0] * 48 + [1] * 48 + [2] * 48
    replicas = hosted(plan).replicas_by_slot
    assert max(replicas[96:]) >= max(replicas[:48])


def test_a_budget_between_the_plan_and_the_next_best_still_gives_the_plan() -> None:
    plan = named("quickstart")
    limits = plan.case.limits.model_copy(update={"budget_usd_per_month": plan.cost_usd_per_month * 1.001})
    again = fleet_plan(plan.case.model_copy(update={"limits": limits}))
    assert again.cost_usd_per_month == pytest.approx(plan.cost_usd_per_month)
    too_small = plan.case.limits.model_copy(update={"budget_usd_per_month": plan.cost_usd_per_month * 0.98})
    with pytest.raises(planner.Infeasible, match="budget"):
        planner.plan_fleet(plan.case.model_copy(update={"limits": too_small}))


def test_a_tighter_end_to_end_objective_never_costs_less() -> None:
    def planned(e2e: str) -> Plan:
        return fleet_plan(
            planner.case_from_text(
                "workloads:\n  - name: w\n    models: [llama-3.1-8b]\n    forecast: {requests_per_day: 2M}\n"
                f"    slo: {{ttft_p95: 2s, tpot_p95: 50ms{e2e}}}\n    api: forbidden\n"
                "menu: {gpus: [h100, l40s], purchase: [on-demand]}\nbaseline: openai/gpt-4o\n"
            )
        )

    free, loose, tight = planned(""), planned(", e2e_p95: 12s"), planned(", e2e_p95: 5s")
    assert free.cost_usd_per_month <= loose.cost_usd_per_month <= tight.cost_usd_per_month
    assert free.cost_usd_per_month < tight.cost_usd_per_month
    e2e_ms = hosted(tight).deployment.e2e_ms
    assert e2e_ms is not None
    assert e2e_ms <= 5000
    assert hosted(free).deployment.e2e_ms is None
