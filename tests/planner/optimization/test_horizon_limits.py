"""Limits on a horizon: of time while it is formulated, and of money, which names the quarter that needs more."""

from __future__ import annotations

import time

import pytest

import planner
from planner.case.changes import with_limits
from planner.case.quarters import Block as QuarterBlock
from planner.io.errors import OutOfTime
from planner.optimization import horizon as planning
from planner.optimization.horizon_work import HorizonWork, Quarter
from planner.pipeline import attempt_horizon
from solvers.search.fleet_solution import Options, Outcome, Progress
from solvers.search.horizon.horizon_search import HorizonSearch
from solvers.search.horizon.solution import HorizonSolution
from tests.support.horizon_plans import horizon_case


@pytest.fixture
def slow_quarters(monkeypatch: pytest.MonkeyPatch) -> None:
    real = HorizonWork._quarter

    def slow(self: HorizonWork, of: QuarterBlock, known: Quarter | None) -> Quarter | None:
        found = real(self, of, known)
        time.sleep(3 if of.quarter else 0)  # longer than the limits below
        return found

    monkeypatch.setattr(HorizonWork, "_quarter", slow)
    monkeypatch.setattr(planning, "FORMULATING_FRAC", 1.0)


@pytest.mark.usefixtures("slow_quarters")
def test_a_limit_that_comes_while_formulating_is_said_in_one_sentence() -> None:
    heard: list[str] = []

    def hear(progress: Progress) -> None:
        heard.append(progress.phase)

    with pytest.raises(OutOfTime) as stopped:
        planner.plan_fleet(horizon_case(), planner.Options(time_limit_s=2.0), hear)
    assert "the time limit of 2 s was reached while working out ways to serve quarter" in str(stopped.value)
    assert "try --time-limit" in str(stopped.value)
    assert heard[0] == "working out ways to serve quarter 1 of 3"


@pytest.mark.usefixtures("slow_quarters")
def test_an_attempt_that_ran_out_of_time_has_no_plan() -> None:
    tried = attempt_horizon(horizon_case(), planner.Options(time_limit_s=1.0))
    assert tried.outcome is Outcome.NOT_FOUND
    assert tried.plan is None


GROWING = """\
name: growing
starts: 2027-01-01
horizon: 2 quarters
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 500k}
    tokens: {input: 900, output: 180}
    api: forbidden
scenarios:
  - {name: low, probability: 60%}
  - {name: high, probability: 40%, changes: {workloads.chat.forecast.growth_per_month: 15%}}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""


def test_a_budget_names_the_quarter_that_it_is_too_small_for() -> None:
    """Quarter 1 takes $1,778 a month, with two commitments; of what was tried at last, with none, it has no plan."""
    work = HorizonWork(with_limits(budget_usd_per_month=2200.0)(planner.case_from_text(GROWING)))
    found = HorizonSearch(work.problem(), Options(gap_frac=0.01, time_limit_s=None), quick=True).run()
    assert (found.blocks, found.without_a_plan) == ((), "quarter 2, high")


def test_quarters_that_have_plans_but_not_together_are_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HorizonSearch, "run", lambda self, at_least_usd: HorizonSolution())
    with pytest.raises(planner.Infeasible, match="each quarter can be planned by itself, but not all of them together"):
        planner.plan_fleet(horizon_case())
