"""Changed copies of a case that several studies make."""

from __future__ import annotations

from planner.case import Case, Workload
from planner.why.changes import Change, with_limits, with_workloads

without_quotas: Change = with_limits(max_gpus={}, max_instances={}, budget_usd_per_month=None)


def has_quotas(case: Case) -> bool:
    limits = case.limits
    return bool(limits.max_gpus or limits.max_instances or limits.budget_usd_per_month is not None)


def multiplied(multiple: float) -> Change:
    """All workloads come so many times as often."""

    def more(w: Workload) -> Workload:
        rates = {day: tuple(multiple * rps for rps in getattr(w, day)) for day in ("weekday_rps", "weekend_rps")}
        return w.model_copy(update=rates)

    return with_workloads(more) if multiple != 1 else lambda case: case


def may_use_an_api(case: Case) -> bool:
    return bool(case.menu_apis) and any(w.api_allowed for w in case.workloads)


without_apis: Change = with_workloads(lambda w: w.model_copy(update={"api_allowed": False, "api_wait_h": 0.0}))
never_shedding: Change = with_workloads(lambda w: w.model_copy(update={"shed_usd_per_request": None}))
