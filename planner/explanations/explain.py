"""Explanations that come from the model: what would make room for a plan, what limits cost, what levers save."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from planner.case.case import Case
from planner.explanations.choices import choices_of, with_runner_up
from planner.explanations.limits import every_limit
from planner.explanations.records import Explanation, LeverValue, lever_value, marginal_value
from planner.levers import levers_in_use
from planner.optimization.replan import Experiment, Replanner, to_compare
from planner.plan.plan import Plan
from solvers.search.fleet_solution import Options, Progress


def explain(
    case: Case,
    plan: Plan,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    workload: str | None = None,
) -> Explanation:
    """Plan again without each lever in use, without what serves each workload, and with each limit moved by a step.

    With a workload, only what is its own. Ctrl-C keeps what is known; so does the time limit, which holds for all.
    """
    options = options or Options()
    replanner = Replanner(case, to_compare(options), on_progress, total_s=options.time_limit_s)
    levers = levers_in_use(plan, workload)
    asked = choices_of(plan, workload)
    limits = [(x, x.one_more) for x in every_limit(case) if x.one_more and workload in (None, x.workload)]
    run = replanner.run(
        [
            *(Experiment(f"without {x.key}", partial(x.without, workload=workload)) for x in levers),
            *(of.experiment for of in asked),
            *(step for _, step in limits),
        ]
    )
    found = iter(run.found)
    without = [lever_value(plan, x.key, workload, solution) for x, solution in zip(levers, found, strict=False)]
    seconds = list(zip(asked, found, strict=False))
    choices = [with_runner_up(plan, choice, solution) for of, solution in seconds for choice in of.choices]
    choices += [choice for of in asked[len(seconds) :] for choice in of.choices]
    saved = [
        marginal_value(plan, x.key, x.workload, step.label, solution)
        for (x, step), solution in zip(limits, found, strict=False)
    ]
    return Explanation(
        name=plan.name,
        case_hash=plan.case_hash,
        cost_usd_per_month=plan.cost_usd_per_month,
        held_usd_per_month=plan.held_usd_per_month,
        gap_frac=plan.gap_frac,
        workload=workload,
        limits=tuple(sorted(saved, key=lambda x: -x.saves_usd_per_month)),
        levers=tuple(sorted(without, key=_usefulness, reverse=True)),
        choices=tuple(choices),
        not_tried=run.not_tried,
        why_not_tried=run.why_not,
    )


def _usefulness(lever: LeverValue) -> float:
    """Levers without which there is no plan come first, those of which nothing is known last."""
    if lever.dearer_by_usd_per_month is not None:
        return lever.dearer_by_usd_per_month
    return float("inf") if lever.feasible is False else -1.0
