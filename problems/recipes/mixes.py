"""One slot of a pool that any number of deployments serve together: what so many replicas of each carry and cost.

Which numbers of replicas, and who serves which lengths, is a small mixed-integer program (problems/slot_model.py). Much
of it is settled here in closed form. With one number of replicas fixed, and every other load at its lowest price per
unit, what is left is a continuous knapsack. It bounds the cost of every answer with that number, and numbers whose
bound is above the cost of an answer at hand are left out.

Deployments on one offer stand in the same boxes. What these cost is a matter of all GPUs in them together, in steps: a
replica by itself is counted with the part of it that is its own whatever the others do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
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
    """at least, where they stand in shared boxes: with the part of the boxes that is theirs whatever the others run"""
    own_cost: np.ndarray
    """without shared boxes; the same as the cost where there are none"""
    on_a_line: bool
    """whether n replicas carry n and have n times the own cost of one, for all n between the first and the last"""

    def only(self, kept: np.ndarray) -> Counts:
        replicas, firm, carried = self.replicas[kept], self.firm[kept], self.carried[kept]
        on_a_line = self.on_a_line and len(replicas) == replicas[-1] - replicas[0] + 1
        return Counts(replicas, firm, carried, self.cost[kept], self.own_cost[kept], on_a_line)

    def cheapest_for(self, load: float) -> int:
        """The cheapest number of replicas that carries a load."""
        enough = np.flatnonzero((self.carried >= load - ROUNDING) & ((self.replicas > 0) | (load <= 0)))
        return int(self.replicas[enough[np.argmin(self.cost[enough])]])


@dataclass(frozen=True, eq=False)
class BoxPrices:
    """What boxes of an offer cost that several deployments fill together."""

    members: dict[int, int]
    """deployment -> GPUs of a replica"""
    box: int
    """GPUs of a box"""
    cost: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """by GPUs in use and firm ones among them; never falling in either"""


@dataclass(frozen=True, eq=False)
class SharedBoxes:
    """Boxes that deployments fill together: what they cost by all GPUs in use together, or all firm ones, in steps."""

    members: dict[int, int]
    """deployment -> GPUs of a replica"""
    of_firm: bool
    """whether only GPUs count that must not be spot"""
    most: np.ndarray
    """GPUs up to which a step reaches [step]"""
    cost: np.ndarray
    """from nothing upward [step]"""

    def gpus(self, k: int, counts: Counts) -> np.ndarray:
        """GPUs of a member that count, by its number of replicas [count]."""
        used: np.ndarray = self.members[k] * (counts.firm if self.of_firm else counts.replicas)
        return used

    def cost_of(self, gpus: np.ndarray) -> np.ndarray:
        """What so many GPUs of all members together cost."""
        cost: np.ndarray = self.cost[np.searchsorted(self.most, gpus)]
        return cost

    @cached_property
    def _below(self) -> tuple[np.ndarray, np.ndarray]:
        """The corners of the largest convex function that no step is below: GPUs, and cost."""
        corners = [(0.0, 0.0)]
        for x, y in zip(self.most.tolist(), self.cost.tolist(), strict=True):
            while len(corners) > 1 and _turns_down(*corners[-2], *corners[-1], x, y):
                corners.pop()
            corners.append((x, y))
        gpus, cost = zip(*corners, strict=True)
        return np.array(gpus), np.array(cost)

    def at_least(self, gpus: np.ndarray) -> np.ndarray:
        """What some GPUs cost at least if others may fill the same boxes: for all of them it is no more than together.

        That holds for any convex function that is nothing for no GPUs.
        """
        least: np.ndarray = np.interp(gpus, *self._below)
        return least

    def steps_for(self, counts: Sequence[Counts]) -> np.ndarray:
        """Which steps may be of use with these numbers of replicas."""
        used = [self.gpus(k, counts[k]) for k in self.members]
        first, last = np.searchsorted(self.most, [sum(int(f(u)) for u in used) for f in (np.min, np.max)])
        return np.arange(first, last + 1)

    def in_units_of(self, unit: float) -> SharedBoxes:
        return replace(self, cost=self.cost / unit)


def _turns_down(x0: float, y0: float, x1: float, y1: float, x2: float, y2: float) -> bool:
    """Whether the way over three points turns down at the second, or goes straight on."""
    return (y1 - y0) * (x2 - x1) >= (y2 - y1) * (x1 - x0)


@dataclass(frozen=True, eq=False)
class SlotMix:
    """A slot: who could carry how much of it, at what cost. Buckets without demand are left out."""

    load: np.ndarray
    """replicas kept busy by all requests of a bucket [deployment, bucket]; inf where it cannot serve them"""
    outlet: np.ndarray
    """cost of all requests of a bucket at the outlet [bucket]; inf where there is none"""
    counts: tuple[Counts, ...]
    """[deployment]"""
    shared: tuple[SharedBoxes, ...] = ()

    @cached_property
    def at_least(self) -> np.ndarray:
        """What each bucket costs at least with a deployment, and at the outlet [deployment and outlet, bucket].

        A unit of load costs what it does with the number of replicas that carries it most cheaply.
        """
        return self._by_the_load([c.cost for c in self.counts])

    def _by_the_load(self, costs: list[np.ndarray]) -> np.ndarray:
        per_load = np.array([_least_ratio(cost, c.carried) for cost, c in zip(costs, self.counts, strict=True)])
        can = np.isfinite(self.load)
        at_least = np.where(can, per_load[:, None] * np.where(can, self.load, 1.0), np.inf)
        return np.vstack([at_least, self.outlet])

    @cached_property
    def cost_alone(self) -> list[np.ndarray]:
        """What each number of replicas of each deployment costs where no other stands in its boxes."""
        alone = [c.own_cost for c in self.counts]
        for boxes in self.shared:
            for k in boxes.members:
                alone[k] = alone[k] + boxes.cost_of(boxes.gpus(k, self.counts[k]))
        return alone

    @cached_property
    def bounds_by_count(self) -> list[np.ndarray]:
        """For each number of replicas of each deployment, a lower bound on the cost of any answer that has it.

        The others carry any load at its lowest price per unit, so the cheapest answer is a continuous knapsack: the
        buckets that are most expensive elsewhere, per unit of load here, stay here. Boxes that are shared count in
        parts, or as this deployment alone begins them, and then the others stand in them for nothing.
        """
        elsewhere = _without_each(self.at_least)
        bounds = [c.cost + _cost_elsewhere(self.load[k], elsewhere[k], c.carried) for k, c in enumerate(self.counts)]
        by_offer = {tuple(boxes.members): boxes.members for boxes in self.shared}
        for members in by_offer.values():
            in_boxes = [c.own_cost if k in members else c.cost for k, c in enumerate(self.counts)]
            elsewhere = _without_each(self._by_the_load(in_boxes))
            for k in members:
                rest = _cost_elsewhere(self.load[k], elsewhere[k], self.counts[k].carried)
                bounds[k] = np.maximum(bounds[k], self.cost_alone[k] + rest)
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
        counts = tuple(replace(c, cost=c.cost / unit, own_cost=c.own_cost / unit) for c in self.counts)
        shared = tuple(boxes.in_units_of(unit) for boxes in self.shared)
        return replace(self, outlet=self.outlet / unit, counts=counts, shared=shared)

    def with_replicas(self, replicas: np.ndarray) -> SlotMix:
        """With these numbers of replicas and no others [deployment]."""
        return replace(self, counts=tuple(c.only(c.replicas == n) for c, n in zip(self.counts, replicas, strict=True)))

    def cost_of(self, replicas: np.ndarray) -> float:
        """What numbers of replicas [deployment] cost, with their boxes."""
        at = [int(np.searchsorted(c.replicas, n)) for c, n in zip(self.counts, replicas.tolist(), strict=True)]
        cost = sum(float(c.own_cost[i]) for c, i in zip(self.counts, at, strict=True))
        for boxes in self.shared:
            cost += float(boxes.cost_of(sum(boxes.gpus(k, self.counts[k])[at[k]] for k in boxes.members)))
        return cost


def slot_mix(
    pool: Pool,
    slot: int,
    deployments: Sequence[Deployment],
    costs: Sequence[ReplicaCost],
    outlet_price: np.ndarray,
    boxes: Sequence[BoxPrices] = (),
) -> SlotMix:
    """The slot with the costs of replicas [deployment] and of a request/s at the outlet [bucket], inf without one, and
    of the boxes that several deployments share.
    """
    asked = pool.rate_rps[slot] > 0
    rate = pool.rate_rps[slot][asked]
    load = np.array([d.seconds_per_request[asked] * rate for d in deployments]).reshape(len(deployments), len(rate))
    counts = [_counts(pool, d, float(load[k][np.isfinite(load[k])].sum()), costs[k]) for k, d in enumerate(deployments)]
    shared = [part for prices in boxes for part in _shared_boxes(prices, counts)]
    for part in shared:
        for k in part.members:
            counts[k] = _in_boxes(part, k, counts[k])
    return SlotMix(load, outlet_price[asked] * rate, tuple(counts), tuple(shared))


def _shared_boxes(prices: BoxPrices, counts: Sequence[Counts]) -> Iterator[SharedBoxes]:
    """What boxes cost by the GPUs in use; and by the firm ones, where these are not the same.

    Firm GPUs then cost what they add at least, however many are in use besides: what is rounded up to boxes of both
    kinds at once is the same for any number of full boxes.
    """
    members = prices.members
    gpus = np.arange(sum(size * int(counts[k].replicas[-1]) for k, size in members.items()) + 1)
    if all((counts[k].firm == counts[k].replicas).all() for k in members):
        yield from _in_steps(members, False, prices.cost(gpus, gpus))
        return
    yield from _in_steps(members, False, prices.cost(gpus, 0 * gpus))
    firm = np.arange(sum(size * int(counts[k].firm.max()) for k, size in members.items()) + 1)[:, None]
    used = firm + np.arange(prices.box)
    yield from _in_steps(members, True, (prices.cost(used, firm) - prices.cost(used, 0 * firm)).min(axis=1))


def _in_steps(members: dict[int, int], of_firm: bool, cost: np.ndarray) -> Iterator[SharedBoxes]:
    """The steps of what so many GPUs cost [GPUs]; none if they cost nothing."""
    cost = np.minimum.accumulate(cost[::-1])[::-1]  # rounding of the numbers may let it fall
    if cost.any():
        last = np.flatnonzero(np.r_[np.diff(cost) > 0, True])
        yield SharedBoxes(members, of_firm, last, cost[last])


def _in_boxes(boxes: SharedBoxes, k: int, counts: Counts) -> Counts:
    """The numbers of replicas of a member with what they cost at least in shared boxes."""
    on_a_line = counts.on_a_line and (not boxes.of_firm or bool((counts.firm == counts.replicas).all()))
    return replace(counts, cost=counts.cost + boxes.at_least(boxes.gpus(k, counts)), on_a_line=on_a_line)


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
    return Counts(replicas, firm, carried, cost, cost, on_a_line)


def _least_ratio(cost: np.ndarray, carried: np.ndarray) -> float:
    some = carried > 0
    return float((cost[some] / carried[some]).min()) if some.any() else np.inf


def _without_each(prices: np.ndarray) -> np.ndarray:
    """The lowest price of each bucket with anything but one deployment, or the outlet [that one, bucket]."""
    lowest = np.argmin(prices, axis=0)
    buckets = np.arange(prices.shape[1])
    first, others = prices[lowest, buckets], prices.copy()
    others[lowest, buckets] = np.inf
    second = others.min(axis=0)
    return np.asarray(np.where(lowest == np.arange(len(prices))[:, None], second, first))


def _cost_elsewhere(load: np.ndarray, elsewhere: np.ndarray, carried: np.ndarray) -> np.ndarray:
    """What the buckets cost at least that a deployment leaves to others, by how much it carries [count]."""
    only_here = ~np.isfinite(elsewhere)
    if only_here.any() and not np.isfinite(load[only_here]).all():
        return np.full(len(carried), np.inf)
    if carried[-1] <= 0:
        return np.full(len(carried), elsewhere.sum())
    must = float(load[only_here].sum())
    movable = np.flatnonzero(~only_here & np.isfinite(load))
    movable = movable[np.argsort(-elsewhere[movable] / load[movable], kind="stable")]
    saved = np.interp(carried - must, _sums(load[movable]), _sums(elsewhere[movable]))
    rest = elsewhere[~only_here].sum() - saved
    return np.where(carried >= must - ROUNDING, np.maximum(rest, 0.0), np.inf)


def _sums(amounts: np.ndarray) -> np.ndarray:
    """Of none of them, of the first, of the first two, and so on."""
    sums = np.zeros(len(amounts) + 1)
    np.cumsum(amounts, out=sums[1:])
    return sums


@dataclass(frozen=True, eq=False)
class Answer:
    """Numbers of replicas [deployment] and what they cost with the outlet."""

    replicas: np.ndarray
    cost: float


def _answer(slot: SlotMix, replicas: np.ndarray, at_outlet: float = 0.0) -> Answer:
    return Answer(replicas, slot.cost_of(replicas) + at_outlet)


def first_answer(slot: SlotMix, most_deployments: int) -> Answer | None:
    """A good answer with few steps: the best with one deployment and the outlet, with two, or by the load.

    By the load, every bucket goes where it is cheapest, and deployments are given up one by one as long as that pays.
    """
    best = _better(_with_outlet_alone(slot), _by_the_load(slot, most_deployments))
    if most_deployments < 2:
        return best
    promising = slot if best is None else slot.narrowed(best.cost)
    running = [k for k, c in enumerate(promising.counts) if c.replicas[-1] > 0]
    for k, j in itertools.permutations(running, 2):
        two = _two(promising, k, j, np.inf if best is None else best.cost)
        best = best if two is None else _better(best, _answer(slot, two))
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


def _two(slot: SlotMix, k: int, j: int, below: float) -> np.ndarray | None:
    """The best of the answers where the first of two deployments is filled and the second carries the rest, where it
    may cost less than something: numbers of replicas [deployment].

    Those buckets stay with the first that would be the greatest load for the second, by their load on the first.
    """
    here, there = slot.load[k], slot.load[j]
    stays, moves = ~np.isfinite(there), ~np.isfinite(here)
    if (stays & moves).any():
        return None
    either = ~stays & ~moves
    order = np.argsort(-there[either] / here[either], kind="stable")
    kept = float(here[stays].sum()) + _sums(here[either][order])
    spared = _sums(there[either][order])
    first, second = slot.counts[k], slot.counts[j]
    rest = float(there[~stays].sum()) - np.interp(first.carried, kept, spared)
    at = np.searchsorted(second.carried, rest - ROUNDING)
    possible = (first.carried >= kept[0] - ROUNDING) & (at < len(second.carried))
    at = np.minimum(at, len(second.carried) - 1)
    cost = first.own_cost + second.own_cost[at]
    for boxes in slot.shared:
        gpus = np.zeros(len(at), dtype=int)
        if k in boxes.members:
            gpus = gpus + boxes.gpus(k, first)
        if j in boxes.members:
            gpus = gpus + boxes.gpus(j, second)[at]
        cost = cost + boxes.cost_of(gpus)
    cost = np.where(possible, cost, np.inf)
    n = int(np.argmin(cost))
    if cost[n] >= below:
        return None
    replicas = np.zeros(len(slot.counts), dtype=int)
    replicas[k], replicas[j] = first.replicas[n], second.cheapest_for(float(rest[n]))
    return replicas


def _with_outlet_alone(slot: SlotMix) -> Answer | None:
    """The best of the answers with one deployment, or none, and the outlet."""
    none = np.zeros(len(slot.counts), dtype=int)
    best = Answer(none, float(slot.outlet.sum())) if np.isfinite(slot.outlet).all() else None
    for k, c in enumerate(slot.counts):
        cost = slot.cost_alone[k] + _cost_elsewhere(slot.load[k], slot.outlet, c.carried)
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
    return _answer(slot, np.array(replicas, dtype=int), float(slot.outlet[where == len(slot.counts)].sum()))
