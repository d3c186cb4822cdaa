"""A time limit holds while a horizon is formulated, too."""

from __future__ import annotations

import time

import pytest

import planner
from planner.case.quarters import Block as QuarterBlock
from planner.io.errors import OutOfTime
from planner.optimization import horizon as planning
from planner.optimization.horizon_work import HorizonWork, Quarter
from planner.pipeline import attempt_horizon
from solvers.search.fleet_solution import Outcome, Progress
from tests.support.horizon_plans import horizon_case


@pytest.fixture
def slow_quarters(monkeypatch: pytest.MonkeyPatch) -> None:
    real = HorizonWork._quarter

    def slow(self: HorizonWork, of: QuarterBlock, known: Quarter | None) -> Quarter | None:
        found = real(self, of, known)
        time.sleep(60 if of.quarter else 0)
        return found

    monkeypatch.setattr(HorizonWork, "_quarter", slow)
    monkeypatch.setattr(planning, "FORMULATING_FRAC", 1.0)


@pytest.mark.usefixtures("slow_quarters")
def test_a_limit_that_comes_while_formulating_is_said_in_one_sentence() -> None:
    heard: list[str] = []

    def hear(progress: Progress) -> None:
        heard.append(progress.phase)

    with pytest.raises(OutOfTime) as stopped:
        planner.plan_horizon(horizon_case(), planner.Options(time_limit_s=2.0), hear)
    assert "the time limit of 2 s was reached while working out ways to serve quarter" in str(stopped.value)
    assert "try --time-limit" in str(stopped.value)
    assert heard[0] == "working out ways to serve quarter 1 of 3"


@pytest.mark.usefixtures("slow_quarters")
def test_an_attempt_that_ran_out_of_time_has_no_plan() -> None:
    tried = attempt_horizon(horizon_case(), planner.Options(time_limit_s=1.0))
    assert tried.outcome is Outcome.NOT_FOUND
    assert tried.plan is None
