"""All studies of a plan, as a plan that carries them."""

from __future__ import annotations

from collections.abc import Callable

from planner.catalog.sellers import sellers
from planner.pipeline import checked
from planner.plan.account.other_demand import other_demand
from planner.plan.plan import Plan
from planner.plan.sellers import SAME_MODEL, able, bill_of, by_cost, known, requests_of, wanted_names
from planner.plan.study_records import ProviderBill, Studies
from planner.studies.break_even import break_even
from planner.studies.waterfall import Plans, waterfall
from solvers.backends.clock import Stopped, limited_to
from solvers.search.fleet_solution import Options, Progress

KINDS = ("waterfall", "break-even", "providers")


def study(
    plan: Plan,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    only: str | None = None,
) -> tuple[Plan, Plans]:
    """The plan with its studies, or one of them beside those that it has; and the plans of the waterfall's steps.

    A wish to stop keeps what is known; so does the time limit, which holds for all of them together.
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
        raise Stopped
    return checked(plan.model_copy(update={"studies": found})), plans


def providers(plan: Plan) -> tuple[ProviderBill, ...]:
    """What the requests of a plan would cost at the baseline, then at what the user names, then at those who sell the
    open models that serve a workload, or may serve one that the plan buys from an API; each group by rising bill.
    """
    case = plan.case
    asked = requests_of(plan)
    everyone = tuple(w.name for w in case.workloads)
    bills = [bill_of(case.apis[case.baseline], "baseline", everyone, asked)]
    compared = [name for name in case.compare_with or () if name != case.baseline]
    bills += sorted((bill_of(case.apis[name], "compared", everyone, asked) for name in compared), key=by_cost)
    taken = {case.baseline, *compared}
    runs = {w.name: set(w.models) or {c.model for c in asked[w.name][0].models} for w in plan.workloads}
    wanted = wanted_names(case, runs)
    sold = ((name, able(case, name, wanted)) for name in sellers() if name not in taken)
    same = (bill_of(known(name), SAME_MODEL, workloads, asked) for name, workloads in sold if workloads)
    return (*bills, *sorted(same, key=by_cost))
