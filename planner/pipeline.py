"""The spine, on one page: a case becomes a plan.

    YAML -> Case -> candidates -> recipes <-> master -> Plan -> report

A what-if is a changed copy of a case, planned again. Nothing here prints, and no plan leaves unchecked. A time limit
holds for all of it, and from the first plan on a wish to stop costs nothing but what was not worked out yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.candidates.enumerate import Candidates, enumerate_candidates
from planner.case.case import Case
from planner.case.changes import with_limits
from planner.case.quarters import block_case, block_name, blocks_of, future_of
from planner.case.slots import MONTHS_OF_A_QUARTER, slots_of
from planner.checker import check_plan
from planner.explanations.infeasible import explain_infeasibility, remedies_in_words
from planner.explanations.relaxations import Infeasible, Relaxation
from planner.io.errors import OutOfTime, input_error
from planner.io.formatting import usd
from planner.optimization.assemble import ContradictoryPlan, assemble_plan, with_all_options, with_cost_range
from planner.optimization.assumed_limits import with_assumed_limits
from planner.optimization.formulate import formulate
from planner.optimization.horizon import NoHorizonPlan
from planner.optimization.horizon import plan_horizon as plan_blocks
from planner.optimization.replan import to_compare
from planner.optimization.simpler import cuts_of, simplest
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import LeftOut, Part, Plan
from planner.plan.study_records import Why
from problems.fleet_problem import FleetProblem
from solvers.backends.clock import Limit, Stopped, TimeIsUp, check, limited_to, stop_is_asked, undisturbed
from solvers.heuristics.incumbent import Incumbent, limits_are_kept
from solvers.heuristics.incumbent import complete as complete_paths
from solvers.heuristics.local_search import simplest_plan
from solvers.search.fleet_solution import COLD_START, FleetSolution, Options, Outcome, Progress, WarmStart, outcome_of
from solvers.search.fleet_solver import solve_fleet

REPORT_FRAC, MOST_REPORT_S = 0.15, 30.0
"""share of a time limit, and the most of it, that is kept for what completes the report"""
COMPARED_GAP_FRAC = 0.0025
"""of plans that only show what the cheapest one saves"""
SAME = 1e-9
FINISHING = 1.5
"""times as long as for the first plan, that putting the last one together and checking it may take"""
KEEP_AFTER_S, KEEP_FRAC = 3.0, 0.02
"""of a search until its best plan is put together and checked on the way, and the share of its time for that"""
COMPARING = "comparing what can serve each workload"
WORKING_OUT = "working out ways to serve each workload"
FIRST_PLAN = "looking for a first plan"
PUTTING_TOGETHER = "putting the plan together"
FIRST_PLAN_TAKES = {COMPARING: 2.5, WORKING_OUT: 2.0, FIRST_PLAN: 1.5}
"""times as long as it took to come so far: a guess for those who ran out of time"""


@dataclass(frozen=True, eq=False)
class Kept:
    """A plan that passed its check, in case that nothing more comes of it."""

    plan: Plan
    missing: tuple[Part, ...]
    """what is not worked out yet"""
    searching: bool = False
    """a better one is still being looked for"""

    def ended(self, why: Why) -> Plan:
        """The plan with the reason why that is all of it."""
        left_out = (*(self.plan.left_out or ()), *(LeftOut(what=what, why=why) for what in self.missing))
        status = "interrupted" if self.searching and why == "interrupted" else self.plan.status
        return self.plan.model_copy(update={"left_out": left_out or None, "status": status})


OnKept = Callable[[Kept], None]


class BrokenPlan(RuntimeError):
    """The checker refused what the optimizer made: a defect of fleetplan, never shown as a plan."""


def plan_fleet(
    case: Case,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_kept: OnKept = lambda kept: None,
    complete: bool = True,
) -> Plan:
    """The cheapest fleet for a case, checked. `on_kept` gets what there is on the way, should this process end.
    One that is not complete is as cheap and as well checked, but compares nothing with it.

    Raises Infeasible where no fleet can do it, and OutOfTime where the time limit came before the first plan.
    """
    options, started = options or Options(), time.monotonic()
    tried = attempt(case, options, on_progress, complete=complete, on_kept=on_kept)
    if tried.plan is not None:
        return _as_simple_as_asked(tried.plan, tried.simplest, options, started, on_progress)
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


def plan_to_compare(
    case: Case, options: Options | None = None, on_progress: Callable[[Progress], None] = lambda progress: None
) -> Plan:
    """As plan_fleet, for who reads of the plan what it costs and buys: nothing is worked out beside it."""
    return plan_fleet(case, options, on_progress, complete=bool(case.limits.choose_simplest))


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
    simplest: Case | None = None
    """whose plan is the simplest one near it, where the policy asks for that plan"""

    @property
    def interrupted(self) -> bool:
        return self.outcome is Outcome.INTERRUPTED


def attempt(
    case: Case,
    options: Options,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    complete: bool = False,
    on_kept: OnKept | None = None,
) -> Attempt:
    """Like plan_fleet, but returns an Attempt instead of raising Infeasible or OutOfTime.

    A plan that is not asked to be complete lists the chosen options alone, and no range of its cost.
    """
    if case.future is not None:
        message = "has a horizon or scenarios, but this plans one quarter"
        remedy = "'fleetplan plan FILE --out h.json' plans it; then give h.json"
        raise input_error(case.name, message, remedy)
    doing = ""

    def tell(phase: str) -> None:
        nonlocal doing
        doing = phase
        on_progress(Progress(phase, None, None))

    with limited_to(options.time_limit_s) as limit:
        try:
            tell(COMPARING)
            candidates = enumerate_candidates(case, on_step=check)
            tell(WORKING_OUT)
            fleet = formulate(case, candidates, slots_of(case))
            work = _Work(case, candidates, fleet, options)
            tell(FIRST_PLAN)
            known, finish_s = COLD_START, 0.0
            if options.time_limit_s is not None:
                known, finish_s = _first_plan(work, on_kept)
        except TimeIsUp as stop:
            if not limit.ended(stop):
                raise
            return Attempt(Outcome.NOT_FOUND, None, doing=doing)
    heard = on_progress if on_kept is None else _Keeping(work, on_progress, on_kept)
    solution = _searched(fleet, options, limit, finish_s, known, heard)
    if solution.best is None:
        return Attempt(solution.outcome, None, candidates, fleet, doing)
    tell(PUTTING_TOGETHER)
    with undisturbed():
        plan = _checked_best(work, solution)
    if complete:
        latest = replace(limit, deadline=limit.deadline - finish_s)
        plan = _completed(work, plan, solution, latest, tell, on_kept or (lambda kept: None))
    return Attempt(solution.outcome, plan, candidates, fleet, simplest=work.simplest)


@dataclass(eq=False)
class _Work:
    """What a plan is put together from, beside the solution."""

    case: Case
    candidates: Candidates
    fleet: FleetProblem
    options: Options
    simplest: Case | None = None

    def assembled(self, solution: FleetSolution) -> Plan:
        return assemble_plan(self.case, self.candidates, self.fleet, solution, self.options)

    def no_worse_than_its_options(self, plan: Plan, solution: FleetSolution) -> Plan:
        """The plan with all options; where these are cheaper together, they are the plan."""
        assert solution.best is not None
        full, cheapest = with_all_options(plan, self.candidates, self.fleet, solution.best)
        together = complete_paths(self.fleet, tuple(cheapest)) if cheapest else None
        if together is None or together.objective >= solution.objective * (1 - SAME):
            return full
        solution.offer(self.fleet, together)
        solution.outcome = outcome_of(solution, self.options)
        return with_all_options(self.assembled(solution), self.candidates, self.fleet, together)[0]


def _first_plan(work: _Work, on_kept: OnKept | None) -> tuple[WarmStart, float]:
    """A plan to begin with, and how long the last one will take from solution to checked plan."""
    first = simplest_plan(work.fleet)
    if first is None:
        return COLD_START, 0.0
    started = time.monotonic()
    solution = FleetSolution()
    solution.offer(work.fleet, first)
    plan = work.assembled(solution)
    broken = check_plan(plan.as_json(), screened=True)
    finish_s = FINISHING * (time.monotonic() - started)
    if on_kept is not None and not broken:
        on_kept(Kept(plan, _parts_of(plan), searching=True))
    return WarmStart(start=first), finish_s


class _Keeping:
    """Hears how a search goes on, and keeps its best plan now and then: put together, and checked."""

    def __init__(self, work: _Work, on_progress: Callable[[Progress], None], on_kept: OnKept) -> None:
        self.work, self.on_progress, self.on_kept = work, on_progress, on_kept
        self.not_before = time.monotonic() + KEEP_AFTER_S
        self.kept: Incumbent | None = None

    def __call__(self, progress: Progress) -> None:
        self.on_progress(progress)
        solution, began = progress.solution, time.monotonic()
        if solution is None or solution.best is None or solution.best is self.kept or began < self.not_before:
            return
        self.kept = solution.best
        if limits_are_kept(self.work.fleet, solution.best):  # a search without the budget comes before one with it
            self._keep(replace(solution, outcome=outcome_of(solution, self.work.options)))
        took = time.monotonic() - began
        self.not_before = began + max(KEEP_AFTER_S, took / KEEP_FRAC)

    def _keep(self, solution: FleetSolution) -> None:
        """Keep it if it passes; what is wrong with it is for the end of the search to say."""
        try:
            with undisturbed():
                plan = self.work.assembled(solution)
                broken = check_plan(plan.as_json(), screened=True)
        except ContradictoryPlan:
            return
        if not broken:
            self.on_kept(Kept(plan, _parts_of(plan), searching=True))


def _parts_of(plan: Plan) -> tuple[Part, ...]:
    """What a plan is completed with, in this order."""
    parts: tuple[Part, ...] = ("options", "if_throughput_is_off", "assumed_limits")
    return (*parts, "simpler") if next(cuts_of(plan), None) is not None else parts


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
    solution = FleetSolution()
    solution.offer(fleet, known.start)
    solution.outcome = Outcome.NOT_FOUND if solution.best is None else Outcome.FEASIBLE
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
    work: _Work, plan: Plan, solution: FleetSolution, limit: Limit, tell: Callable[[str], None], on_kept: OnKept
) -> Plan:
    """The plan with all options, the range of its cost and what assumed limits cost, as far as time allows; what is
    missing is named.
    """
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
        asked = replace(work.options, time_limit_s=left_s)
        return with_cost_range(plan, work.candidates, work.fleet, solution.best, asked)

    def assumed_limits(left_s: float | None) -> Plan:
        tell("trying the plan without the assumed limits")
        return with_assumed_limits(plan, work.fleet, replace(work.options, time_limit_s=left_s))

    def beside_the_simplest(left_s: float | None) -> Plan:
        with limited_to(left_s):
            found, case = simplest(plan, lambda case, what: _planned_to_compare(case, work.options, what, tell))
        work.simplest = case if plan.case.limits.choose_simplest and any(r.done for r in found.reductions) else None
        return plan.model_copy(update={"simpler": found})

    ways: dict[Part, Callable[[float | None], Plan]] = {
        "options": options,
        "if_throughput_is_off": cost_range,
        "assumed_limits": assumed_limits,
        "simpler": beside_the_simplest,
    }
    parts = _parts_of(plan)
    for k, what in enumerate(parts):
        try:
            if stopped is None:
                on_kept(Kept(plan, parts[k:]))
                plan = checked(ways[what](limit.left_s if limited else None))
                continue
        except Stopped as stop:
            stopped = why(stop)
        left_out.append(LeftOut(what=what, why=stopped))
    return plan.model_copy(update={"left_out": tuple(left_out)}) if left_out else plan


def _planned_to_compare(case: Case, options: Options, what: str, tell: Callable[[str], None]) -> Plan | None:
    """The checked plan of a changed case, with as much work as a comparison is worth; None where none was found."""
    tell(what)
    less = replace(to_compare(options), gap_frac=max(COMPARED_GAP_FRAC, options.gap_frac))
    candidates = enumerate_candidates(case, on_step=check)
    work = _Work(case, candidates, formulate(case, candidates, slots_of(case)), less)
    solution = solve_fleet(work.fleet, less, lambda progress: tell(f"{what}, {progress.phase}"))
    if solution.outcome is Outcome.INTERRUPTED:
        raise Stopped
    return None if solution.best is None else _checked_best(work, solution)


def _as_simple_as_asked(
    plan: Plan, simplest: Case | None, options: Options, started: float, on_progress: Callable[[Progress], None]
) -> Plan:
    """The simplest plan near the cheapest one where the policy asks for it and time allows, else the cheapest."""
    if simplest is None:
        return plan
    limit_s = options.time_limit_s
    left_s = None if limit_s is None else limit_s - (time.monotonic() - started)
    if left_s is not None and left_s <= 0:
        return plan
    simple = attempt(simplest, replace(options, time_limit_s=left_s), on_progress, complete=True).plan
    if simple is None or plan.simpler is None:
        return plan
    return simple.model_copy(update={"simpler": plan.simpler.model_copy(update={"chosen": True})})


def plan_horizon(
    case: Case,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_kept: Callable[[HorizonPlan], None] | None = None,
) -> HorizonPlan:
    """What to sign now and later, and a plan for each quarter and scenario, checked; `on_kept` gets the plan before
    it is compared with others.

    Raises Infeasible where a quarter has no plan; the reasons name it and its scenario. Raises OutOfTime where the time
    limit came before the first plan.
    """
    options, started = options or Options(), time.monotonic()
    try:
        return _checked_horizon(case, options, on_progress, on_kept=on_kept)
    except NoHorizonPlan as none:
        took, limit_s = time.monotonic() - started, options.time_limit_s
        if limit_s is not None and not none.proved and none.beyond is None and took >= (1 - REPORT_FRAC) * limit_s:
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
    case: Case,
    options: Options,
    on_progress: Callable[[Progress], None],
    compare: bool = True,
    on_kept: Callable[[HorizonPlan], None] | None = None,
) -> HorizonPlan:
    """The plan of a horizon, checked."""

    def keep(plan: HorizonPlan) -> None:
        if on_kept is not None:
            on_kept(_checked_blocks(plan))

    planned = _checked_blocks(plan_blocks(case, options, on_progress, compare, keep))
    late = stop_is_asked() and not planned.interrupted
    return planned.model_copy(update={"stopped": "interrupted"}) if late else planned


def _checked_blocks(plan: HorizonPlan) -> HorizonPlan:
    """The plan of a horizon, once the checker has nothing against it."""
    with undisturbed():
        _must_be_empty(check_plan(plan.as_json(), screened=True))
    return plan


def _without_a_plan(
    case: Case, none: NoHorizonPlan, options: Options, on_progress: Callable[[Progress], None]
) -> Infeasible:
    """Why a quarter of a horizon has no plan: what an ordinary case of it would say."""
    if not none.block:
        together = "together"
        if case.limits.budget_usd is not None:
            budget = f"{usd(case.limits.budget_usd)} a {case.limits.budget_period}"
            together = f"within the budget of {budget} (policy.budget)"
        why = f"each quarter can be planned by itself, but not all of them {together}"
        if none.beyond is None:
            return Infeasible(case.name, (why,), none.proved)
        enough, period = none.beyond.case.limits.budget_usd or 0.0, case.limits.budget_period
        said = f"raise the budget from {usd(case.limits.budget_usd or 0.0)} to {usd(enough)} a {period} (policy.budget)"
        cost = none.beyond.expected_cost_usd / (MONTHS_OF_A_QUARTER * future_of(case).quarters)
        remedy = Relaxation("policy.budget", said, with_limits(budget_usd=enough), cost, False)
        said_of_all = (why, *remedies_in_words([remedy]))
        return Infeasible(case.name, said_of_all, none.proved, (remedy,), _checked_blocks(none.beyond))
    reasons: tuple[str, ...] = ("it can be planned by itself, but not together with the other quarters and scenarios",)
    proved = none.proved
    remedies: tuple[Relaxation, ...] = ()
    for block in blocks_of(case):
        if block_name(block.quarter, block.scenario) == none.block:
            try:
                plan_fleet(block_case(case, block), options, on_progress)
            except Infeasible as found:
                reasons, proved, remedies = found.reasons, found.proved, found.remedies
            except OutOfTime:
                reasons, proved = ("the time limit was reached before a plan was found",), False
    return Infeasible(case.name, (f"in {none.block}:", *reasons), proved, remedies)


def why(stop: Stopped) -> Why:
    """Whether the clock or somebody ended the work."""
    return "time-limit" if isinstance(stop, TimeIsUp) else "interrupted"


def checked(plan: Plan) -> Plan:
    """The plan, once the checker has nothing against it."""
    with undisturbed():
        _must_be_empty(check_plan(plan.as_json(), screened=True))
    return plan


def _must_be_empty(problems: list[str]) -> None:
    if problems:
        raise BrokenPlan("the plan failed its own check: " + "; ".join(problems))
