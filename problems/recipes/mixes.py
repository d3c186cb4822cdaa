"""One slot of a pool that any number of deployments serve together: what so many replicas of each carry and cost.

Which numbers of replicas, and who serves which lengths, is a small mixed-integer program (problems/slot_model.py). Much
of it is settled here in closed form. With one number of replicas fixed, and every other load at its lowest price per
unit, what is left is a continuous knapsack. It bounds the cost of every answer with that number, and numbers whose
bound is above the cost of an answer at hand are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from problems.recipes.pools import Deployment, Pool, firm_replicas

ROUNDING = 1e-10
"""load beyond what replicas carry that is rounding of the numbers"""


ReplicaCost = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""what numbers of replicas cost, so many of them firm [count]"""


@dataclass(frozen=True, eq=False)
class Counts:
    """The numbers of replicas that may be run of one deployment, from few to many (arrays of one length)."""

    replicas: np.ndarray
    firm: np.ndarray
    """replicas that must not be spot"""
    carried: np.ndarray
    """the most load that they may carry"""
    cost: np.ndarray
    on_a_line: bool
    """whether n replicas carry n and cost n times what one costs, for all n between the first and the last"""

    def only(self, kept: np.ndarray) -> Counts:
        replicas = self.replicas[kept]
        on_a_line = self.on_a_line and len(replicas) == replicas[-1] - replicas[0] + 1
        return Counts(replicas, self.firm[kept], self.carried[kept], self.cost[kept], on_a_line)

    def cheapest_for(self, load: float) -> int:
        """The cheapest number of replicas that carries a load."""
        enough = np.flatnonzero((self.carried >= load - ROUNDING) & ((self.replicas > 0) | (load <= 0)))
        return int(self.replicas[enough[np.argmin(self.cost[enough])]])


@dataclass(frozen=True, eq=False)
class SlotMix:
    """A slot: who could carry how much of it, at what cost. Buckets without demand are left out."""

    load: np.ndarray
    """replicas kept busy by all requests of a bucket [deployment, bucket]; inf where it cannot serve them"""
    outlet: np.ndarray
    """cost of all requests of a bucket at the outlet [bucket]; inf where there is none"""
    counts: tuple[Counts, ...]
    """[deployment]"""

    @cached_property
    def at_least(self) -> np.ndarray:
        """What each bucket costs at least with a deployment, and at the outlet [deployment and outlet, bucket].

        A unit of load costs what it does with the number of replicas that carries it most cheaply.
        """
        per_load = np.array([_least_ratio(c.cost, c.carried) for c in self.counts])
        can = np.isfinite(self.load)
        at_least = np.where(can, per_load[:, None] * np.where(can, self.load, 1.0), np.inf)
        return np.vstack([at_least, self.outlet])

    @cached_property
    def bounds_by_count(self) -> list[np.ndarray]:
        """For each number of replicas of each deployment, a lower bound on the cost of any answer that has it.

        The others carry any load at its lowest price per unit, so the cheapest answer is a continuous knapsack: the
        buckets that are most expensive elsewhere, per unit of load here, stay here.
        """
        prices = self.at_least.copy()
        lowest = np.argmin(prices, axis=0)
        buckets = np.arange(len(self.outlet))
        first = prices[lowest, buckets]
        prices[lowest, buckets] = np.inf
        second = prices.min(axis=0)
        bounds = []
        for k, c in enumerate(self.counts):
            elsewhere = np.where(lowest == k, second, first)
            bounds.append(c.cost + _cost_elsewhere(self.load[k], elsewhere, c.carried))
        return bounds

    @cached_property
    def bound(self) -> float:
        """What any answer costs at least; inf where there is none."""
        return max(float(self.at_least.min(axis=0).sum()), *(float(b.min()) for b in self.bounds_by_count))

    @cached_property
    def size(self) -> float:
        """How large the costs in it are together: what rounding is measured by, as prices may be next to nothing."""
        return float(self.at_least[np.isfinite(self.at_least)].sum())

    def narrowed(self, upper: float) -> SlotMix:
        """Without the numbers of replicas of which no answer costs `upper` or less."""
        room = upper + 1e-9 * abs(upper) + 1e-12 * self.size
        kept = [c.only(bounds <= room) for c, bounds in zip(self.counts, self.bounds_by_count, strict=True)]
        return replace(self, counts=tuple(kept))

    def without(self, deployments: Collection[int]) -> SlotMix:
        """With no replicas of some deployments."""
        counts = (c.only(c.replicas == 0) if k in deployments else c for k, c in enumerate(self.counts))
        return replace(self, counts=tuple(counts)) if deployments else self

    def in_units_of(self, unit: float) -> SlotMix:
        """With all costs in another unit."""
        counts = tuple(replace(c, cost=c.cost / unit) for c in self.counts)
        return replace(self, outlet=self.outlet / unit, counts=counts)

    def with_replicas(self, replicas: np.ndarray) -> SlotMix:
        """With these numbers of replicas and no others [deployment]."""
        return replace(self, counts=tuple(c.only(c.replicas == n) for c, n in zip(self.counts, replicas, strict=True)))


