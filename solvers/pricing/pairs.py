"""Mixes of two deployments at given prices, lowest bound first.

Most deployments are the same kind of replica on another offer: two kinds divide the requests in the same way on any of
them, and only what a GPU costs differs. So two kinds, each at the least that any offer asks for so many replicas in a
slot, stand for all pairs of them, and these are looked into only where even that is cheap enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Prices
from problems.recipes.pairs import (
    Member,
    MemberPrices,
    Outlet,
    may_mix,
    pair_bounds,
    pair_recipe,
    pair_value,
)
from problems.recipes.pools import Api, Pool
from problems.recipes.recipe import Recipe

PAIRS_AT_ONCE = 500
"""pairs of deployments that are looked into at a time"""
Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Rest:
    """Pairs that are not looked into: none of them costs less."""

    bound: float
    pairs: Pairs
    kinds: np.ndarray
    """pairs of kinds of replicas, lowest bound first [pair, 2]"""
    bounds: np.ndarray
    """[pair]"""

    def looked_into(self) -> Iterator[Pair | Rest]:
        """The first of them, on all offers, and what is left."""
        many = self.pairs.many[self.kinds].prod(axis=1).cumsum()
        n = max(1, int(np.searchsorted(many, PAIRS_AT_ONCE)))
        yield from self.pairs.of_kinds(self.kinds[:n])
        if n < len(self.kinds):
            yield Rest(float(self.bounds[n]), self.pairs, self.kinds[n:], self.bounds[n:])


ReplicasUsd = tuple[list[np.ndarray], list[np.ndarray]]
"""what so many replicas of each deployment cost, and what they cost at least where another shares their boxes
[slot, count]"""


@dataclass(frozen=True, eq=False)
class Members:
    """Deployments of one model variant in a pool that may be mixed."""

    fleet: FleetProblem
    pool: Pool
    members: list[Member]

    def replicas_usd(self, prices: Prices) -> ReplicasUsd:
        whole = [self._usd(m, prices, shared=False) for m in self.members]
        return whole, [self._usd(m, prices, shared=True) for m in self.members] if prices.know_boxes else whole

    def _usd(self, m: Member, prices: Prices, shared: bool) -> np.ndarray:
        slot, counts = np.arange(len(m.firm))[:, None], np.broadcast_to(m.counts, m.firm.shape)
        offer = self.fleet.offers[m.deployment.offer]
        return prices.usd_of_replicas(m.deployment, offer, self.pool.workloads, slot, counts, m.firm, shared)


class Pairs:
    """Pairs of some deployments of one model variant in a pool, with one API, at given prices."""

    def __init__(
        self, of: Members, prices: Prices, api: Api | None, usd: ReplicasUsd, below: float, written: Set[Key]
    ) -> None:
        fleet, pool, members = of.fleet, of.pool, of.members
        self.fleet, self.pool, self.members, self.prices, self.api = fleet, pool, members, prices, api
        self.below, self.written = below, written
        self.whole, self.shared = usd
        offers = np.array([m.deployment.offer for m in members])
        self.asked, self.in_shared_boxes = may_mix(members), prices.know_boxes & (offers[:, None] == offers[None, :])
        weight = fleet.weight
        fixed = float((pool.fixed_by_slot * weight * prices.usd_factor).sum())
        self.fixed_usd = fixed + sum(prices.team_usd[w] for w in pool.workloads)
        self.outlets = [] if api is None else [
            Outlet(api.usd_per_request, 3600 * weight * prices.usd_factor_of(pool.key, api.key))
        ]  # fmt: skip
        if pool.shed_usd_per_request is not None:
            self.outlets.append(Outlet(pool.shed_usd_per_request, 3600 * weight * prices.in_dollars))
        each_outlet = [o.weight[:, None] * o.usd_per_request[None, :] for o in self.outlets]
        self.outlet_usd = np.minimum.reduce(each_outlet) if each_outlet else None
        self.vendors_usd = self._usd_of_vendors(offers)
        tables = {id(m.counts): k for k, m in reversed(list(enumerate(members)))}
        self.first = sorted(tables.values())
        """the first deployment of each kind of replica"""
        place = {k: n for n, k in enumerate(self.first)}
        self.kind = np.array([place[tables[id(m.counts)]] for m in members], dtype=int)
        """[deployment]"""
        self.many = np.bincount(self.kind, minlength=len(self.first))
        """deployments [kind]"""

    def lowest_first(self) -> Iterator[Pair | Rest]:
        """All of them, in no order."""
        apart = self.asked & ~self.in_shared_boxes
        if len(self.first) == len(self.members) or not apart.any():
            yield from self._of(self.asked)
            return
        yield from self._of(self.asked & ~apart)
        several = np.flatnonzero(self.many > 1)
        again = len(self.first) - 1 + np.cumsum(self.many > 1)
        kinds = np.r_[np.arange(len(self.first)), several]
        """a second time where two of a kind may be mixed"""
        asked = np.zeros((len(kinds), len(kinds)), dtype=bool)
        one, other = (self.kind[k] for k in np.nonzero(apart))
        asked[one, np.where(one == other, again[one], other)] = True
        least = [np.minimum.reduce([self.whole[k] for k in np.flatnonzero(self.kind == n)]) for n in kinds]
        reps = [self.members[self.first[n]] for n in kinds]
        bounds = pair_bounds(self.pool, reps, MemberPrices(least, self.outlet_usd), self.below - self.fixed_usd, asked)
        order = np.argsort(bounds, axis=None, kind="stable")[: int(np.isfinite(bounds).sum())]
        if len(order):
            two = kinds[np.stack(np.unravel_index(order, bounds.shape), axis=1)]
            lowest = bounds.ravel()[order] + self.fixed_usd
            yield Rest(float(lowest[0]), self, two, lowest)

    def of_kinds(self, kinds: np.ndarray) -> Iterator[Pair]:
        """Those of pairs of kinds on all offers, but in boxes that they share."""
        wanted = np.zeros((len(self.first), len(self.first)), dtype=bool)
        wanted[kinds[:, 0], kinds[:, 1]] = wanted[kinds[:, 1], kinds[:, 0]] = True
        return self._of(self.asked & ~self.in_shared_boxes & wanted[self.kind[:, None], self.kind[None, :]])

    def _of(self, asked: np.ndarray) -> Iterator[Pair]:
        """Those that are asked for, and neither written down nor forbidden, lowest bound first: of those that cost too
        much only the first, which says how little the others cost.
        """
        bounds = np.full(asked.shape, np.inf)
        for usd, which in ((self.whole, asked & ~self.in_shared_boxes), (self.shared, asked & self.in_shared_boxes)):
            if which.any():
                prices = MemberPrices(usd, self.outlet_usd)
                of = pair_bounds(self.pool, self.members, prices, self.below - self.fixed_usd, which)
                bounds = np.minimum(bounds, of + self.fixed_usd)
        bounds = bounds + self.vendors_usd
        api = self.api.key if self.api else None
        for i, j in zip(*np.unravel_index(np.argsort(bounds, axis=None, kind="stable"), bounds.shape), strict=True):
            bound = float(bounds[i, j])
            if bound == np.inf:
                return
            two = (self.members[i], self.members[j])
            first, second = (m.deployment for m in two)
            key = (self.pool.key, first.key, second.key, api)
            offers = (first.offer, second.offer)
            if key not in self.written and self.fleet.allows_use(self.pool.workloads, offers, api):
                each = None if self.in_shared_boxes[i, j] else (self.whole[i], self.whole[j])
                fixed = self.fixed_usd + float(self.vendors_usd[i, j])
                yield Pair(
                    self.fleet, key, bound, self.pool, two, each, self.prices, self.api, self.outlets, fixed
                )  # fmt: skip
                if bound >= self.below:
                    return

    def _usd_of_vendors(self, offers: np.ndarray) -> np.ndarray:
        """What the vendors of any two of these offers and of the API cost, each once [offer, offer]."""
        prices, api = self.prices, self.api
        if not prices.vendor_usd:
            return np.zeros((len(offers), len(offers)))
        of = [self.fleet.vendors.of((str(g),), api.key if api else None) for g in offers]
        vendors = sorted({vendor for several in of for vendor in several})
        usd = np.array([sum(prices.vendor_usd.get((w, x), 0.0) for w in self.pool.workloads) for x in vendors])
        sells = np.array([[float(x in several) for x in vendors] for several in of]).reshape(len(of), len(vendors))
        alone, both = sells @ usd, (sells * usd) @ sells.T
        each: np.ndarray = np.maximum(alone[:, None] + alone[None, :] - both, 0.0)
        return each


@dataclass(frozen=True, eq=False)
class Pair:
    """Two deployments of a pool at given prices."""

    fleet: FleetProblem
    key: Key
    bound: float
    pool: Pool
    members: tuple[Member, Member]
    usd: tuple[np.ndarray, np.ndarray] | None
    """what so many replicas of either cost; None if they share boxes [slot, count]"""
    prices: Prices
    api: Api | None
    outlets: list[Outlet]
    fixed_usd: float

    def value(self) -> float:
        usd = self._in_shared_boxes() if self.usd is None else self.usd[0][:, :, None] + self.usd[1][:, None, :]
        return self.fixed_usd + pair_value(self.pool, *self.members, usd, self.outlets)

    def _in_shared_boxes(self) -> np.ndarray:
        """What replicas of two deployments on one offer cost together [slot, count, count]."""
        one, other = self.members
        g, prices = one.deployment.offer, self.prices
        each, others = one.deployment.gpus_per_replica, other.deployment.gpus_per_replica
        gpus = one.counts[:, None] * each + other.counts[None, :] * others
        firm = one.firm[:, :, None] * each + other.firm[:, None, :] * others
        slot = np.arange(len(firm))[:, None, None]
        usd = np.zeros(firm.shape)
        for m, size, at in ((one, each, np.s_[:, :, None]), (other, others, np.s_[:, None, :])):
            usd = usd + (prices.usd_of_a_gpu("in-use", g, size)[:, None] * (m.counts * size))[at]
            usd = usd + (prices.usd_of_a_gpu("firm", g, size)[:, None] * (m.firm * size))[at]
        for cuts, dual in prices.apart_usd.get(g, ()):
            each_of = [
                cuts.of_replicas(self.pool.workloads, m.deployment.gpus_per_replica, slot[:, :, 0], n)
                for m in self.members
                for n in [m.counts[None, :] if cuts.of == "in-use" else m.firm]
            ]
            usd = usd + dual[:, None, None] * np.maximum(each_of[0][:, :, None], each_of[1][:, None, :])
        return np.asarray(usd + prices.usd_of_use(self.fleet.offers[g], self.pool.workloads, slot, gpus[None], firm))

    def recipe(self) -> Recipe | None:
        return pair_recipe(self.pool, *self.members, self.api)


def lowest_first(pairs: Iterable[Pairs], below: float) -> Iterator[Pair | Rest]:
    """Pairs of several APIs and variants that may cost less than a value, lowest bound first, and the next ones."""
    order = count()
    waiting: list[tuple[float, tuple[object, ...], int, Pair | Rest]] = []

    def push(found: Iterable[Pair | Rest]) -> None:
        for one in found:
            heappush(waiting, (one.bound, one.key[1:3] if isinstance(one, Pair) else (), next(order), one))

    for some in pairs:
        push(some.lowest_first())
    while waiting:
        one = heappop(waiting)[-1]
        if isinstance(one, Rest) and one.bound < below:
            push(one.looked_into())
        else:
            yield one
