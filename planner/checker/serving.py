"""Every request is served: by enough replicas, enough of them safe from a spot reclaim, or by an API that may."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.case import Workload
from planner.checker.deployment import deployment_holds
from planner.checker.facts import REL, Facts, deviations, differs, is_not, replica_of
from planner.plan import DeploymentRecord, WorkloadPlan

ROUNDING = 1e-10
"""replicas by which the same load, added up in another order, may differ"""


def workloads_are_served(facts: Facts) -> Iterator[str]:
    for w, served in facts.workloads:
        for problem in _workload_is_served(facts, w, served):
            yield f"{w.name}: {problem}"


def _workload_is_served(facts: Facts, w: Workload, served: WorkloadPlan) -> Iterator[str]:
    yield from _the_api_may_serve(facts, w, served)
    d = served.deployment
    yield from is_not("its quantization", served.quantization, d.quantization if d else None)
    if d is None:
        yield from _nothing_is_hosted(facts, w, served)
    else:
        yield from deployment_holds(facts.case, w, d)
        yield from _replicas_are_enough(facts, w, served, d)
    yield from _figures_are_true(facts, w, served)


def _the_api_may_serve(facts: Facts, w: Workload, served: WorkloadPlan) -> Iterator[str]:
    if served.api is not None:
        if not w.api_allowed:
            yield "requests go to an API although that is forbidden"
        if served.api not in facts.case.menu_apis:
            yield f"requests go to the API {served.api}, which is not on the menu"
        if not served.api_flows:
            yield f"no requests go to the API {served.api}, which it names"
    for t, (rate, sent) in enumerate(zip(facts.rates_rps(w), facts.sent_to_api(w, served), strict=True)):
        most = [rate * b.share_frac * (1 + REL) + 1e-9 for b in w.buckets]
        if any(not -1e-9 <= s <= m for s, m in zip(sent, most, strict=True)):
            yield f"slot {t}: more or less than the demand is sent to the API"


def _nothing_is_hosted(facts: Facts, w: Workload, served: WorkloadPlan) -> Iterator[str]:
    for t, (rate, kept) in enumerate(zip(facts.rates_rps(w), facts.kept(w, served), strict=True)):
        if served.replicas_by_slot[t] or served.firm_replicas_by_slot[t] or sum(kept) > 1e-9 + REL * rate:
            yield f"slot {t}: nothing serves the requests that are not sent to the API"


def _replicas_are_enough(facts: Facts, w: Workload, served: WorkloadPlan, d: DeploymentRecord) -> Iterator[str]:
    if not any(served.replicas_by_slot):
        yield "it has a deployment without replicas"
    spot_works = "spot" in facts.case.purchase and w.critical_share_frac < 1
    busiest = 0.0
    for t, kept in enumerate(facts.kept(w, served)):
        load = sum(rate * u for rate, u in zip(kept, d.seconds_per_request, strict=True))
        replicas, firm = served.replicas_by_slot[t], served.firm_replicas_by_slot[t]
        busiest = max(busiest, load / replicas if replicas else 0.0)
        needed, _ = _staffed(facts, w, load, d)
        if replicas < needed:
            yield f"slot {t}: {replicas} replicas where {needed} are needed"
        least, most = _staffed(facts, w, load * w.critical_share_frac, d) if spot_works else (replicas, replicas)
        if not min(least, replicas) <= firm <= min(most, replicas):
            yield f"slot {t}: {firm} firm replicas, but the critical load needs {min(least, replicas)}"
    replica = replica_of(facts.case, w, d)
    if replica.throughput.requests_per_s.all():
        ttft_s = replica.ttft_s(busiest)
        if ttft_s > w.ttft.seconds * (1 + REL):
            yield f"TTFT {ttft_s:.3f} s exceeds {w.ttft.seconds} s in the busiest slot"
        yield from differs("ttft_ms", d.ttft_ms, 1e3 * ttft_s)


def _staffed(facts: Facts, w: Workload, load: float, d: DeploymentRecord) -> tuple[int, int]:
    """ceil(R + z sqrt(R (1 + c2) / (2 B) + (v R)^2)), or R / most_load where that is more, at least the minimum.

    Rounded in favour of few, then of many.
    """
    variance = load * (1 + w.arrival_scv) / (2 * d.requests_in_flight) + (w.rate_cv * load) ** 2
    replicas = max(
        load + deviations(max(w.ttft.percentile, 0.90)) * math.sqrt(variance), load / max(d.most_load_frac, 1e-9)
    )
    minimum = facts.case.limits.min_replicas
    few = max(minimum, math.ceil(replicas - REL)) if load > 1e-9 else 0
    many = max(minimum, math.ceil(replicas - ROUNDING)) if load > 0 else 0
    return few, many


def _figures_are_true(facts: Facts, w: Workload, served: WorkloadPlan) -> Iterator[str]:
    requests = facts.requests_per_month(w)
    to_api = 3600 * facts.a_month([sum(sent) for sent in facts.sent_to_api(w, served)])
    yield from differs("requests_per_month", served.requests_per_month, requests)
    yield from differs("tokens_per_month", served.tokens_per_month, facts.tokens_per_month(w))
    yield from differs("api_share_frac", served.api_share_frac, to_api / requests)
    utilization, d = None, served.deployment
    if d is not None and any(served.replicas_by_slot):
        busy = [sum(r * u for r, u in zip(kept, d.seconds_per_request, strict=True)) for kept in facts.kept(w, served)]
        utilization = facts.a_month(busy) / facts.a_month(served.replicas_by_slot)
    yield from differs("utilization_frac", served.utilization_frac, utilization)