def slot_mix(
    pool: Pool, slot: int, deployments: Sequence[Deployment], costs: Sequence[ReplicaCost], outlet_price: np.ndarray
) -> SlotMix:
    """The slot with the costs of replicas [deployment] and of a request/s at the outlet [bucket], inf without one."""
    asked = pool.rate_rps[slot] > 0
    rate = pool.rate_rps[slot][asked]
    load = np.array([d.seconds_per_request[asked] * rate for d in deployments]).reshape(len(deployments), len(rate))
    counts = [_counts(pool, d, float(load[k][np.isfinite(load[k])].sum()), costs[k]) for k, d in enumerate(deployments)]
    return SlotMix(load, outlet_price[asked] * rate, tuple(counts))


def _counts(pool: Pool, d: Deployment, all_load: float, cost_of: ReplicaCost) -> Counts:
    """None, and from the fewest that may be run to as many as carry all that it could serve.

    Zones count for a deployment alone: in a mix a reclaim is taken to strike all spot replicas of a deployment.
    """
    staffing = d.staffing_in_a_mix
    if staffing is None:
        raise ValueError(f"deployment {d.key!r} has no staffing for mixes")
    most = int(staffing.replicas(np.array(all_load)))
    replicas = np.r_[0, np.arange(max(1, staffing.min_replicas), most + 1)]
    carried = np.where(replicas == most, all_load, np.minimum(staffing.carried_load(replicas), all_load))
    firm = firm_replicas(pool, replace(d, spot_zones=1), staffing, carried, replicas)
    cost = cost_of(replicas, firm)
    on_a_line = bool(
        len(replicas) == most + 1
        and np.all(np.abs(carried - replicas)[:-1] <= ROUNDING)
        and np.allclose(cost, cost[-1] / max(most, 1) * replicas, rtol=1e-12, atol=0.0)
    )
    return Counts(replicas, firm, carried, cost, on_a_line)


def _least_ratio(cost: np.ndarray, carried: np.ndarray) -> float:
    some = carried > 0
    return float((cost[some] / carried[some]).min()) if some.any() else np.inf


def _cost_elsewhere(load: np.ndarray, elsewhere: np.ndarray, carried: np.ndarray) -> np.ndarray:
    """What the buckets cost at least that a deployment leaves to others, by how much it carries [count].

    Where boxes are shared, what others cost at least may be below nothing: such buckets are always left to them.
    """
    only_here = ~np.isfinite(elsewhere)
    if not np.isfinite(load[only_here]).all():
        return np.full(len(carried), np.inf)
    if carried[-1] <= 0:
        return np.full(len(carried), elsewhere.sum())
    must = float(load[only_here].sum())
    movable = ~only_here & np.isfinite(load)
    order = np.argsort(-elsewhere[movable] / load[movable], kind="stable")
    loads = np.r_[0.0, np.cumsum(load[movable][order])]
    saved = np.r_[0.0, np.cumsum(np.maximum(elsewhere[movable][order], 0.0))]
    rest = elsewhere[~only_here].sum() - np.interp(carried - must, loads, saved)
    least = float(np.minimum(elsewhere[~only_here], 0.0).sum())
    return np.where(carried >= must - ROUNDING, np.maximum(rest, least), np.inf)


@dataclass(frozen=True, eq=False)
class Answer:
    """Numbers of replicas [deployment] and what they cost with the outlet."""

    replicas: np.ndarray
    cost: float


