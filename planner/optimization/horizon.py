"""A horizon, planned: the cheapest commitments and fleets, and what is worth knowing of them."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from planner.case.case import Case
from planner.io.errors import OutOfTime
from planner.optimization.horizon_answers import Answers, OnProgress
from planner.optimization.horizon_work import HorizonWork
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.study_records import Why
from solvers.backends.deadline import Held, TimeIsUp, limited_to
from solvers.search.fleet_solution import Options, Outcome, Progress
from solvers.search.horizon import HorizonSearch

MAIN_FRAC = 0.5
"""share of what formulating leaves of a time limit for the plan itself; the rest is for what compares it"""
FORMULATING_FRAC = 0.75
"""share of a time limit that formulating may take, so that something can be planned"""
A_PLAN_TAKES = 1.5
"""times as long as formulating: a guess for those who ran out of time"""
FORMULATING = "working out ways to serve quarter {} of {}"


class NoHorizonPlan(RuntimeError):
    """No plan was found for a block of a horizon, or there is none; no block is named where each has one by itself."""

    def __init__(self, block: str, proved: bool) -> None:
        super().__init__(block)
        self.block, self.proved = block, proved


NOTES: dict[Why | None, tuple[str, ...]] = {
    None: (),
    "interrupted": ("interrupted: what is missing was not worked out",),
    "time-limit": ("the time was up: what is missing was not worked out",),
}


def plan_horizon(
    case: Case,
    options: Options,
    held: Held,
    on_progress: OnProgress = lambda progress: None,
    compare: bool = True,
) -> HorizonPlan:
    """The cheapest commitments and fleets for a horizon; every quarter's plan is still to be checked.

    `held` are the interruptions: they end the search and what compares its plan, and wait while that is put together.
    Without `compare`, all the time is for the plan, and nothing is worked out that compares it with others. Raises
    NoHorizonPlan where a quarter has none, and OutOfTime where the limit comes while the program is written.
    """
    started, limit_s = time.monotonic(), options.time_limit_s
    with held.let_in():
        work = _formulated(case, limit_s, on_progress)
        problem = work.problem()
        share = MAIN_FRAC if compare else 1.0
        left_s = None if limit_s is None else max(1.0, share * (limit_s - (time.monotonic() - started)))
        search = HorizonSearch(problem, replace(options, time_limit_s=left_s), on_progress)
        deadline = np.inf if limit_s is None else started + limit_s
        answers = Answers(work, problem, search, options, deadline, held, on_progress)
        solution = search.run(answers.worst_case_at_least_usd() if problem.risk.worst_case else 0.0)
    if not solution.blocks:
        raise NoHorizonPlan(solution.without_a_plan, proved=solution.outcome is Outcome.INFEASIBLE)
    costs = {s.name: work.cost_in(problem, solution, s.name) for s in work.future.scenarios}
    answers.stopped = not compare or solution.outcome is Outcome.INTERRUPTED
    scenarios = tuple(answers.scenario(s, costs[s.name]) for s in work.future.scenarios)
    middle = answers.unless_stopped(lambda: answers.middle(scenarios))
    curve = answers.unless_stopped(lambda: answers.curve(solution))
    long_terms = answers.unless_stopped(lambda: answers.long_terms(solution))
    stopped: Why | None = None
    if compare and (answers.stopped or answers.late):
        stopped = "interrupted" if answers.stopped else "time-limit"
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
        commitments=work.signed(problem, solution),
        quarters=work.plans(problem, solution, options),
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
