"""The spine, on one page: a case becomes a plan.

    YAML -> Case -> candidates -> recipes <-> master -> Plan -> report

A what-if is a changed copy of a case, planned again. Nothing here prints, and no plan leaves unchecked. A time limit
holds for all of it, and from the first plan on an interruption costs nothing but what was not worked out yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.candidates.enumerate import Candidates, enumerate_candidates
from planner.case.case import Case
from planner.case.horizon import slots_of
from planner.case.quarters import block_case, blocks_of
from planner.checker import check_plan
from planner.checker.horizon import check_horizon
from planner.explanations.infeasible import explain_infeasibility
from planner.explanations.relaxations import Infeasible, Relaxation
from planner.io.errors import OutOfTime, input_error
from planner.optimization.assemble import ContradictoryPlan, assemble_plan, with_all_options, with_cost_range
from planner.optimization.formulate import formulate
from planner.optimization.horizon import NoHorizonPlan
from planner.optimization.horizon import plan_horizon as plan_blocks
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import LeftOut, Part, Plan
from planner.plan.study_records import Why
from problems.fleet_problem import FleetProblem
from solvers.backends.deadline import Held, Limit, TimeIsUp, interruptions_deferred, interruptions_held, limited_to
from solvers.heuristics.incumbent import complete as complete_paths
from solvers.heuristics.local_search import simplest_plan
from solvers.search.fleet_solution import COLD_START, FleetSolution, Options, Outcome, Progress, WarmStart, outcome_of
from solvers.search.fleet_solver import solve_fleet

REPORT_FRAC, MOST_REPORT_S = 0.15, 30.0
"""share of a time limit, and the most of it, that is kept for what completes the report"""
SAME = 1e-9
FINISHING = 1.5
"""times as long as for the first plan, that putting the last one together and checking it may take"""
COMPARING = "comparing what can serve each workload"
WORKING_OUT = "working out ways to serve each workload"
FIRST_PLAN = "looking for a first plan"
FIRST_PLAN_TAKES = {COMPARING: 2.5, WORKING_OUT: 2.0, FIRST_PLAN: 1.5}
"""times as long as it took to come so far: a guess for those who ran out of time"""


class BrokenPlan(RuntimeError):
    """The checker refused what the optimizer made: a defect of fleetplan, never shown as a plan."""


def plan_fleet(
    case: Case,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Plan:
    """The cheapest fleet for a case, checked.

    Raises Infeasible where no fleet can do it, and OutOfTime where the time limit came before the first plan.
    """
    options, started = options or Options(), time.monotonic()
    tried = attempt(case, options, on_progress, complete=True)
    if tried.plan is not None:
        return tried.plan
    took = time.monotonic() - started
    limit_s = options.time_limit_s
    proved = tried.outcome is Outcome.INFEASIBLE
    if limit_s is not None and not proved and took >= (1 - REPORT_FRAC) * limit_s:
        raise OutOfTime(limit_s, tried.doing, FIRST_PLAN_TAKES[tried.doing] * took)
    left_s = None if limit_s is None else limit_s - took
    assert tried.candidates is not None
    assert tried.fleet is not None
    raise explain_infeasibility(
        case, tried.candidates, tried.fleet, replace(options, time_limit_s=left_s), on_progress, proved
    )


@dataclass(frozen=True, eq=False)
class Attempt:
    """The result of planning a case."""

    outcome: Outcome
    plan: Plan | None
    """checked; None where there is none, or none was found"""
    candidates: Candidates | None = None
    fleet: FleetProblem | None = None
    """None where time was up before they were known"""
    doing: str = ""
    """what was going on when the time was up"""

    @property
    def interrupted(self) -> bool:
        return self.outcome is Outcome.INTERRUPTED


def attempt(
    case: Case,
    options: Options,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    complete: bool = False,
) -> Attempt:
    """Like plan_fleet, but returns an Attempt instead of raising Infeasible or OutOfTime.

    A plan that is not asked to be complete lists the chosen options alone, and no range of its cost.
    """
    if case.future is not None:
        message = "has a horizon or scenarios, and this plans one quarter"
        remedy = "'fleetplan plan FILE --out h.json' plans it; then give h.json with --quarter 1"
        raise input_error(case.name, message, remedy)
    doing = ""

    def tell(phase: str) -> None:
        nonlocal doing
        doing = phase
        on_progress(Progress(phase, None, None))

    with limited_to(options.time_limit_s) as limit:
        try:
            tell(COMPARING)
            candidates = enumerate_candidates(case)
            tell(WORKING_OUT)
            fleet = formulate(case, candidates, slots_of(case))
            work = _Work(case, candidates, fleet, options)
            tell(FIRST_PLAN)
            known, finish_s = _first_plan(work) if options.time_limit_s is not None else (COLD_START, 0.0)
        except TimeIsUp as stop:
            if not limit.ended(stop):
                raise
            return Attempt(Outcome.NOT_FOUND, None, doing=doing)
    solution = _searched(fleet, options, limit, finish_s, known, on_progress)
    if solution.best is None:
        return Attempt(solution.outcome, None, candidates, fleet, doing)
    # A complete plan says what an interruption left out of it; others have no place for that.
    with interruptions_held() if complete else interruptions_deferred() as held:
        tell("putting the plan together")
        plan = _checked_best(work, solution)
        if complete:
            plan = _completed(work, plan, solution, replace(limit, deadline=limit.deadline - finish_s), held, tell)
    return Attempt(solution.outcome, plan, candidates, fleet)


@dataclass(frozen=True, eq=False)
class _Work:
    """What a plan is put together from, beside the solution."""

    case: Case
    candidates: Candidates
    fleet: FleetProblem
    options: Options

    def assembled(self, solution: FleetSolution) -> Plan:
        return assemble_plan(self.case, self.candidates, self.fleet, solution, self.options)

    def no_worse_than_its_options(self, plan: Plan, solution: FleetSolution) -> Plan:
        """The plan with all options; where these are cheaper together, they are the plan."""
        assert solution.best is not None
        full, cheapest = with_all_options(plan, self.candidates, self.fleet, solution.best)
        together = complete_paths(self.fleet, tuple(cheapest)) if cheapest else None
        if together is None or together.objective >= solution.objective * (1 - SAME):
            return full
        solution.offer(together)
        solution.outcome = outcome_of(solution, self.options)
        return with_all_options(self.assembled(solution), self.candidates, self.fleet, together)[0]


def _first_plan(work: _Work) -> tuple[WarmStart, float]:
    """A plan to begin with, and how long the last one will take from solution to checked plan."""
    first = simplest_plan(work.fleet)
    if first is None:
        return COLD_START, 0.0
    started = time.monotonic()
    solution = FleetSolution()
    solution.offer(first)
    check_plan(work.assembled(solution).as_json(), screened=True)
    return WarmStart(start=first), FINISHING * (time.monotonic() - started)


def _searched(
    fleet: FleetProblem,
    options: Options,
    limit: Limit,
    finish_s: float,
    known: WarmStart,
    on_progress: Callable[[Progress], None],
) -> FleetSolution:
    """Search for as long as the limit allows, with time left to put the plan together and to complete the report."""
    if options.time_limit_s is None:
        return solve_fleet(fleet, options, on_progress, known)
    report_s = min(REPORT_FRAC * options.time_limit_s, MOST_REPORT_S)
    search_s = limit.left_s - finish_s - report_s
    if search_s > 0:
        return solve_fleet(fleet, replace(options, time_limit_s=search_s), on_progress, known)
    solution = FleetSolution(outcome=Outcome.NOT_FOUND if known.start is None else Outcome.FEASIBLE)
    solution.offer(known.start)
    return solution


def _checked_best(work: _Work, solution: FleetSolution) -> Plan:
    """The best plan that the checker has nothing against; a better one that it refuses is dropped, and that is said."""
    while True:
        usd, broken = solution.objective, []
        try:
            plan = work.assembled(solution)
            broken = check_plan(plan.as_json(), screened=True)
            if not broken:
                return plan
        except ContradictoryPlan as defect:
            broken = [str(defect)]
        if not solution.fall_back(work.options):
            _must_be_empty(broken)
        solution.notes = [
            *solution.notes,
            f"a candidate for ${usd:,.0f} a month failed the check and was dropped: {broken[0]}",
        ]


def _completed(
    work: _Work, plan: Plan, solution: FleetSolution, limit: Limit, held: Held, tell: Callable[[str], None]
) -> Plan:
    """The plan with all options and the range of its cost, as far as time allows; what is missing is named."""
    limited = work.options.time_limit_s is not None
    left_out: list[LeftOut] = []
    stopped: Why | None = "interrupted" if solution.outcome is Outcome.INTERRUPTED else None

    def options(left_s: float | None) -> Plan:
        tell("comparing options")
        with limited_to(left_s):
            return work.no_worse_than_its_options(plan, solution)

    def cost_range(left_s: float | None) -> Plan:
        tell("trying other throughputs")
        assert solution.best is not None
        return with_cost_range(plan, work.candidates, work.fleet, solution.best, left_s)

    parts: tuple[tuple[Part, Callable[[float | None], Plan]], ...] = (
        ("options", options),
        ("if_throughput_is_off", cost_range),
    )
    for what, completed in parts:
        stopped = stopped or (why(held.came[0]) if held.came else None)
        try:
            if stopped is None:
                with held.let_in():
                    plan = checked(completed(limit.left_s if limited else None))
                continue
        except KeyboardInterrupt as stop:
            stopped = why(stop)
        left_out.append(LeftOut(what=what, why=stopped))
    return plan.model_copy(update={"left_out": tuple(left_out)}) if left_out else plan


def plan_horizon(
    case: Case,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> HorizonPlan:
    """What to sign now and later, and a plan for each quarter and scenario, checked.

    Raises Infeasible where a quarter has no plan; the reasons name it and its scenario. Raises OutOfTime where the time
    limit came before the first plan.
    """
    options, started = options or Options(), time.monotonic()
    try:
        return _checked_horizon(case, options, on_progress)
    except NoHorizonPlan as none:
        took, limit_s = time.monotonic() - started, options.time_limit_s
        if limit_s is not None and not none.proved and took >= (1 - REPORT_FRAC) * limit_s:
            raise OutOfTime(limit_s, FIRST_PLAN, FIRST_PLAN_TAKES[FIRST_PLAN] * took) from None
        left = replace(options, time_limit_s=None if limit_s is None else max(1.0, limit_s - took))
        raise _without_a_plan(case, none, left, on_progress) from None


@dataclass(frozen=True, eq=False)
class HorizonAttempt:
    """The result of planning a horizon."""

    outcome: Outcome
    plan: HorizonPlan | None
    """checked; None where there is none, or none was found"""
    without_a_plan: str = ""
    """the quarter, and its scenario, that has none"""

    @property
    def interrupted(self) -> bool:
        return self.outcome is Outcome.INTERRUPTED


def attempt_horizon(
    case: Case, options: Options, on_progress: Callable[[Progress], None] = lambda progress: None
) -> HorizonAttempt:
    """Like plan_horizon, but returns a HorizonAttempt instead of raising Infeasible or OutOfTime, and compares no other
    plan.
    """
    try:
        planned = _checked_horizon(case, options, on_progress, compare=False)
    except NoHorizonPlan as none:
        return HorizonAttempt(Outcome.INFEASIBLE if none.proved else Outcome.NOT_FOUND, None, none.block)
    except OutOfTime:
        return HorizonAttempt(Outcome.NOT_FOUND, None)
    return HorizonAttempt(Outcome.INTERRUPTED if planned.interrupted else Outcome(planned.status), planned)


def _checked_horizon(
    case: Case, options: Options, on_progress: Callable[[Progress], None], compare: bool = True
) -> HorizonPlan:
    """The plan of a horizon, checked; once there is one, nothing that interrupts loses it."""
    with interruptions_held() as held:
        planned = plan_blocks(case, options, held, on_progress, compare)
        _must_be_empty(check_horizon(planned.as_json(), screened=True))
    late = held.by_somebody and not planned.interrupted
    return planned.model_copy(update={"stopped": "interrupted"}) if late else planned


def _without_a_plan(
    case: Case, none: NoHorizonPlan, options: Options, on_progress: Callable[[Progress], None]
) -> Infeasible:
    """Why a quarter of a horizon has no plan: what an ordinary case of it would say."""
    if not none.block:
        return Infeasible(case.name, ("every quarter has a plan by itself, but not all of them together",), none.proved)
    reasons: tuple[str, ...] = ("it has a plan by itself, but not together with the other quarters and scenarios",)
    proved = none.proved
    remedies: tuple[Relaxation, ...] = ()
    for block in blocks_of(case):
        name = f"quarter {block.quarter + 1}" + (f", {block.scenario}" if block.scenario else "")
        if name == none.block:
            try:
                plan_fleet(block_case(case, block), options, on_progress)
            except Infeasible as found:
                reasons, proved, remedies = found.reasons, found.proved, found.remedies
            except OutOfTime:
                reasons, proved = ("the time limit was reached before a plan was found",), False
    return Infeasible(case.name, (f"in {none.block}:", *reasons), proved, remedies)


def why(stop: KeyboardInterrupt) -> Why:
    """Whether the clock or somebody interrupted."""
    return "time-limit" if isinstance(stop, TimeIsUp) else "interrupted"


def checked(plan: Plan) -> Plan:
    """The plan, once the checker has nothing against it."""
    _must_be_empty(check_plan(plan.as_json(), screened=True))
    return plan


def _must_be_empty(problems: list[str]) -> None:
    if problems:
        raise BrokenPlan("the plan failed its own check: " + "; ".join(problems))
