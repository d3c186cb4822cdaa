"""The cheapest mix of deployments for a pool at given prices, and what no mix can cost less than.

Slots are independent once prices are given, so each is solved by itself over all deployments. The sum is a lower bound
on every mix. Where the slots together use no more deployments than may serve a pool, their answers are a recipe of
just that cost. Else the deployments on which most is spent make a recipe, and the bound is raised by branching on one
of them: a mix with it, or without it. Without it only those slots are solved again that used it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Prices, serving_values
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.recipe import Recipe, Use
from solvers.backends.solve import SolverName
from solvers.pricing.mix_slots import Memory, PricedPool, Served
from solvers.pricing.slot_search import EXACT_FRAC

MOST_SETS = 20
"""sets of deployments that are tried; few are needed to prove the best one"""


@dataclass(frozen=True, eq=False)
class Mix:
    """What mixes of a pool cost at given prices."""

    bound: float
    """no mix costs less; inf where none can serve the pool"""
    cost: float = np.inf
    """cost of the path"""
    path: Recipe | None = None
    """the best mix found; None if there is none, or none that is better than what needs no mix"""


def best_mix(
    fleet: FleetProblem,
    pool: Pool,
    api: Api | None,
    prices: Prices,
    *,
    solver: SolverName = "cbc",
    gap_frac: float = EXACT_FRAC,
    most_sets: int = MOST_SETS,
    memory: Memory | None = None,
    below: float = np.inf,
) -> Mix:
    """The cheapest mix of up to `pool.max_deployments` deployments of one variant, with this API or none for the rest.

    Every deployment is staffed as in a mix: those that serve a pool alone have a rule of their own, and are no part of
    this. Nor are the team and the kinds of GPU part of the cost. Up to `most_sets` sets of deployments are tried to
    bring bound and cost together. Mixes that cost `below` or more are of no interest: the search ends without a path
    once the bound says so.
    """
    by_variant: dict[str, list[Deployment]] = {}
    for d in pool.deployments:
        if d.staffing_in_a_mix is not None and fleet.offers[d.offer].to_be_had:
            by_variant.setdefault(d.variant, []).append(d)
    memory = {} if memory is None else memory
    variants = [
        _Sets(PricedPool(fleet, pool, api, tuple(deployments), prices, solver, gap_frac, memory))
        for deployments in by_variant.values()
        if len(deployments) > 1
    ]
    best, bound = Mix(np.inf), np.inf
    for sets in sorted(variants, key=lambda sets: sets.unsolved.bound):
        mix = sets.best(most_sets, min(below, best.cost))
        best, bound = min(best, mix, key=lambda mix: mix.cost), min(bound, mix.bound)
    return replace(best, bound=bound)


@dataclass(frozen=True, eq=False)
class _Node:
    """Mixes that have some deployments and do without others, all slots solved."""

    left_out: frozenset[int]
    taken: frozenset[int]
    bounds: np.ndarray
    """[slot]"""
    served: tuple[Served | None, ...]

    @property
    def bound(self) -> float:
        return float(self.bounds.sum())

    def uses(self, k: int, t: int) -> bool:
        served = self.served[t]
        return served is not None and bool(served.answer.replicas[k])

    def spent(self) -> dict[int, float]:
        """What is spent on each deployment that is used."""
        known = [s for s in self.served if s is not None]
        deployments = range(len(known[0].answer.replicas)) if known else ()
        used = [k for k in deployments if any(s.answer.replicas[k] for s in known)]
        return {k: sum(s.spent_on(k) for s in known) for k in used}


class _Sets:
    """Branch and bound on the set of deployments that serve the pool."""

    def __init__(self, priced: PricedPool) -> None:
        self.priced = priced
        self.slots = priced.slots()
        self.every = frozenset(range(len(priced.deployments)))
        bounds = np.array([min(slot.unit * slot.mix.bound for slot in of) for of in self.slots])
        self.unsolved = _Node(frozenset(), frozenset(), bounds + priced.fixed(), (None,) * len(self.slots))
        self.below = self.cost = np.inf
        self.served: tuple[Served, ...] = ()

    def best(self, most_sets: int, below: float) -> Mix:
        """The cheapest recipe of these deployments, where it costs less than something."""
        self.below = below
        root = self._solved(self.unsolved, np.argsort(-self.unsolved.bounds, kind="stable").tolist())
        if root.bound >= self.below:
            return Mix(root.bound)
        self._offer(root)
        self._offer(self._with_those_that_cost_most(root))
        order, settled = count(), np.inf
        heap = [(root.bound, next(order), root)]
        for _ in range(most_sets - 1):
            if not heap or heap[0][0] >= self._enough():
                break
            node = heapq.heappop(heap)[2]
            if self._is_a_recipe(node):
                settled = min(settled, node.bound)
                continue
            for child in self._branches(node):
                self._offer(child)
                heapq.heappush(heap, (child.bound, next(order), child))
        bound = min([settled, self.cost, *(item[0] for item in heap[:1])])
        path = self._path()
        if path is None:
            return Mix(bound)
        return Mix(bound, float(serving_values(self.priced.fleet, path, self.priced.prices).sum()), path)

    def _enough(self) -> float:
        least = min(self.cost, self.below)
        return least - self.priced.gap_frac * abs(least) if least < np.inf else np.inf

    def _solved(self, node: _Node, slots: Iterable[int]) -> _Node:
        """These slots solved, as long as the mixes of a node may be of interest."""
        bounds, served = node.bounds.copy(), list(node.served)
        for t in slots:
            if bounds.sum() >= min(self.below, self.cost):
                break
            bound, served[t] = self.priced.solve(self.slots[t], node.left_out)
            bounds[t] = max(bounds[t], bound + self.priced.fixed()[t])
        return replace(node, bounds=bounds, served=tuple(served))

    def _without(self, node: _Node, more: frozenset[int]) -> _Node:
        """The node without some more deployments: slots that did not use them stay as they are."""
        changed = [t for t in range(len(self.slots)) if any(node.uses(k, t) for k in more)]
        return self._solved(replace(node, left_out=node.left_out | more), changed)

    def _branches(self, node: _Node) -> Iterator[_Node]:
        """Mixes without the deployment that costs most, of those not yet taken for sure, and mixes with it."""
        spent = node.spent()
        k = max((k for k in spent if k not in node.taken), key=lambda k: (spent[k], -k))
        yield self._without(node, frozenset({k}))
        taken = node.taken | {k}
        with_it = replace(node, taken=taken)
        full = len(taken) == self.priced.pool.max_deployments
        yield self._without(with_it, self.every - taken) if full else with_it

    def _with_those_that_cost_most(self, node: _Node) -> _Node:
        """At most K deployments: those on which most is spent, but first such as can serve all lengths together."""
        pool, deployments, spent = self.priced.pool, self.priced.deployments, node.spent()
        outlet = self.priced.api is not None or pool.shed_usd_per_request is not None
        missing = (pool.rate_rps > 0).any(axis=0) & (not outlet)
        kept: set[int] = set()
        while len(kept) < min(pool.max_deployments, len(spent)):
            can = {k: int((missing & np.isfinite(deployments[k].seconds_per_request)).sum()) for k in spent}
            best = max((k for k in spent if k not in kept), key=lambda k: (can[k], spent[k], -k))
            kept.add(best)
            missing = missing & ~np.isfinite(deployments[best].seconds_per_request)
        return self._without(node, self.every - kept)

    def _is_a_recipe(self, node: _Node) -> bool:
        return len(node.spent()) <= self.priced.pool.max_deployments

    def _offer(self, node: _Node) -> None:
        """Take the answers of a node as the recipe to return, where they are the cheapest."""
        served = tuple(s for s in node.served if s is not None)
        cost = sum(s.cost for s in served) + float(self.priced.fixed().sum())
        if len(served) == len(self.slots) and self._is_a_recipe(node) and cost < self.cost:
            self.cost, self.served = cost, served

    def _path(self) -> Recipe | None:
        """The cheapest answers as a recipe, where that takes a mix."""
        pool, api, deployments, served = self.priced.pool, self.priced.api, self.priced.deployments, self.served
        used = [k for k in range(len(deployments)) if any(s.answer.replicas[k] for s in served)]
        if len(used) == 1 and not deployments[used[0]].serves_all:
            used.append(min(k for k in range(len(deployments)) if k not in used))  # it serves in mixes only
        if len(used) < 2:
            return None
        usd, penalty = pool.fixed_by_slot.astype(float), np.zeros(pool.slots)
        for t, s in enumerate(served):
            asked = pool.rate_rps[t] > 0
            rest_rps = s.answer.rest * pool.rate_rps[t][asked]
            if s.slot.outlet.shed and pool.shed_usd_per_request is not None:
                penalty[t] = 3600 * float(rest_rps @ pool.shed_usd_per_request[asked])
            elif api is not None:
                usd[t] += 3600 * float(rest_rps @ api.usd_per_request[asked])
        to_api = api is not None and any(not s.slot.outlet.shed and s.answer.rest.any() for s in served)
        return Recipe(
            pool=pool.key, workloads=pool.workloads, uses=tuple(_use(deployments[k], k, served) for k in sorted(used)),
            api=api.key if api and to_api else None, caching=pool.caching, slot=np.arange(pool.slots),
            usd_per_h=usd, penalty_usd_per_h=penalty, shed_frac=np.array([float(s.slot.outlet.shed) for s in served]),
        )  # fmt: skip


def _use(deployment: Deployment, k: int, served: tuple[Served, ...]) -> Use:
    counts = [s.slot.mix.counts[k].only(s.slot.mix.counts[k].replicas == s.answer.replicas[k]) for s in served]
    return Use(
        deployment.key,
        deployment.offer,
        deployment.gpus_per_replica,
        replicas=np.array([int(c.replicas[0]) for c in counts]),
        firm_replicas=np.array([int(c.firm[0]) for c in counts]),
        load=np.array([float(c.carried[0]) for c in counts]),
    )
