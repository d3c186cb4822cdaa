"""The slots of a pool at given prices, each a small problem of its own, solved once for all that are alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Prices
from problems.recipes.mixes import BoxPrices, ReplicaCost, SlotMix, slot_mix
from problems.recipes.pools import Api, Deployment, Pool
from solvers.backends.solve import SolverName
from solvers.pricing.slot_search import Routed, SolvedSlot, solve_slot

DIGITS = 12
"""decimals that distinguish prices"""

Memory = dict[tuple[object, ...], SolvedSlot]
"""slots solved before; the same rates at the same prices, but for a factor on all of them, have the same answer"""


@dataclass(frozen=True, eq=False)
class Outlet:
    """Where requests go that no GPU carries: shed, or to the API."""

    shed: bool
    price: np.ndarray
    """price of a request/s in a slot [bucket]; inf where everything must be carried"""


@dataclass(frozen=True, eq=False)
class Slot:
    """A slot with one of its outlets, with costs in a unit that makes equal slots of different length equal."""

    mix: SlotMix
    outlet: Outlet
    unit: float
    key: tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Served:
    """An answer to a slot, the better one of its outlets."""

    slot: Slot
    answer: Routed

    @property
    def cost(self) -> float:
        return self.slot.unit * self.answer.cost

    def spent_on(self, k: int) -> float:
        c = self.slot.mix.counts[k]
        return self.slot.unit * float(c.cost[c.replicas == self.answer.replicas[k]][0])


@dataclass(frozen=True, eq=False)
class PricedPool:
    """Some deployments of a pool, at given prices, with one API or none."""

    fleet: FleetProblem
    pool: Pool
    api: Api | None
    deployments: tuple[Deployment, ...]
    prices: Prices
    solver: SolverName
    gap_frac: float
    memory: Memory

    def fixed(self) -> np.ndarray:
        """What the caches cost [slot]."""
        usd: np.ndarray = self.fleet.weight * self.prices.usd_factor * self.pool.fixed_by_slot
        return usd

    def slots(self) -> list[list[Slot]]:
        """Every slot, with each of its outlets."""
        return [[self._slot(t, outlet) for outlet in self._outlets(t)] for t in range(self.pool.slots)]

    def solve(self, slots: list[Slot], left_out: frozenset[int]) -> tuple[float, Served | None]:
        """The bound of a slot without some deployments, and the better answer of its outlets."""
        bounds, answers = [], []
        for slot in slots:
            key = (slot.key, left_out)
            if key not in self.memory:
                mix = slot.mix.without(left_out)
                self.memory[key] = solve_slot(mix, self.pool.max_deployments, self.solver, self.gap_frac)
            solved = self.memory[key]
            bounds.append(slot.unit * solved.bound)
            answers += [Served(slot, solved.answer)] if solved.answer is not None else []
        return min(bounds), min(answers, key=lambda served: served.cost, default=None)

    def _outlets(self, t: int) -> list[Outlet]:
        """Where the rest of a slot may go, all of it one way; a way that is cheaper for no length is left out."""
        hour = 3600 * float(self.fleet.weight[t])
        ways = []
        if self.api is not None:
            weighs = float(self.prices.usd_factor_of(self.pool.key, self.api.key)[t])
            ways.append(Outlet(False, hour * weighs * self.api.usd_per_request))
        if self.pool.shed_usd_per_request is not None:
            ways.append(Outlet(True, hour * float(self.prices.in_dollars) * self.pool.shed_usd_per_request))
        if len(ways) == 2:
            api, shed = ways
            if (api.price <= shed.price).all():
                return [api]
            if (shed.price <= api.price).all():
                return [shed]
        return ways or [Outlet(False, np.full(self.pool.rate_rps.shape[1], np.inf))]

    def _slot(self, t: int, outlet: Outlet) -> Slot:
        costs_of = [self._cost_of(d, t) for d in self.deployments]
        mix = slot_mix(self.pool, t, self.deployments, costs_of, outlet.price, self._boxes(t))
        costs = np.concatenate(
            [
                *(c.cost for c in mix.counts),
                outlet.price,
                *(c.own_cost for c in mix.counts if mix.shared),
                *(boxes.cost for boxes in mix.shared),
            ]
        )
        unit = float(costs[np.isfinite(costs)].max(initial=0.0)) or 1.0
        names = (self.pool.key, tuple(d.key for d in self.deployments), self.gap_frac)
        steps = tuple((boxes.of_firm, tuple(boxes.members), boxes.most.tobytes()) for boxes in mix.shared)
        key = (*names, self.pool.rate_rps[t].tobytes(), np.round(costs / unit, DIGITS).tobytes(), steps)
        return Slot(mix.in_units_of(unit), outlet, unit, key)

    def _cost_of(self, d: Deployment, t: int) -> ReplicaCost:
        """What replicas cost in a slot; without their boxes, where others of the mix may stand in them."""
        offer = self.fleet.offers[d.offer]
        if d.offer in self._shared_offers:
            return partial(self._usd_of_gpus, d, t)
        return partial(self.prices.usd_of_replicas, d, offer, self.pool.workloads, np.array(t), shared=False)

    def _usd_of_gpus(self, d: Deployment, t: int, replicas: np.ndarray, firm: np.ndarray) -> np.ndarray:
        in_use, on_top = (self.prices.usd_of_a_gpu(kind, d.offer, d.gpus_per_replica)[t] for kind in ("in-use", "firm"))
        usd: np.ndarray = d.gpus_per_replica * (in_use * replicas + on_top * firm)
        return usd

    @cached_property
    def _shared_offers(self) -> dict[str, dict[int, int]]:
        """Offers that several deployments stand on: these, with the GPUs of a replica."""
        by_offer: dict[str, dict[int, int]] = {}
        for k, d in enumerate(self.deployments):
            by_offer.setdefault(d.offer, {})[k] = d.gpus_per_replica
        return {g: members for g, members in by_offer.items() if len(members) > 1 and self.prices.know_boxes}

    def _boxes(self, t: int) -> list[BoxPrices]:
        return [
            BoxPrices(members, self.fleet.offers[g].box, partial(self._usd_of_use, g, t))
            for g, members in self._shared_offers.items()
        ]

    def _usd_of_use(self, g: str, t: int, gpus: np.ndarray, firm_gpus: np.ndarray) -> np.ndarray:
        usd = self.prices.usd_of_use(self.fleet.offers[g], self.pool.workloads, np.array(t), gpus, firm_gpus)
        return np.broadcast_to(usd, np.broadcast_shapes(gpus.shape, firm_gpus.shape))
