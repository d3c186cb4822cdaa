"""Explanations that come from the model: what would make room for a plan, what limits cost, what levers save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.candidates.screen import Excluded
from planner.case.case import Case
from planner.case.changes import Change
from planner.explanations.choices import Asked, choices_of, runner_up
from planner.explanations.levers import levers_in_use
from planner.explanations.limits import every_limit
from planner.explanations.records import Choice, Explanation, LeverValue, MarginalValue, lever_value, marginal_value
from planner.optimization.replan import Replanner, to_compare
from planner.plan.plan import Plan
from solvers.backends.deadline import why_stopped
from solvers.search.fleet_solution import FleetSolution, Options, Progress

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class _Work:
    """A changed case to solve, and what to do with the solution."""

    said: str
    change: Change
    record: Callable[[FleetSolution], None]
    without: Excluded = frozenset()


def explain(
    case: Case,
    plan: Plan,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    workload: str | None = None,
) -> Explanation:
    """Plan again without what serves each workload, without each lever in use, and with each limit moved by a step.

    With a workload, only what is its own. Ctrl-C keeps what is known; so does the time limit, which holds for all.
    """
    options = options or Options()
    replanner = Replanner(case, to_compare(options), on_progress, total_s=options.time_limit_s)
    asked = choices_of(plan, workload)
    choices: list[Choice] = [choice for of in asked for choice in of.choices]
    limits: list[MarginalValue] = []
    levers: list[LeverValue] = []

    def moved(limit: str, owner: str | None, step: str) -> Callable[[FleetSolution], None]:
        return lambda found: limits.append(marginal_value(plan, limit, owner, step, found))

    def left_out(lever: str, owner: str | None) -> Callable[[FleetSolution], None]:
        return lambda found: levers.append(lever_value(plan, lever, owner, found))

    def next_best(of: Asked) -> Callable[[FleetSolution], None]:
        def record(found: FleetSolution) -> None:
            for choice in of.choices:
                told = choice.model_copy(update={"runner_up": runner_up(plan, choice.workloads[0], found)})
                choices[choices.index(choice)] = told

        return record

    work = [_Work(f"without {x.key}", x.without, left_out(x.key, x.workload)) for x in levers_in_use(plan, workload)]
    work += [_Work(of.said, of.change, next_best(of), of.without) for of in asked]
    work += [
        _Work(x.one_more.said, x.one_more.change, moved(x.key, x.workload, x.one_more.said))
        for x in every_limit(case)
        if x.one_more is not None and workload in (None, x.workload)
    ]
    done, stopped = 0, None
    try:
        for item in work:
            said = f"{done + 1} of {len(work)}: {item.said}"
            item.record(replanner.solve(item.change(case), said, without=item.without))
            done += 1
    except KeyboardInterrupt as stop:
        stopped = why_stopped(stop)
    return Explanation(
        name=plan.name,
        case_hash=plan.case_hash,
        cost_usd_per_month=plan.cost_usd_per_month,
        gap_frac=plan.gap_frac,
        workload=workload,
        limits=tuple(sorted(limits, key=lambda x: -x.saves_usd_per_month)),
        levers=tuple(sorted(levers, key=_usefulness, reverse=True)),
        choices=tuple(choices),
        not_tried=tuple(item.said for item in work[done:]),
        why_not_tried=stopped,
    )


def _usefulness(lever: LeverValue) -> float:
    """Levers without which there is no plan come first, those of which nothing is known last."""
    if lever.dearer_by_usd_per_month is not None:
        return lever.dearer_by_usd_per_month
    return float("inf") if lever.feasible is False else -1.0
