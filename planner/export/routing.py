"""Where the requests of each workload go, by length: what a gateway has to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.export.hosted import HostedFleet
from planner.plan.account import ByLength, Served

SHED, CACHE = "shed", "the semantic cache"
LEAST_FRAC = 5e-5
"""a smaller share is not listed"""


@dataclass(frozen=True)
class Route:
    """Requests of about one length, or of all others."""

    workload: str
    input_tokens: float | None
    output_tokens: float | None
    share_frac: float
    to: dict[str, float]
    """shares by destination, the largest first"""


def routes(fleet: HostedFleet) -> list[Route]:
    """One for each length that goes its own way, and one for the others of a workload."""
    return [route for s in fleet.view.served for route in _routes(fleet, s)]


def _routes(fleet: HostedFleet, s: Served) -> Iterator[Route]:
    to = _destinations(fleet, s)
    lengths = range(len(s.w.buckets))
    sent = [{name: _total(fleet, rates, b) for name, rates in to.items()} for b in lengths]
    shares = [_shares(each) for each in sent]
    usual = max(shares, key=lambda each: sum(s.w.buckets[b].share_frac for b in lengths if shares[b] == each))
    for b, bucket in enumerate(s.w.buckets):
        if shares[b] != usual:
            yield Route(s.w.name, bucket.input_tokens, bucket.output_tokens, bucket.share_frac, shares[b])
    rest = sum(s.w.buckets[b].share_frac for b in lengths if shares[b] == usual)
    yield Route(s.w.name, None, None, round(rest, 9), usual)


def _destinations(fleet: HostedFleet, s: Served) -> dict[str, ByLength]:
    """Requests a second by slot and length."""
    view, pool = fleet.view, fleet.plan.pool_of(s.w.name)
    to: dict[str, ByLength] = {}
    names = {h.plan.deployment.key: h.name for h in fleet.hosted if h.pool is pool}
    for k, d in enumerate(pool.deployments):
        if d.deployment.key in names:
            to[names[d.deployment.key]] = s.kept if len(pool.workloads) > 1 else view.carried(pool, k)
    if s.decided.api is not None:
        to[s.decided.api] = view.flow(s.w, s.decided.api_flows)
    to[SHED] = view.flow(s.w, s.decided.shed_flows)
    asked = view.by_length(s.w)
    to[CACHE] = asked - s.demand
    return to


def _total(fleet: HostedFleet, rates: ByLength, bucket: int) -> float:
    hours = fleet.plan.slots
    return float(sum(rates[t, bucket] * hours[t].hours_per_month for t in fleet.slots))


def _shares(sent: dict[str, float]) -> dict[str, float]:
    total = sum(sent.values())
    if not total:
        return {}
    shares = {name: round(amount / total, 6) for name, amount in sent.items() if amount / total >= LEAST_FRAC}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