def first_answer(slot: SlotMix, most_deployments: int) -> Answer | None:
    """A good answer with few steps: the best with one deployment and the outlet, with two, or by the load.

    By the load, every bucket goes where it is cheapest, and deployments are given up one by one as long as that pays.
    """
    best = _better(_with_outlet_alone(slot), _by_the_load(slot, most_deployments))
    if most_deployments < 2:
        return best
    promising = slot if best is None else slot.narrowed(best.cost)
    running = [k for k, c in enumerate(promising.counts) if c.replicas[-1] > 0]
    for k in running:
        for j in running:
            if j != k:
                best = _better(best, _two(promising, k, j))
    return best


def _better(one: Answer | None, other: Answer | None) -> Answer | None:
    return other if one is None or (other is not None and other.cost < one.cost) else one


def _by_the_load(slot: SlotMix, most_deployments: int) -> Answer | None:
    used = set(np.argmin(slot.at_least, axis=0).tolist()) - {len(slot.counts)}
    now = _rounded_up(slot, used)
    while used:
        tried = [(answer.cost, k, answer) for k in sorted(used) if (answer := _rounded_up(slot, used - {k}))]
        if not tried:
            break
        cost, dropped, fewer = min(tried, key=lambda item: item[:2])
        if now is not None and len(used) <= most_deployments and cost >= now.cost:
            break
        used, now = used - {dropped}, fewer
    return now if len(used) <= most_deployments else None


def _two(slot: SlotMix, k: int, j: int) -> Answer | None:
    """The best of the answers where the first of two deployments is filled and the second carries the rest.

    Those buckets stay with the first that would be the greatest load for the second, by their load on the first.
    """
    here, there = slot.load[k], slot.load[j]
    stays, moves = ~np.isfinite(there), ~np.isfinite(here)
    if (stays & moves).any():
        return None
    either = ~stays & ~moves
    order = np.argsort(-there[either] / here[either], kind="stable")
    kept = float(here[stays].sum()) + np.r_[0.0, np.cumsum(here[either][order])]
    spared = np.r_[0.0, np.cumsum(there[either][order])]
    first, second = slot.counts[k], slot.counts[j]
    rest = float(there[~stays].sum()) - np.interp(first.carried, kept, spared)
    from_here_on = np.minimum.accumulate(second.cost[::-1])[::-1]
    at = np.searchsorted(second.carried, rest - ROUNDING)
    possible = (first.carried >= kept[0] - ROUNDING) & (at < len(second.cost))
    cost = np.where(possible, first.cost + from_here_on[np.minimum(at, len(second.cost) - 1)], np.inf)
    n = int(np.argmin(cost))
    if not np.isfinite(cost[n]):
        return None
    replicas = np.zeros(len(slot.counts), dtype=int)
    replicas[k], replicas[j] = first.replicas[n], second.cheapest_for(float(rest[n]))
    return Answer(replicas, float(cost[n]))


def _with_outlet_alone(slot: SlotMix) -> Answer | None:
    """The best of the answers with one deployment, or none, and the outlet."""
    none = np.zeros(len(slot.counts), dtype=int)
    best = Answer(none, float(slot.outlet.sum())) if np.isfinite(slot.outlet).all() else None
    for k, c in enumerate(slot.counts):
        cost = c.cost + _cost_elsewhere(slot.load[k], slot.outlet, c.carried)
        n = int(np.argmin(cost))
        if np.isfinite(cost[n]) and (best is None or cost[n] < best.cost):
            best = Answer(np.where(np.arange(len(none)) == k, c.replicas[n], 0), float(cost[n]))
    return best


def _rounded_up(slot: SlotMix, used: set[int]) -> Answer | None:
    """Every bucket where it is cheapest by the load among these deployments, and as many replicas as that takes."""
    prices = slot.at_least.copy()
    prices[[k for k in range(len(slot.counts)) if k not in used]] = np.inf
    where = np.argmin(prices, axis=0)
    if not np.isfinite(prices[where, np.arange(len(where))]).all():
        return None
    replicas = [c.cheapest_for(float(slot.load[k][where == k].sum())) for k, c in enumerate(slot.counts)]
    cost = sum(float(c.cost[c.replicas == n][0]) for c, n in zip(slot.counts, replicas, strict=True))
    return Answer(np.array(replicas, dtype=int), cost + float(slot.outlet[where == len(slot.counts)].sum()))
