"""Remedies are true: with one there is a plan, and with a step less there is none where that is claimed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.case.case import Case
from planner.explanations.infeasible import explain_infeasibility
from planner.explanations.limits import every_limit, round_figures_above
from planner.explanations.relaxations import Infeasible, Relaxation
from planner.optimization import replan as bench
from planner.optimization.replan import Replanner
from planner.pipeline import attempt
from problems.fleet_problem import FleetProblem
from solvers.backends.clock import Stopped
from solvers.search.fleet_solution import FleetSolution, Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.support.command_line import SMALL, Command
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

QUICK = Options(gap_frac=0.01)
FORBIDDEN = SMALL.replace("    quality:", "    api: forbidden\n    quality:").replace(
    "purchase: [on-demand, spot, reserved-1y]", "max_deployments: 1, purchase: [on-demand]"
)
MAIL = "  - {name: mail, models: [llama-3.1-8b], api: forbidden, forecast: {requests_per_day: 20k}"
NO_L40S = "{aws/g6e.xlarge@us-east-1: 0, aws/g6e.12xlarge@us-east-1: 0, aws/g6e.48xlarge@us-east-1: 0}"
GROWING = FORBIDDEN.replace("400k}", "400k, growth_per_month: 20%}")


def slo(objective: str) -> str:
    return FORBIDDEN.replace("quality:", f"slo: {{{objective}}}\n    quality:")


def with_policy(policy: str, text: str = FORBIDDEN) -> str:
    return f"{text}policy: {{{policy}}}\n"


TWO_TYPES = with_policy(
    "max_gpu_types: 1, max_gpus: {l40s: 3, h100: 2}",
    FORBIDDEN.replace("menu:", MAIL + "}\nmenu:").replace("[l40s]", "[l40s, h100], max_gpus_per_replica: 1"),
)
ELSEWHERE = with_policy(
    f"max_instances: {NO_L40S}",
    FORBIDDEN.replace("    quality:", "    regions: [us-east-1]\n    quality:").replace(
        "gpus: [l40s]", "gpus: [l40s], regions: [us-east-1, us-west-2, eu-central-1]"
    ),
)

APART = """
workloads:
  - {name: east, models: [llama-3.1-8b], forecast: {requests_per_day: 100k}, regions: [us-east-1], api: forbidden}
  - {name: west, models: [llama-3.1-8b], forecast: {requests_per_day: 100k}, regions: [us-west-2], api: forbidden}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand], regions: [us-east-1, us-west-2]}
