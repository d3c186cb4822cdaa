"""Separation of cuts about replicas of two workloads that stand apart in boxes they share (problems/standing_apart.py).

In one offer and slot an LP solution says how often each workload has how many replicas of which size. A mixture of
whole plans with the same shares needs at least so many boxes. Cuts about GPUs leave such an LP alone where replicas of
several sizes fill their boxes only if those of one deployment stand together.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.standing_apart import (
    NOBODY,
    Apart,
    Standing,
    boxes_of_all,
    boxes_of_two,
    counts_by_size,
    made_valid_apart,
    standings,
)
from solvers.cuts.mixtures import SOME, cheapest_mixture
from solvers.cuts.picked import Picked

MOST_BOXES = 6
"""boxes up to which replicas are told apart; more count as these"""
MOST_WORKLOADS = 6
"""workloads of an offer and slot of which any two are looked at"""
Two = tuple[dict[Standing, float], dict[Standing, float]]
Shares = dict[str, list[dict[Standing, float]]]
"""by workload and slot, how often it has which replicas"""


def standing_apart(
    fleet: FleetProblem, on: list[Picked], of: str, g: str, has: np.ndarray, slots: list[int], short_of: float
) -> dict[int, Apart]:
    """By slot, the cut about two workloads that the LP violates most; `has` are the instances that count [slot]."""
    offer = fleet.offers[g]
    fewest = offer.fewest if of == "in-use" else offer.fewest_firm
    sizes = {w: own for w in fleet.workloads if (own := _sizes(fleet, w, g))}
    if fewest < 2 or len({size for own in sizes.values() for size in own}) < 2:
        return {}
    shares = _shares(fleet, on, of, g, set(sizes))
    cuts: dict[int, Apart] = {}
    for t in slots:
        found = []
        for one, other in combinations(_largest(shares, t), 2):
            two = (shares[one][t], shares[other][t])
            counts = _counts(offer.box, fewest, two, (sizes[one], sizes[other]), float(has[t]), short_of)
            if counts is not None:
                short, first, second = counts
                found.append((short, Apart(of, g, t, {one: first, other: second})))
        if found:
            cuts[t] = max(found, key=lambda each: each[0])[1]
    return cuts


def _largest(shares: Shares, t: int) -> list[str]:
    """The workloads with the most GPUs on the offer in a slot."""
    gpus = {w: sum(share * where.size * where.replicas for where, share in of[t].items()) for w, of in shares.items()}
    ranked = sorted((w for w, n in gpus.items() if n > 0), key=lambda w: (-gpus[w], w))
    return ranked[:MOST_WORKLOADS]


def _counts(
    box: int, fewest: int, two: Two, sizes: tuple[set[int], set[int]], has: float, short_of: float
) -> tuple[float, dict[int, np.ndarray], dict[int, np.ndarray]] | None:
    """By how many boxes the LP is short for two workloads, and what says so; None if it is not."""
    first = _first_counts(box, fewest, two, has, short_of)
    if first is None:
        return None
    gpus = box * min(MOST_BOXES, -(-max(s * n for own in two for s, n in own) // box))
    ones, others = (standings(of, gpus) for of in sizes)
    known = np.array([first.get(standing, -np.inf) for standing in ones])
    if not np.isfinite(known).any():
        return None
    counts = made_valid_apart(known, boxes_of_all(box, fewest, ones, others))
    needed = sum(
        share * float(count[among.index(_within(standing, gpus))])
        for own, among, count in zip(two, (ones, others), counts, strict=True)
        for standing, share in own.items()
    )
    if needed <= has + short_of:
        return None
    return needed - has, counts_by_size(ones, counts[0]), counts_by_size(others, counts[1])


def _first_counts(box: int, fewest: int, two: Two, has: float, short_of: float) -> dict[Standing, float] | None:
    """What replicas of the first workload count in the cheapest mixture; None: the LP has enough for it."""
    ones, others = (list(own) for own in two)
    needs = np.array([[boxes_of_two(box, fewest, a, b) for b in others] for a in ones], dtype=float)
    alone = np.array(list(two[0].values())) @ needs @ np.array(list(two[1].values()))
    if alone <= has + short_of:
        return None  # a mixture, though not the cheapest
    other_shares = np.zeros((len(others) - 1) * len(ones) + 1)
    other_shares[:: len(ones)] = list(two[1].values())
    shares = {"one": np.array(list(two[0].values())), "other": other_shares}
    mixture = cheapest_mixture(shares, 0, lambda a, b: a + b, needs.T.reshape(1, -1), np.array([has]))
    if mixture is None or mixture.short <= short_of:
        return None
    return dict(zip(ones, mixture.prices["one"].tolist(), strict=True))


def _sizes(fleet: FleetProblem, w: str, g: str) -> set[int]:
    """Sizes of a workload's replicas on an offer; none where they do not divide one another, or the work may wait.

    Nor where one takes several boxes.
    """
    pools = [pool for pool in fleet.pools.values() if w in pool.workloads]
    sizes = {d.gpus_per_replica for pool in pools for d in pool.deployments if d.offer == g}
    plain = all(size & (size - 1) == 0 for size in sizes) and all(pool.window is None for pool in pools)
    return sizes if plain and max(sizes, default=0) <= fleet.offers[g].box else set()


def _shares(fleet: FleetProblem, on: list[Picked], of: str, g: str, asked: set[str]) -> Shares:
    """How often workloads have which replicas of the deployment that uses most of the offer, which stands for all."""
    slots = range(len(fleet.slot_hours))
    shares: Shares = {}
    for p in on:
        w = p.path.workloads[0]
        if w not in asked:
            continue
        own = shares.setdefault(w, [{NOBODY: 0.0} for _ in slots])
        uses = [use for use in p.path.uses if use.offer == g]
        replicas = np.array([use.replicas if of == "in-use" else use.firm_replicas for use in uses])
        each = np.array([use.gpus_per_replica for use in uses])
        most = (replicas * each[:, None]).argmax(axis=0)
        for i in np.flatnonzero(p.shares > SOME).tolist():
            n = int(replicas[most[i], i])
            standing = Standing(int(each[most[i]]), n) if n else NOBODY
            of_slot = own[int(p.path.slot[i])]
            of_slot[standing] = of_slot.get(standing, 0.0) + float(p.shares[i])
    for of_slots in shares.values():
        for of_slot in of_slots:
            of_slot[NOBODY] = max(0.0, 1.0 - sum(share for where, share in of_slot.items() if where.size))
    return shares


def _within(standing: Standing, gpus: int) -> Standing:
    """The replicas that so many stand for, where they are more than are told apart."""
    return Standing(standing.size, min(standing.replicas, gpus // standing.size)) if standing.size else NOBODY
