"""A horizon, planned: the cheapest commitments and fleets, and what is worth knowing of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from planner.case.case import Case
from planner.case.quarters import budget_periods
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.io.errors import OutOfTime
from planner.io.formatting import usd
from planner.optimization.horizon_answers import Answers, OnProgress
from planner.optimization.horizon_work import HorizonWork
from planner.plan.horizon.horizon_plan import CommitmentCurve, HorizonPlan, MiddlePlan, ScenarioResult
from planner.plan.horizon.horizon_view import baseline_by_quarter, spent_in
from planner.plan.study_records import Why
from solvers.backends.clock import TimeIsUp, limited_to, undisturbed
from solvers.search.fleet_solution import Options, Outcome, Progress
from solvers.search.horizon.horizon_search import HorizonSearch

MAIN_FRAC = 0.5
"""share of what formulating leaves of a time limit for the plan itself; the rest is for what compares it"""
FORMULATING_FRAC = 0.75
"""share of a time limit that formulating may take, so that something can be planned"""
A_PLAN_TAKES = 1.5
"""times as long as formulating: a guess for those who ran out of time"""
FORMULATING = "working out ways to serve quarter {} of {}"


class NoHorizonPlan(RuntimeError):
    """No plan was found for a block of a horizon, or there is none; no block is named where each has one by itself."""

    def __init__(self, block: str, proved: bool, beyond: HorizonPlan | None = None) -> None:
        """`beyond`: a plan that breaks only a budget over several months, as one for the budget that it keeps."""
        super().__init__(block)
        self.block, self.proved, self.beyond = block, proved, beyond


NOTES: dict[Why | None, tuple[str, ...]] = {
    None: (),
    "interrupted": ("interrupted: the figures that are missing were not worked out",),
    "time-limit": ("time ran out: the figures that are missing were not worked out",),
}


def plan_horizon(
    case: Case,
    options: Options,
    on_progress: OnProgress = lambda progress: None,
    compare: bool = True,
    on_found: Callable[[HorizonPlan], None] = lambda plan: None,
) -> HorizonPlan:
    """The cheapest commitments and fleets for a horizon; every quarter's plan is still to be checked.

    Without `compare`, all the time is for the plan, and nothing is worked out that compares it with others; else
    `on_found` gets it before it is compared. Raises NoHorizonPlan where a quarter has none, and OutOfTime where the
    limit comes while the program is written.
    """
    started, limit_s = time.monotonic(), options.time_limit_s
    work = _formulated(case, limit_s, on_progress)
    problem = work.problem()
    share = MAIN_FRAC if compare else 1.0
    left_s = None if limit_s is None else max(1.0, share * (limit_s - (time.monotonic() - started)))
    search = HorizonSearch(problem, replace(options, time_limit_s=left_s), on_progress)
    deadline = np.inf if limit_s is None else started + limit_s
    answers = Answers(work, problem, search, options, deadline, on_progress)
    solution = search.run(answers.worst_case_at_least_usd() if problem.risk.worst_case else 0.0)
    proved_none = solution.outcome is Outcome.INFEASIBLE
    if not solution.blocks:
        beyond = None if solution.without_a_plan else search.beyond_budgets(deadline)
        if beyond is None:
            raise NoHorizonPlan(solution.without_a_plan, proved_none)
        solution, compare = beyond, False
    costs = {s.name: work.cost_in(problem, solution, s.name) for s in work.future.scenarios}
    with undisturbed():
        signed, quarters = work.signed(problem, solution), work.plans(problem, solution, options)
        allowances = work.signed_allowances(problem, solution)
    baselines = {s.name: baseline_by_quarter(case, s.name, quarters) for s in work.future.scenarios}
    answers.stopped = not compare or solution.outcome is Outcome.INTERRUPTED

    def made(
        results: tuple[ScenarioResult, ...],
        stopped: Why | None,
        middle: MiddlePlan | None = None,
        curve: CommitmentCurve | None = None,
        long_terms: float | None = None,
    ) -> HorizonPlan:
        scenarios = tuple(s.model_copy(update={"baseline_by_quarter_usd": baselines[s.name]}) for s in results)
        return HorizonPlan(
            name=case.name,
            status=solution.outcome.value,  # type: ignore[arg-type]
            risk=work.future.risk,
            counted_usd=solution.usd,
            bound_usd=solution.bound_usd,
            gap_frac=solution.gap_frac,
            expected_cost_usd=sum(s.probability_frac * s.cost_usd for s in scenarios),
            worst_scenario=max(scenarios, key=lambda s: s.counted_usd).name,
            held_usd=work.held_usd,
            commitments=signed,
            allowances=allowances,
            quarters=quarters,
            scenarios=scenarios,
            middle=middle,
            curve=curve,
            long_terms_would_save_usd=long_terms,
            stopped=stopped,
            notes=(*solution.notes, *NOTES[stopped]),
            case_hash=case.hash(),
            case=case,
            fleetplan_version=version("fleetplan"),
        )

    if proved_none or not search.solution.blocks:
        plan = made(tuple(answers.not_compared(s, costs[s.name]) for s in work.future.scenarios), None)
        raise NoHorizonPlan("", proved_none, _with_enough_budget(plan))
    if not answers.stopped:
        on_found(made(tuple(answers.not_compared(s, costs[s.name]) for s in work.future.scenarios), "interrupted"))
    scenarios = tuple(answers.scenario(s, costs[s.name]) for s in work.future.scenarios)
    middle = answers.unless_stopped(lambda: answers.middle(scenarios))
    curve = answers.unless_stopped(lambda: answers.curve(solution))
    long_terms = answers.unless_stopped(lambda: answers.long_terms(solution))
    stopped: Why | None = None
    if compare and (answers.stopped or answers.late):
        stopped = "interrupted" if answers.stopped else "time-limit"
    return made(scenarios, stopped, middle, curve, long_terms)


def _with_enough_budget(plan: HorizonPlan) -> HorizonPlan:
    """A plan that breaks only a budget over several months, as one for the least such budget that it keeps to."""
    limits = plan.case.limits
    length = (limits.budget_months or 0) // MONTHS_OF_A_QUARTER
    needed = [
        max(spent_in(plan, period).values()) * length / len(period.quarters) for period in budget_periods(plan.case)
    ]
    enough = float(math.ceil(max(needed)))
    case = plan.case.model_copy(update={"limits": limits.model_copy(update={"budget_usd": enough})})
    name = limits.budget_period
    said = (
        f"for a budget of {usd(enough)} a {name}, where the file has {usd(limits.budget_usd or 0.0)}: nothing is proved"
    )
    return plan.model_copy(update={"case": case, "case_hash": case.hash(), "notes": (*plan.notes, said)})


def as_stopped(plan: HorizonPlan, why: Why) -> HorizonPlan:
    """A plan that is not compared with others, for another reason than it says."""
    notes = tuple(note for note in plan.notes if note not in NOTES["interrupted"])
    return plan.model_copy(update={"stopped": why, "notes": (*notes, *NOTES[why])})


def _formulated(case: Case, limit_s: float | None, on_progress: OnProgress) -> HorizonWork:
    """The blocks of a horizon, within a share of the time limit."""
    started, at = time.monotonic(), (0, 1)

    def tell(done: int, of: int) -> None:
        nonlocal at
        at = (done, of)
        on_progress(Progress(FORMULATING.format(done + 1, of), None, None))

    with limited_to(None if limit_s is None else FORMULATING_FRAC * limit_s) as limit:
        try:
            return HorizonWork(case, on_quarter=tell)
        except TimeIsUp as stop:
            if limit_s is None or not limit.ended(stop):
                raise
            done, of = at
            needed_s = A_PLAN_TAKES * (time.monotonic() - started) * of / max(1, done)
            raise OutOfTime(limit_s, FORMULATING.format(done + 1, of), needed_s) from None
