"""What a plan costs because of limits that nobody gave."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import usd
from planner.judgement.concern import Concern
from planner.plan.plan import AssumedLimit, Plan

NAMES = {
    "slo.ttft_p95": "TTFT of {}",
    "slo.tpot_p95": "TPOT of {}",
    "quality.max_loss": "quality loss of at most {}",
    "policy.min_replicas": "at least {} replicas",
    "policy.spread": "replicas on two instances or more",
}


def assumptions_that_bind(plan: Plan) -> Iterator[Concern]:
    found = plan.assumed_limits
    if found is None:
        return
    without, objective = found.without_usd_per_month, plan.objective_usd_per_month
    each = [f"{_name(limit)} (costs at least {usd(objective - limit.without_usd_per_month)})" for limit in found.limits]
    what = ", ".join(each) if each else "limits that bind only together"
    keys = " and ".join(f"'{limit.key}'" for limit in found.limits) or "the limits listed as assumed"
    yield Concern(
        key="assumed-limit",
        usd_per_month=objective - without,
        sentence=f"assumed limits: {what}; without them at most {usd(without)} / month instead of {usd(objective)}",
        remedy=f"set {keys} in the demand file to what your users need",
    )


def _name(limit: AssumedLimit) -> str:
    of = f" for {', '.join(limit.workloads)}" if limit.workloads else ""
    return NAMES[limit.key].format(limit.value) + of
