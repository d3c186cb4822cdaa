"""All studies of a plan, as a plan that carries them."""

from __future__ import annotations

from collections.abc import Callable

from planner.pipeline import checked
from planner.plan.account.other_demand import other_demand
from planner.plan.plan import Plan
from planner.plan.study_records import Studies
from planner.studies.break_even import break_even
from planner.studies.providers import providers
from planner.studies.waterfall import Plans, waterfall
from solvers.backends.deadline import limited_to
from solvers.search.fleet_solution import Options, Progress

KINDS = ("waterfall", "break-even", "providers")


def study(
    plan: Plan,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    only: str | None = None,
) -> tuple[Plan, Plans]:
    """The plan with its studies, or one of them beside those that it has; and the plans of the waterfall's steps.

    Ctrl-C keeps what is known; so does the time limit, which holds for all of them together.
    """
    with limited_to(options.time_limit_s if options else None):
        return _study(plan, options, on_progress, only)


def _study(
    plan: Plan, options: Options | None, on_progress: Callable[[Progress], None], only: str | None
) -> tuple[Plan, Plans]:
    found = plan.studies or Studies()
    plans: Plans = {}
    if only is None:
        found = found.model_copy(update={"demand": other_demand(plan)})
    if only in (None, "providers"):
        found = found.model_copy(update={"providers": providers(plan)})
    if only in (None, "waterfall"):
        record, plans = waterfall(plan, options, on_progress)
        found = found.model_copy(update={"waterfall": record})
    if only == "break-even" or (only is None and not found.stopped):
        curve = break_even(plan, options, on_progress)
        if any(point.multiple == 1 for point in curve.points):
            found = found.model_copy(update={"break_even": curve})
    if found == Studies():
        raise KeyboardInterrupt
    return checked(plan.model_copy(update={"studies": found})), plans
