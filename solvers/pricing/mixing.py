"""Which mixes of deployments are worth having, at given prices.

Mixes of two are too many to write down, so they are looked for when prices are known: a cheap bound for all of them,
the exact recipe for those whose bound is low enough. What is not written down is still accounted for: every call says
how little the mixes left aside could cost.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Prices, vendors_value
from problems.recipes.pairs import (
    Member,
    MemberPrices,
    Outlet,
    may_mix,
    member_of,
    most_replicas,
    pair_bounds,
    pair_recipe,
    pair_value,
    too_large,
)
from problems.recipes.pools import Api, Pool
from problems.recipes.recipe import Recipe
from solvers.pricing.mix_slots import Memory
from solvers.pricing.mixes import best_mix

Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Found:
    """Mixes at given prices, measured against what the prices pay for the workloads of their pool."""

    recipes: list[Recipe]
    """mixes that cost no more than the window allows, the most worthwhile first"""
    least_left: dict[tuple[str, ...], float]
    """how little the others cost, at least, by the workloads of their pool"""


class Mixes:
    """The mixes of a fleet's pools that are not among its recipes yet."""

    def __init__(self, fleet: FleetProblem) -> None:
        self.fleet = fleet
        self.written: set[Key] = set()
        self._members: dict[str, list[list[Member]]] = {}
        self.pools = [pool for pool in fleet.pools.values() if pool.max_deployments > 1 and pool.window is None]
        self._solved: Memory = {}

    def go_on_from(self, other: Mixes) -> None:
        """Know what another search over the same pools knows."""
        self.written |= other.written
        self._members, self._solved = other._members, other._solved

    def not_covered(self) -> str | None:
        """What is left out of mixes of two, in words; None if nothing is."""
        large = any(
            d.staffing_in_a_mix is not None and d.variant in variants and too_large(pool, d)
            for pool in self.pools
            if not _is_of_any_number(pool)
            for variants in [_of_several(pool)]
            for d in pool.deployments
        )
        if not large:
            return None
        counts = most_replicas(len(self.fleet.slot_hours))
        return f"mixes of two large deployments are tried at {counts} counts of replicas"

    def may_serve(self, workload: str) -> bool:
        """Whether mixes may serve a workload of which none are written down: of any number, only the best is looked for
        at some prices, and at others it may be another that keeps the limits.
        """
        of_any_number = (pool for pool in self.pools if _is_of_any_number(pool))
        return any(workload in pool.workloads and _of_several(pool) for pool in of_any_number)

    def find(self, prices: Prices, paid: dict[str, float], window: float, most: int) -> Found:
        """Mixes whose cost exceeds what is paid for their workloads by less than the window, at most so many a pool.

        They count as written down from now on.
        """
        recipes: list[tuple[float, Recipe]] = []
        least: dict[tuple[str, ...], float] = {}
        for pool in self.pools:
            wanted = sum(paid[w] for w in pool.workloads)
            if _is_of_any_number(pool):
                larger, left = self._of_any_number(pool, prices, wanted, window)
                recipes += larger
                least[pool.workloads] = min(least.get(pool.workloads, np.inf), left)
            if pool.slots == 1:
                continue  # the best mix of a slot is one of two where that is best
            cheap, left = _cheapest(self._by_bound(pool, prices, wanted + window), wanted + window, most)
            for value, mix in cheap:
                recipe = mix.recipe()
                self.written.add(mix.key)
                if recipe is not None:
                    recipes.append((value - wanted, recipe))
            least[pool.workloads] = min(least.get(pool.workloads, np.inf), left)
        recipes.sort(key=lambda found: found[0])
        return Found([recipe for _, recipe in recipes], least)

    def _of_any_number(
        self, pool: Pool, prices: Prices, wanted: float, window: float
    ) -> tuple[list[tuple[float, Recipe]], float]:
        """The best mix with each API, where it is new, and how little any mix costs, written down or not."""
        team = sum(prices.team_usd[w] for w in pool.workloads)
        mixes: list[tuple[float, Recipe]] = []
        least = np.inf
        for api in pool.apis_beside_gpus:
            fixed = team + self._least_of_vendors(pool, api, prices)
            mix = best_mix(self.fleet, pool, api, prices, memory=self._solved, below=wanted + window - fixed)
            least = min(least, mix.bound + fixed)
            if mix.path is None:
                continue
            own = vendors_value(self.fleet, pool.workloads, mix.path.offers, mix.path.api, prices)
            if mix.cost + team + own < wanted + window:
                key = mix.path.footprint
                if key not in self.written:
                    self.written.add(key)
                    mixes.append((mix.cost + team + own - wanted, mix.path))
        return mixes, least

    def _least_of_vendors(self, pool: Pool, api: Api | None, prices: Prices) -> float:
        """What the vendors of any mix of a pool cost at least: some deployment is part of it."""
        key = api.key if api else None
        each = [vendors_value(self.fleet, pool.workloads, (d.offer,), key, prices) for d in pool.deployments]
        return min(each, default=0.0)

    def _members_of(self, pool: Pool) -> list[list[Member]]:
        """Deployments that may be mixed, by model variant, each with some other."""
        if pool.key not in self._members:
            by_variant: dict[str, list[Member]] = {}
            for d in pool.deployments:
                most = self.fleet.most_replicas(d.offer, d.gpus_per_replica)
                member = member_of(pool, d, at_most=most) if self.fleet.offers[d.offer].to_be_had else None
                if member is not None:
                    by_variant.setdefault(d.variant, []).append(member)
            mixed = [[m for m, some in zip(of, may_mix(of), strict=True) if some.any()] for of in by_variant.values()]
            self._members[pool.key] = [members for members in mixed if members]
        return self._members[pool.key]

    def _by_bound(self, pool: Pool, prices: Prices, below: float) -> list[_Mix]:
        """Mixes of a pool that are not written down and may cost less, lowest bound first, and the next ones."""
        mixes: list[_Mix] = []
        for members in self._members_of(pool):
            mixes += self._mixes_of(pool, members, prices, below)
        mixes.sort(key=lambda mix: (mix.bound, mix.key[1:3]))
        return mixes

    def _mixes_of(self, pool: Pool, members: list[Member], prices: Prices, below: float) -> list[_Mix]:
        whole = [self._replicas_usd(pool, m, prices, shared=False) for m in members]
        sharpened = prices.know_boxes
        shared = [self._replicas_usd(pool, m, prices, shared=True) for m in members] if sharpened else whole
        offers = np.array([m.deployment.offer for m in members])
        asked, share = may_mix(members), sharpened & (offers[:, None] == offers[None, :])
        weight = self.fleet.weight
        fixed = float((pool.fixed_by_slot * weight * prices.usd_factor).sum())
        fixed += sum(prices.team_usd[w] for w in pool.workloads)
        shed = []
        if pool.shed_usd_per_request is not None:
            shed = [Outlet(pool.shed_usd_per_request, 3600 * weight * prices.in_dollars)]
        mixes: list[_Mix] = []
        for api in pool.apis_beside_gpus:
            outlets = shed
            if api is not None:
                outlets = [Outlet(api.usd_per_request, 3600 * weight * prices.usd_factor_of(api.key)), *shed]
            each_outlet = [o.weight[:, None] * o.usd_per_request[None, :] for o in outlets]
            outlet_usd = np.minimum.reduce(each_outlet) if outlets else None
            bounds = np.full(asked.shape, np.inf)
            for usd, which in ((whole, asked & ~share), (shared, asked & share)):
                if which.any():
                    of = pair_bounds(pool, members, MemberPrices(usd, outlet_usd), below - fixed, which) + fixed
                    bounds = np.minimum(bounds, of)
            vendors = self._usd_of_vendors(pool, offers, api, prices)
            bounds = bounds + vendors
            for i, j in zip(*np.unravel_index(np.argsort(bounds, axis=None, kind="stable"), bounds.shape), strict=True):
                bound = float(bounds[i, j])
                if bound == np.inf:
                    break
                first, second = members[i].deployment.key, members[j].deployment.key
                key = (pool.key, first, second, api.key if api else None)
                if key not in self.written and self.fleet.allows_use(pool.workloads, (offers[i], offers[j]), key[3]):
                    two = (members[i], members[j])
                    each = None if share[i, j] else (whole[i], whole[j])
                    own_usd = fixed + float(vendors[i, j])
                    mixes.append(_Mix(self.fleet, key, bound, pool, two, each, prices, api, outlets, own_usd))
                    if bound >= below:
                        break  # one of them says how little those beyond cost
        return mixes

    def _usd_of_vendors(self, pool: Pool, offers: np.ndarray, api: Api | None, prices: Prices) -> np.ndarray:
        """What the vendors of any two of some offers and of this API cost, each once [offer, offer]."""
        if not prices.vendor_usd:
            return np.zeros((len(offers), len(offers)))
        of = [self.fleet.vendors.of((str(g),), api.key if api else None) for g in offers]
        vendors = sorted({vendor for several in of for vendor in several})
        usd = np.array([sum(prices.vendor_usd.get((w, x), 0.0) for w in pool.workloads) for x in vendors])
        sells = np.array([[float(x in several) for x in vendors] for several in of]).reshape(len(of), len(vendors))
        alone, both = sells @ usd, (sells * usd) @ sells.T
        each: np.ndarray = np.maximum(alone[:, None] + alone[None, :] - both, 0.0)
        return each

    def _replicas_usd(self, pool: Pool, m: Member, prices: Prices, shared: bool) -> np.ndarray:
        """What so many replicas of a member cost [slot, count]; at least, where another member shares its boxes."""
        slot, counts = np.arange(len(m.firm))[:, None], np.broadcast_to(m.counts, m.firm.shape)
        offer = self.fleet.offers[m.deployment.offer]
        return prices.usd_of_replicas(m.deployment, offer, pool.workloads, slot, counts, m.firm, shared)


