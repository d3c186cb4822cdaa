"""Which mixes of deployments are worth having, at given prices.

Mixes of two are too many to write down, so they are looked for when prices are known: a cheap bound for all of them,
the exact recipe for those whose bound is low enough. What is not written down is still accounted for: every call says
how little the mixes left aside could cost.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Prices, vendors_value
from problems.recipes.pairs import Member, kind_of, may_mix, member_of, most_replicas, too_large
from problems.recipes.pools import Api, Pool
from problems.recipes.recipe import Recipe
from solvers.pricing.mix_slots import Memory
from solvers.pricing.mixes import best_mix
from solvers.pricing.pairs import Members, Pair, Pairs, Rest, lowest_first

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
        """Deployments that may be mixed, by model variant, each with some other. Those of one kind of replica have the
        same table, whatever their offers.
        """
        if pool.key not in self._members:
            by_variant: dict[str, list[Member]] = {}
            tables: dict[Hashable, Member | None] = {}
            for d in pool.deployments:
                if self.fleet.offers[d.offer].to_be_had:
                    most = self.fleet.most_replicas(d.offer, d.gpus_per_replica)
                    kind = kind_of(d, most)
                    if kind not in tables:
                        tables[kind] = member_of(pool, d, at_most=most)
                    table = tables[kind]
                    if table is not None:
                        by_variant.setdefault(d.variant, []).append(replace(table, deployment=d))
            mixed = [[m for m, some in zip(of, may_mix(of), strict=True) if some.any()] for of in by_variant.values()]
            self._members[pool.key] = [members for members in mixed if members]
        return self._members[pool.key]

    def _by_bound(self, pool: Pool, prices: Prices, below: float) -> Iterator[Pair | Rest]:
        """Mixes of a pool that are not written down and may cost less, lowest bound first, and the next ones."""
        pairs = []
        for members in self._members_of(pool):
            of = Members(self.fleet, pool, members)
            usd = of.replicas_usd(prices)
            pairs += [Pairs(of, prices, api, usd, below, self.written) for api in pool.apis_beside_gpus]
        return lowest_first(pairs, below)


def _is_of_any_number(pool: Pool) -> bool:
    """Whether mixes of a pool are looked for as a whole, not two by two."""
    return pool.max_deployments > 2 or pool.slots == 1


def _cheapest(mixes: Iterable[Pair | Rest], below: float, most: int) -> tuple[list[tuple[float, Pair]], float]:
    """So many mixes at most that cost less than a value, the cheapest first, and how little the others cost at least.

    They come with the lowest bound first. So where one's bound is no less than what the best of those left aside costs,
    nothing depends on it or on any after it.
    """
    kept: list[tuple[float, Pair]] = []
    left = np.inf
    for mix in mixes:
        if mix.bound >= min(below, left):
            left = min(left, mix.bound)
            break
        assert isinstance(mix, Pair)
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
