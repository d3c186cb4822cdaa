"""Explanations that come from the model: what would make room for a plan, what limits cost, what levers save."""

from __future__ import annotations

from collections.abc import Callable

from planner.case import Case
from planner.plan import Plan
from planner.why.bench import Bench, Stopped
from planner.why.every_limit import every_limit
from planner.why.explanation import Explanation, LeverWorth, LimitWorth, lever_worth, limit_worth
from planner.why.levers import levers_in_use
from solvers.fleet_solver import FleetSolution, Options, Progress

__all__ = ["Explanation", "explain"]


def explain(
    case: Case,
    plan: Plan,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    workload: str | None = None,
) -> Explanation:
    """Plan again with each limit moved by a step, and without each lever in use; or those of one workload only.

    Ctrl-C keeps what is known.
    """
    bench = Bench(case, options or Options(), on_progress)
    limits: list[LimitWorth] = []
    levers: list[LeverWorth] = []

    def moved(limit: str, owner: str | None, step: str) -> Callable[[FleetSolution], None]:
        return lambda found: limits.append(limit_worth(plan, limit, owner, step, found))

    def left_out(lever: str, owner: str | None) -> Callable[[FleetSolution], None]:
        return lambda found: levers.append(lever_worth(plan, lever, owner, found))

    work = [(f"without {x.key}", x.without, left_out(x.key, x.workload)) for x in levers_in_use(plan, workload)]
    work += [
        (x.one_more.said, x.one_more.change, moved(x.key, x.workload, x.one_more.said))
        for x in every_limit(case)
        if x.one_more is not None and workload in (None, x.workload)
    ]
    done = 0
    try:
        for said, change, record in work:
            record(bench.solve(change(case), said))
            done += 1
    except Stopped:
        pass
    return Explanation(
        name=plan.name,
        case_hash=plan.case_hash,
        cost_usd_per_month=plan.cost_usd_per_month,
        gap_frac=plan.gap_frac,
        workload=workload,
        limits=tuple(sorted(limits, key=lambda x: -x.saves_usd_per_month)),
        levers=tuple(sorted(levers, key=_usefulness, reverse=True)),
        not_tried=tuple(said for said, _, _ in work[done:]),
    )


def _usefulness(lever: LeverWorth) -> float:
    """Levers without which there is no plan come first, those of which nothing is known last."""
    if lever.dearer_by_usd_per_month is not None:
        return lever.dearer_by_usd_per_month
    return float("inf") if lever.feasible is False else -1.0
