"""Where the requests of each workload go, by the length of the prompt and by the hour: what a gateway has to do.

A gateway knows how long a prompt is, and not how long its answer will be. Where a plan tells requests apart by the
answer too, what one prompt length sends to a deployment is such a share that the deployment has the load of the plan
and no more; what is left goes to the API, or is shed, in the plan's proportions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planner.export.hosted import HostedFleet
from planner.performance.length_spread import CUTS, quantile
from planner.plan.account.flows import ByLength, Served

SHED, CACHE = "shed", "the semantic cache"
LEAST_FRAC = 5e-5
"""a smaller share is not listed"""
ALIKE = 1e-9
"""shares that differ by less are the same"""
Shares = dict[str, float]
"""by destination"""


@dataclass(frozen=True, eq=False)
class Route:
    """Prompts of about one length."""

    workload: str
    more_than: int
    """tokens"""
    up_to: int | None
    share_frac: float
    """of the requests that no semantic cache answers"""
    to: Shares
    """of the month, the largest first"""
    by_hour: dict[str, tuple[Shares, ...]]
    """by the hour of each kind of day"""
    by_answer: bool
    """whether the plan tells these requests apart by their answers too"""


def routes(fleet: HostedFleet) -> list[Route]:
    """By workload, the shortest prompts first."""
    return [route for s in fleet.view.served for route in _routes(fleet, s)]


def _routes(fleet: HostedFleet, s: Served) -> Iterator[Route]:
    sent, seconds = destinations(fleet, s), _seconds(fleet, s)
    ranges: list[list[int]] = []
    bounds = _bounds(s)
    found: list[tuple[list[Shares], bool]] = []
    tops: list[int | None] = []
    for top, members in zip([*bounds, None], _members(s, bounds), strict=True):
        if not members:
            if tops:
                tops[-1] = top
            continue
        hourly, by_answer = _hourly(fleet, s, members, sent, seconds)
        if found and _same(found[-1][0], hourly):
            tops[-1], found[-1] = top, (found[-1][0], found[-1][1] or by_answer)
            ranges[-1] += members
        else:
            tops.append(top)
            found.append((hourly, by_answer))
            ranges.append(list(members))
    more_than = 0
    for top, members, (hourly, by_answer) in zip(tops, ranges, found, strict=True):
        by_day: dict[str, tuple[Shares, ...]] = {}
        for t, shares in zip(fleet.slots, hourly, strict=True):
            day = fleet.plan.slots[t].day
            by_day[day] = (*by_day.get(day, ()), shares)
        share = sum(s.w.buckets[b].share_frac for b in members)
        yield Route(s.w.name, more_than, top, round(share, 9), _of_month(fleet, s, members, hourly), by_day, by_answer)
        more_than = top or more_than


def _bounds(s: Served) -> list[int]:
    """Tokens that part the prompts of a workload: where their distribution was cut, or midway between two lengths."""
    if s.w.input_spread is not None:
        found = [quantile(s.w.input_spread, s.w.admitted_frac * cut) for cut in CUTS[1:-1]]
    else:
        lengths = sorted({b.input_tokens for b in s.w.buckets})
        found = [(a * b) ** 0.5 for a, b in pairwise(lengths)]
    return sorted({round(tokens) for tokens in found})


def _members(s: Served, bounds: Sequence[int]) -> list[list[int]]:
    """The lengths of each range."""
    places = np.searchsorted(np.array(bounds), [b.input_tokens for b in s.w.buckets], side="left")
    return [[b for b, place in enumerate(places.tolist()) if place == k] for k in range(len(bounds) + 1)]


def destinations(fleet: HostedFleet, s: Served) -> dict[str, ByLength]:
    """Requests a second by slot and length, where no semantic cache answers."""
    view, pool = fleet.view, fleet.plan.pool_of(s.w.name)
    to: dict[str, ByLength] = {}
    names = {h.plan.deployment.key: h.name for h in fleet.hosted if h.pool is pool}
    for k, d in enumerate(pool.deployments):
        if d.deployment.key in names:
            to[names[d.deployment.key]] = s.kept if len(pool.workloads) > 1 else view.carried(pool, k)
    if s.decided.api is not None:
        to[s.decided.api] = view.flow(s.w, s.decided.api_flows)
    to[SHED] = view.flow(s.w, s.decided.shed_flows)
    return to


def cache_share(s: Served) -> float:
    """Share of the requests that the semantic cache answers."""
    return s.w.semantic_hit_frac if "semantic" in s.decided.caching else 0.0


def _seconds(fleet: HostedFleet, s: Served) -> dict[str, list[float | None]]:
    """Of a replica's time that a request of each length takes, by deployment; None: it cannot serve it."""
    pool = fleet.plan.pool_of(s.w.name)
    before = 0
    for w in fleet.plan.case.workloads:
        if w.name == s.w.name:
            break
        before += len(w.buckets) if w.name in pool.workloads else 0
    return {
        h.name: list(h.plan.deployment.seconds_per_request[before : before + len(s.w.buckets)])
        for h in fleet.hosted
        if h.pool is pool
    }