baseline: openai/gpt-4o-mini
"""
TOO_LARGE = FORBIDDEN.replace("8b]", "405b]").replace("gpt-4o-mini", "gpt-4o")
"""no GPU of the menu holds it, and the API sells a model as large"""


def outcome(case: Case) -> Outcome:
    """Through the solver alone: a plan that is not there need not be explained."""
    return Replanner(case, QUICK).possible(case, "").outcome


def smallest(case: Case, limit: str) -> Relaxation:
    solver = Replanner(case, QUICK)
    unserved = [w for w, recipes in solver.fleet.recipes_of.items() if not recipes]
    found = next(x for x in every_limit(case, unserved) if x.key == limit).smallest(solver, case)
    assert found is not None
    return found


def infeasible(case: Case, options: Options | None = None) -> Infeasible:
    with pytest.raises(Infeasible) as caught:
        planner.plan_fleet(case, options)
    return caught.value


def with_limit(field: str, change: Callable[[Case], object]) -> Callable[[Case], Case]:
    return lambda case: case.model_copy(update={"limits": case.limits.model_copy(update={field: change(case)})})


def fewer(kind: str, key: str) -> Callable[[Case], Case]:
    return with_limit(kind, lambda case: {**getattr(case.limits, kind), key: getattr(case.limits, kind)[key] - 1})


def tighter(kind: str, was: float) -> Callable[[Case], Case]:
    """The next figure below the one that was found."""

    def change(case: Case) -> Case:
        w = case.workloads[0]
        objective = getattr(w, kind)
        below = max(s for s in [was, *round_figures_above(was, 1000.0)] if s < objective.seconds)
        changed = w.model_copy(update={kind: objective.model_copy(update={"seconds": below})})
        return case.model_copy(update={"workloads": (changed, *case.workloads[1:])})

    return change


def smaller_budget(case: Case) -> Case:
    assert case.limits.budget_usd_per_month is not None
    return with_limit("budget_usd_per_month", lambda case: (case.limits.budget_usd_per_month or 0) * 0.98)(case)


@for_each(
    ("text", "limit", "one_less"),
    [
        (with_policy("budget_usd_per_month: $5"), "policy.budget_usd_per_month", smaller_budget),
        (with_policy("budget_usd_per_month: $5", GROWING), "policy.budget_usd_per_month", smaller_budget),
        (with_policy("max_gpus: {l40s: 1}"), "policy.max_gpus.l40s", fewer("max_gpus", "l40s")),
        (
            with_policy(f"max_instances: {NO_L40S}"),
            "policy.max_instances.aws/g6e.xlarge@us-east-1",
            fewer("max_instances", "aws/g6e.xlarge@us-east-1"),
        ),
        (slo("ttft_p95: 1ms"), "chat.slo.ttft_p95", tighter("ttft", 0.001)),
        (slo("tpot_p99: 2ms"), "chat.slo.tpot_p99", tighter("tpot", 0.002)),
        (slo("e2e_p90: 100ms"), "chat.slo.e2e_p90", tighter("e2e", 0.1)),
        (
            with_policy("min_replicas: 5, max_gpus: {l40s: 3}"),
            "policy.min_replicas",
            with_limit("min_replicas", lambda case: case.limits.min_replicas + 1),
        ),
        (
            FORBIDDEN.replace("8b]", "70b]").replace("purchase:", "max_gpus_per_replica: 1, purchase:"),
            "menu.max_gpus_per_replica",
            with_limit("max_gpus_per_replica", lambda case: case.limits.max_gpus_per_replica // 2),
        ),
        (TWO_TYPES, "policy.max_gpu_types", None),
        (with_policy("vendors: {at_most: {region: 1}}", APART), "policy.vendors.at_most.region", None),
        (FORBIDDEN.replace("fp8, fp16", "int4-awq"), "chat.quality.max_loss", None),
        (TOO_LARGE, "chat.api", None),
        (TOO_LARGE.replace("purchase:", "apis: [], purchase:"), "chat.api", None),
        (FORBIDDEN.replace("on-demand", "spot"), "menu.purchase.on-demand", None),
        (ELSEWHERE, "chat.regions", None),
    ],
)
def test_a_remedy_makes_room_for_a_plan_and_a_step_less_does_not(
    text: str, limit: str, one_less: Callable[[Case], Case] | None
) -> None:
    case = planner.case_from_text(text)
    assert outcome(case) is Outcome.INFEASIBLE
    found = smallest(case, limit)
    changed = found.change(case)
    plan = fleet_plan(changed)
    assert plan.bound_usd_per_month <= found.cost_usd_per_month * (1 + 1e-9)
    assert found.proved_smallest
    if one_less is not None:
        assert outcome(one_less(changed)) is Outcome.INFEASIBLE


def test_shedding_says_how_much_would_be_turned_away() -> None:
    case = planner.case_from_text(with_policy("max_gpus: {l40s: 2}", FORBIDDEN.replace("400k", "500k")))
    found = smallest(case, "chat.shed")
    (said,) = re.findall(r"about ([\d.]+)% would be shed", found.said)
    shed = fleet_plan(found.change(case)).workloads[0].shed_share_frac
    assert 0.001 < shed < 0.2
    assert shed == pytest.approx(float(said) / 100, abs=0.005)
    assert not found.proved_smallest


def test_a_workload_that_would_be_turned_away_whole_has_no_such_remedy() -> None:
    case = planner.case_from_text(slo("ttft_p95: 1ms"))
    limit = next(x for x in every_limit(case) if x.key == "chat.shed")
    assert limit.smallest(Replanner(case, QUICK), case) is None


def test_a_workload_moves_to_the_cheapest_place_that_does() -> None:
    case = planner.case_from_text(ELSEWHERE)
    assert smallest(case, "chat.regions").said == "let chat run in us-west-2 as well (regions)"


def test_every_remedy_is_listed_the_cheapest_first() -> None:
    case = planner.case_from_text(slo("ttft_p95: 1ms"))
    error = infeasible(case)
    assert error.proved
    assert {r.limit for r in error.remedies} == {"chat.slo.ttft_p95", "chat.api"}
    costs = [r.cost_usd_per_month for r in error.remedies]
    assert costs == sorted(costs)
    lines = str(error).splitlines()
    assert lines[0] == "'chat': nothing on the menu can serve it, and its requests may not go to an API."
    assert lines[-3] == "Any one of these changes would be enough, cheapest first:"
    for r, line in zip(error.remedies, lines[-2:], strict=True):
        assert line == f"  {r.said}: a plan then costs ${r.cost_usd_per_month:,.0f} a month"


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        (
            with_policy(
                "max_gpus: {l40s: 1}, budget_usd_per_month: $500",
                FORBIDDEN.replace("[l40s]", "[l40s], max_gpus_per_replica: 1"),
            ),
            {("policy.budget_usd_per_month", "policy.max_gpus.l40s"), ("policy.budget_usd_per_month", "chat.api")},
        ),
        (
            slo("ttft_p95: 100ms, tpot_p95: 3ms").replace("menu:", MAIL + ", slo: {tpot_p95: 1ms}}\nmenu:"),
            {("chat.slo.ttft_p95", "chat.slo.tpot_p95", "mail.slo.tpot_p95"), ("chat.api", "mail.api")},
        ),
    ],
)
def test_where_no_limit_alone_makes_room_several_do_together(text: str, sets: set[tuple[str, ...]]) -> None:
    case = planner.case_from_text(text)
    error = infeasible(case)
    assert {tuple(r.limit.split(" and ")) for r in error.remedies} == sets
    for r in error.remedies:
        assert outcome(r.change(case)) is not Outcome.INFEASIBLE
        assert r.said in str(error)
        assert r.proved_smallest


def test_a_budget_is_raised_for_what_another_change_buys() -> None:
    """Nothing is sold as the menu has it, and the commitment that is added costs more than the budget."""
    text = FORBIDDEN.replace("on-demand", "spot").replace("[l40s]", "[l40s], apis: []")
    case = planner.case_from_text(with_policy("budget_usd_per_month: $500", text))
    budget, purchase = (
        x for x in every_limit(case) if x.key in ("policy.budget_usd_per_month", "menu.purchase.reserved-1y")
    )
    committed = purchase.loosest(case)
    found = budget.smallest(Replanner(case, QUICK), committed)
    assert found is not None
    assert outcome(found.change(committed)) is not Outcome.INFEASIBLE
    assert outcome(smaller_budget(found.change(committed))) is Outcome.INFEASIBLE


def test_a_budget_has_to_pay_for_what_is_held_too() -> None:
    """Ten boxes at $9 an hour are paid in any case: $65,700 a month, and the plan with them needs nothing else."""
    have = "{offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 10, price: $9/h, until: 2027-12-31}"
    text = f"starts: 2027-01-01\nhave: [{have}]\n{with_policy('budget_usd_per_month: $60000')}"
    case = planner.case_from_text(text)
    (budget,) = (x for x in every_limit(case) if x.key == "policy.budget_usd_per_month")
    found = budget.smallest(Replanner(case, QUICK), case)
    assert found is not None
    raised = found.change(case).limits.budget_usd_per_month
    assert raised == pytest.approx(10 * 9 * 730, abs=50)
    assert outcome(found.change(case)) is not Outcome.INFEASIBLE
    assert outcome(case) is Outcome.INFEASIBLE


def test_where_nothing_was_proved_no_remedy_is_called_the_smallest() -> None:
    case = planner.case_from_text(slo("ttft_p95: 1ms"))
    limit = next(x for x in every_limit(case) if x.key == "chat.api")
    found = limit.smallest(Replanner(case, QUICK), case, none_yet=False)
    assert found is not None
    assert not found.proved_smallest


@for_each(("solves", "known"), [(1, []), (2, [False]), (4, [False]), (7, [True])])
def test_an_interruption_keeps_what_is_known(solves: int, known: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first limit is the quota: its loosest, then nearer and nearer to the least, then what that costs."""
    calls: list[FleetProblem] = []

    def interrupted(fleet: FleetProblem, *others: Any) -> FleetSolution:
        calls.append(fleet)
        if len(calls) >= solves:
            raise Stopped
        return solve_fleet(fleet, *others)

    monkeypatch.setattr(bench, "solve_fleet", interrupted)
    error = infeasible(planner.case_from_text(with_policy("max_gpus: {l40s: 1}")))
    assert [(r.limit, r.proved_smallest) for r in error.remedies] == [("policy.max_gpus.l40s", k) for k in known]
    assert "Not everything was tried: interrupted." in str(error)
    assert len(calls) == solves