def _is_of_any_number(pool: Pool) -> bool:
    """Whether mixes of a pool are looked for as a whole, not two by two."""
    return pool.max_deployments > 2 or pool.slots == 1


def _cheapest(mixes: list[_Mix], below: float, most: int) -> tuple[list[tuple[float, _Mix]], float]:
    """So many mixes at most that cost less than a value, the cheapest first, and how little the others cost at least.

    They come with the lowest bound first. So where one's bound is no less than what the best of those left aside costs,
    nothing depends on it or on any after it.
    """
    kept: list[tuple[float, _Mix]] = []
    left = np.inf
    for mix in mixes:
        if mix.bound >= min(below, left):
            left = min(left, mix.bound)
            break
        value = max(mix.value(), mix.bound)  # without one of the two it may cost less, but that is no mix
        if value >= below:
            left = min(left, value)
            continue
        insort(kept, (value, mix), key=lambda one: one[0])
        if len(kept) > most:
            left = min(left, kept.pop()[0])
    return kept, left


def _of_several(pool: Pool) -> set[str]:
    """Model variants with more than one deployment in a pool."""
    seen: set[str] = set()
    return {d.variant for d in pool.deployments if d.variant in seen or seen.add(d.variant)}  # type: ignore[func-returns-value]


@dataclass(frozen=True, eq=False)
class _Mix:
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
        return np.asarray(usd + prices.usd_of_use(self.fleet.offers[g], self.pool.workloads, slot, gpus[None], firm))

    def recipe(self) -> Recipe | None:
        return pair_recipe(self.pool, *self.members, self.api)
