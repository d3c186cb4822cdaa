"""Changed cases have one rule: each is planned once, half a search is no result, and the clock ends all of them."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.case.case import Case
from planner.case.changes import with_limits
from planner.optimization import replan, throughput_range
from planner.optimization.replan import Experiment, Replanner, to_compare
from planner.optimization.throughput_range import QUICK
from planner.pipeline import plan_fleet
from solvers.backends.clock import Stopped, TimeIsUp
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress, WarmStart
from tests.support.command_line import SMALL


@pytest.fixture
def case() -> Case:
    return planner.case_from_text(SMALL)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """Options of the searches so far, none of which looks for anything."""
    seen: list[Options] = []

    def search(fleet: Any, options: Options, tell: Any, known: WarmStart) -> FleetSolution:
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


def test_a_list_of_experiments_says_how_many_are_left_and_which_were_not_tried(
    case: Case, searched: list[Options]
) -> None:
    seen: list[str] = []

    def stop_at_the_second(progress: Progress) -> None:
        seen.append(progress.phase)
        if len(seen) == 2:
            raise Stopped

    replanner = Replanner(case, Options(), stop_at_the_second)
    run = replanner.run([Experiment(f"budget {usd}", with_limits(budget_usd_per_month=usd)) for usd in (1.0, 2.0, 3.0)])
    assert seen == ["1 of 3: budget 1.0, pricing", "2 of 3: budget 2.0, pricing"]
    assert [answer.outcome for answer in run.found] == [Outcome.NOT_FOUND]
    assert run.not_tried == ("budget 2.0", "budget 3.0")
    assert run.why_not == "interrupted" == replanner.stopped
    assert Replanner(case, Options()).run([]).why_not is None


def test_half_a_search_is_no_result_and_nothing_follows_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def interrupted(*_: object) -> FleetSolution:
        calls.append(1)
        return FleetSolution(outcome=Outcome.INTERRUPTED)

    monkeypatch.setattr(replan, "solve_fleet", interrupted)
    replanner = Replanner(case, Options())
    for _ in range(2):
        with pytest.raises(Stopped):
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
    with pytest.raises(Stopped):
        few.possible(case, "")
    assert few.stopped == "the search ended after 1 changed cases"
    assert few.solve(case, "") is not None


def test_a_closer_search_goes_on_from_the_one_before(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was proved of a case stays proved, and its plan is where the next search begins; no other case has them."""
    begun: list[WarmStart] = []
    search = replan.solve_fleet

    def watched(fleet: Any, options: Options, tell: Any, known: WarmStart) -> FleetSolution:
        begun.append(known)
        return search(fleet, options, tell, known)

    monkeypatch.setattr(replan, "solve_fleet", watched)
    replanner = Replanner(case, to_compare(Options()))
    rough = replanner.solve(case, "", Options(gap_frac=0.5, round_limit=1))
    close = replanner.solve(case, "", Options(gap_frac=0.0, round_limit=25))
    replanner.solve(with_limits(max_gpus_per_replica=1)(case), "")
    assert [known.start for known in begun] == [None, rough.best, None]
    assert rough.bound_usd_per_month <= close.bound_usd_per_month <= close.objective <= rough.objective


@pytest.mark.parametrize(("asked", "searched_to"), [(0.001, QUICK.gap_frac), (0.03, 0.03)])
def test_the_range_of_a_cost_is_searched_no_closer_than_the_plan(
    case: Case, monkeypatch: pytest.MonkeyPatch, asked: float, searched_to: float
) -> None:
    gaps: list[float] = []
    search = throughput_range.solve_fleet

    def watched(fleet: Any, options: Options, tell: Any) -> FleetSolution:
        gaps.append(options.gap_frac)
        return search(fleet, options, tell)

    monkeypatch.setattr(throughput_range, "solve_fleet", watched)
    plan = plan_fleet(case, Options(gap_frac=asked))
    assert plan.if_throughput_is_off is not None
    assert gaps == [searched_to] * 2