def test_remedies_keep_the_time_limit() -> None:
    case = planner.case_from_text(with_policy("max_gpus: {l40s: 1}"))
    tried = attempt(case, Options())
    assert tried.candidates is not None
    assert tried.fleet is not None
    error = explain_infeasibility(case, tried.candidates, tried.fleet, Options(time_limit_s=1e-4))
    assert error.remedies == ()
    assert "Not everything was tried: the time limit was reached." in str(error)


def test_work_that_may_wait_on_what_nobody_sells_is_infeasible() -> None:
    """Three-year terms outlast the quarter, and nothing else is on the menu."""
    text = """\
workloads:
  - {name: reports, models: [llama-3.1-8b], forecast: {requests_per_day: 50k}, deadline: 12h}
  - {name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 900k}}
menu: {gpus: [h100], purchase: [reserved-3y], apis: []%s}
baseline: openai/gpt-4o-mini
"""
    for more in ("", ", max_deployments: 2"):
        for limit_s in (None, 600.0):
            tried = attempt(planner.case_from_text(text % more), Options(time_limit_s=limit_s))
            assert tried.outcome is Outcome.INFEASIBLE


def test_the_command_lists_remedies_and_exits_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = with_policy("budget_usd_per_month: $5", SMALL.replace("purchase:", "max_deployments: 1, purchase:"))
    (tmp_path / "tight.yaml").write_text(text, encoding="utf-8")
    ran = Command(monkeypatch, capsys)("plan", tmp_path / "tight.yaml")
    assert (ran.code, ran.out) == (3, "")
    lines = ran.err.splitlines()
    assert lines[:2] == ["no fleet can meet this demand:", "This change would be enough:"]
    said = re.fullmatch(
        r"  raise the budget from \$5\.00 to \$([\d,]+) a month \(policy\.budget_usd_per_month\): "
        r"a plan then costs \$([\d,]+) a month",
        lines[2],
    )
    assert said is not None
    budget, cost = (int(figure.replace(",", "")) for figure in said.groups())
    assert budget - 1 <= cost <= budget  # one is rounded up, the other rounded
