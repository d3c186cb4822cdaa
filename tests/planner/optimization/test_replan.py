"""Changed cases have one rule: each is planned once, half a search is no result, and the clock ends all of them."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.case.case import Case
from planner.case.changes import with_limits
from planner.optimization import replan
from planner.optimization.replan import Replanner, to_compare
from solvers.backends.deadline import TimeIsUp
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress
from tests.support.command_line import SMALL

pytestmark = pytest.mark.slow


@pytest.fixture
def case() -> Case:
    return planner.case_from_text(SMALL)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """Options of the searches so far, none of which looks for anything."""
    seen: list[Options] = []

    def search(fleet: Any, options: Options, tell: Any) -> FleetSolution:
        seen.append(options)
        tell(Progress("pricing", None, None))
        return FleetSolution(outcome=Outcome.NOT_FOUND)

    monkeypatch.setattr(replan, "solve_fleet", search)
    return seen


def test_a_case_is_solved_once_for_the_same_question(case: Case, searched: list[Options]) -> None:
    replanner = Replanner(case, Options())
    same = with_limits(budget_usd_per_month=None)(case)
    assert replanner.solve(case, "a") is replanner.solve(same, "b")
    assert replanner.possible(case, "c") is not replanner.solve(case, "d")
    replanner.solve(with_limits(budget_usd_per_month=1.0)(case), "e")
    assert len(searched) == 3


def test_what_is_compared_is_limited_by_work_and_not_by_a_clock(case: Case, searched: list[Options]) -> None:
    Replanner(case, to_compare(Options(time_limit_s=5.0)), total_s=600).solve(case, "")
    (options,) = searched
    assert options.time_limit_s is None
    assert options.round_limit == replan.ROUNDS


def test_progress_says_which_case_and_what_goes_on(case: Case, searched: list[Options]) -> None:
    seen: list[Progress] = []
    Replanner(case, Options(), seen.append).solve(case, "1 of 2: without spot")
    assert [p.phase for p in seen] == ["1 of 2: without spot, pricing"]


def test_half_a_search_is_no_result_and_nothing_follows_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def interrupted(*_: object) -> FleetSolution:
        calls.append(1)
        return FleetSolution(outcome=Outcome.INTERRUPTED)

    monkeypatch.setattr(replan, "solve_fleet", interrupted)
    replanner = Replanner(case, Options())
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            replanner.solve(case, "")
    assert len(calls) == 1
    assert replanner.stopped == "interrupted"


def test_the_time_for_all_cases_and_their_number_are_limited(case: Case, searched: list[Options]) -> None:
    late = Replanner(case, Options(), total_s=0.0)
    with pytest.raises(TimeIsUp):
        late.solve(case, "")
    assert late.stopped == "the time limit was reached"
    few = Replanner(case, Options(), most_cases=1)
    few.solve(case, "")
    with pytest.raises(KeyboardInterrupt):
        few.possible(case, "")
    assert few.stopped == "the search ended after 1 changed cases"
    assert few.solve(case, "") is not None