def _hourly(
    fleet: HostedFleet, s: Served, members: list[int], sent: dict[str, ByLength], seconds: dict[str, list[float | None]]
) -> tuple[list[Shares], bool]:
    """Shares in each hour of the month, and whether the plan knows more than a gateway."""
    whole = sum(sent.values())
    assert isinstance(whole, np.ndarray)
    parts = [_apart(whole[t, members], {to: rates[t, members] for to, rates in sent.items()}) for t in fleet.slots]
    if not any(parts):
        return [_plain(whole[t, members], {to: r[t, members] for to, r in sent.items()}) for t in fleet.slots], False
    hourly = []
    for t in fleet.slots:
        rates = {to: r[t, members] for to, r in sent.items()}
        times = {name: [each[b] for b in members] for name, each in seconds.items()}
        hourly.append(_by_load(whole[t, members], rates, times))
    return hourly, True


def _apart(asked: np.ndarray, rates: dict[str, np.ndarray]) -> bool:
    """Whether lengths go different ways."""
    some = asked > 0
    shares = [rate[some] / asked[some] for rate in rates.values()]
    return any(share.size and float(np.ptp(share)) > 1e-6 for share in shares)


def _plain(asked: np.ndarray, rates: dict[str, np.ndarray]) -> Shares:
    total = float(asked.sum())
    return _listed({to: float(rate.sum()) / total for to, rate in rates.items()}) if total else {}


def _by_load(asked: np.ndarray, rates: dict[str, np.ndarray], seconds: dict[str, list[float | None]]) -> Shares:
    """Shares at which no deployment has more load than planned, nor a length that it cannot serve."""
    total = float(asked.sum())
    if not total:
        return {}
    planned = {to: float(rate.sum()) / total for to, rate in rates.items()}
    shares: Shares = {}
    for name, times in seconds.items():
        if all(x is not None for x, n in zip(times, asked.tolist(), strict=True) if n > 0):
            each = np.array([x or 0.0 for x in times])
            load = float(asked @ each)
            shares[name] = float(rates[name] @ each) / load if load else planned[name]
    others = {to: share for to, share in planned.items() if to not in seconds}
    left = 1.0 - sum(shares.values())
    if left > 0 and sum(others.values()) > ALIKE:
        known = sum(others.values())
        return _listed(shares | {to: left * share / known for to, share in others.items()})
    shares = shares or {name: planned[name] for name in seconds}  # each lacks some length: as near as can be
    known = sum(shares.values()) + sum(others.values())
    if not known:
        return _listed(planned)
    return _listed({to: share / known for to, share in (shares | others).items()})


def _listed(shares: Shares) -> Shares:
    kept = {to: share for to, share in shares.items() if share >= LEAST_FRAC}
    known = sum(kept.values())
    return {to: round(share / known, 6) for to, share in sorted(kept.items(), key=lambda item: (-item[1], item[0]))}


def _same(one: list[Shares], other: list[Shares]) -> bool:
    return all(abs(a.get(to, 0.0) - b.get(to, 0.0)) < 1e-6 for a, b in zip(one, other, strict=True) for to in {*a, *b})


def _of_month(fleet: HostedFleet, s: Served, members: list[int], hourly: list[Shares]) -> Shares:
    amounts: Shares = {}
    for t, shares in zip(fleet.slots, hourly, strict=True):
        hours = fleet.plan.slots[t].hours_per_month * float(s.demand[t, members].sum())
        for to, share in shares.items():
            amounts[to] = amounts.get(to, 0.0) + hours * share
    total = sum(amounts.values())
    return _listed({to: amount / total for to, amount in amounts.items()}) if total else {}
