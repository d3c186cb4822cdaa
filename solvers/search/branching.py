"""Branch and bound, best bound first; each branch runs column generation of its own (branch and price).

The LP mixes recipes and commitments so that boxes fill, which no cut about one slot forbids. So a vendor that there are
rules about is used, or is not; then an offer has at most n commitments, or more; then a pool serves its workloads, or
others do; then a workload uses an offer, large boxes first, or does not. Every integer plan is on one side, so the
smallest bound of all branches is a bound on every plan. The branch with the smallest one is divided next.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.recipes.pools import Pool
from problems.recipes.vendors import NO_VENDORS, Vendor
from solvers.pricing.column_generation import ColumnGeneration

AHEAD_FRAC = 0.3
"""share of the way from the bound of the other branches to the target that a branch is priced ahead of them"""
UNDECIDED = 0.02
"""fraction of a commitment, or of the share of a pool or an offer in a workload, from which it is worth branching on"""

Bounded = Callable[[ColumnGeneration, float], tuple[float, bool]]
"""prices a branch until it has a bound of so much; what it says of all plans in it, and whether that is all it has"""
AtLast = Callable[[ColumnGeneration], float]
"""a bound on all plans of a branch by other means"""


@dataclass(order=True)
class _Open:
    """A branch that may hold a better plan."""

    bound: float
    order: int
    branch: ColumnGeneration = field(compare=False)
    settled: bool = field(compare=False)
    """it is divided next; the others are priced first"""
    last: bool = field(default=False, compare=False)
    """all was tried to prove more of it"""


@dataclass(eq=False)
class Branches:
    """The branches that may hold a better plan, and the smallest bound of those that are left as they are."""

    divided: int = 0
    _open: list[_Open] = field(default_factory=list)
    _left: float = np.inf
    _order: count[int] = field(default_factory=count)

    def add(self, branch: ColumnGeneration, bound: float, settled: bool = True, last: bool = False) -> None:
        heapq.heappush(self._open, _Open(bound, next(self._order), branch, settled, last))

    @property
    def bound(self) -> float:
        """on every plan of all branches"""
        return min([self._left, *(one.bound for one in self._open[:1])])

    def go_on(self, bounded: Bounded, enough: float, best: float = np.inf, at_last: AtLast = lambda _: -np.inf) -> bool:
        """Price the branch with the smallest bound, or divide it; False if none has less than is enough.

        It is priced until others matter more: a part of the way from the smallest bound of those to what is enough.
        Plans that cost as much as the best one at hand, or more, are of no interest. Where nothing can be divided, what
        is proved at last may change that; else the branch stays as it is.
        """
        while self._open and self._open[0].bound < enough:
            now = heapq.heappop(self._open)
            if not now.settled:
                others = max(self.bound, now.bound)
                until = enough if others >= enough else others + AHEAD_FRAC * (enough - others)
                bound, settled = bounded(now.branch, until)
                self.add(now.branch, max(now.bound, bound), settled)
                return True
            sides = both_sides(now.branch, best)
            if sides:
                for side in sides:
                    self.add(side, now.bound, settled=False)
                self.divided += 1
                return True
            if not now.last:
                self.add(now.branch, max(now.bound, at_last(now.branch)), last=True)
                return True
            self._left = min(self._left, now.bound)
        return False


def both_sides(branch: ColumnGeneration, best: float = np.inf) -> list[ColumnGeneration]:
    """The two halves of what a branch leaves undecided, of plans cheaper than the best; none if nothing is."""
    fleet = branch.fleet
    vendor = _vendor(branch)
    if vendor is not None:
        ways_of_vendor = ({**fleet.vendors_decided, vendor: way} for way in (True, False))
        return [branch.branched(replace(fleet, vendors_decided=decided), best) for decided in ways_of_vendor]
    commitment = _commitment(branch)
    if commitment is not None:
        key, boxes = commitment
        fewest, most = fleet.held.get(key, (0, None))
        ways: list[tuple[int, int | None]] = [(fewest, boxes), (boxes + 1, most)]
        return [branch.branched(replace(fleet, held=fleet.held | {key: way}), best) for way in ways]
    pool = _pool(branch)
    if pool is not None:
        return [branch.branched(replace(fleet, pools=pools), best) for pools in _with_and_without(fleet, pool)]
    use = _use(branch)
    if use is not None:
        return [branch.branched(replace(fleet, uses=fleet.uses | {use: way}), best) for way in (True, False)]
    return []


def _with_and_without(fleet: FleetProblem, pool: str) -> tuple[dict[str, Pool], dict[str, Pool]]:
    """The pools that are left where one serves its workloads, and where it does not."""
    served = set(fleet.pools[pool].workloads)
    chosen = {key: p for key, p in fleet.pools.items() if key == pool or not served & set(p.workloads)}
    return chosen, {key: p for key, p in fleet.pools.items() if key != pool}


def _pool(branch: ColumnGeneration) -> str | None:
    """The pool that the LP leaves most undecided, by what is paid for its workloads."""
    shares: dict[str, float] = {}
    for p in branch.picked:
        shares[p.path.pool] = shares.get(p.path.pool, 0.0) + p.weight
    undecided = {
        key: min(share, 1 - share) * sum(branch.paid[w] for w in branch.fleet.pools[key].workloads)
        for key, share in shares.items()
        if min(share, 1 - share) > UNDECIDED
    }
    return max(undecided, key=lambda k: (undecided[k], k), default=None)


def _commitment(branch: ColumnGeneration) -> tuple[tuple[str, str], int] | None:
    """The commitments that are furthest from decided, by what they cost, and how many there are at most on one side.

    They are parts of boxes in the LP, or whole but mixed: plans that need fewer make up for those that need more.
    """
    fleet = branch.fleet
    usd: dict[tuple[str, str], float] = {}
    for (g, term), boxes in branch.reserved.items():
        part = boxes % 1
        if min(part, 1 - part) > UNDECIDED:
            usd[g, term] = min(part, 1 - part) * fleet.offers[g].reserved_usd_per_h[term]
    for g in sorted({g for g, _ in branch.reserved} - {g for g, _ in usd}):
        open_ones = [key for key in branch.reserved if key[0] == g and _is_open(branch, key)]
        by_hour = fleet.offers[g].on_demand_usd_per_h or fleet.offers[g].spot_usd_per_h
        short = branch.short_if_decided(g) if open_ones and by_hour else 0.0
        if short > UNDECIDED and by_hour:
            usd[open_ones[0]] = short * by_hour
    if not usd:
        return None
    key = max(usd, key=lambda k: (usd[k], k))
    return key, int(branch.reserved[key] + UNDECIDED)


def _is_open(branch: ColumnGeneration, key: tuple[str, str]) -> bool:
    """Whether commitments are open: there could be fewer than the LP has, and more."""
    boxes = round(branch.reserved[key])
    return boxes > 0 and boxes not in branch.fleet.held.get(key, (0, None))


def undecided(branch: ColumnGeneration) -> bool:
    """Whether the LP leaves anything undecided that divides a branch."""
    return any(what(branch) is not None for what in (_vendor, _commitment, _pool, _use))


def _vendor(branch: ColumnGeneration) -> Vendor | None:
    """The vendor that the LP leaves most undecided, by what is paid for the workloads that would buy of it."""
    fleet = branch.fleet
    if fleet.vendors is NO_VENDORS or _mixes_are_of_any_number(fleet):
        return None
    worth: dict[Vendor, float] = {}
    shares: dict[Vendor, dict[str, float]] = {}
    for p in branch.picked:
        for vendor in fleet.vendors_of(p.path):
            for w in p.path.workloads if vendor not in fleet.vendors_decided else ():
                of = shares.setdefault(vendor, {})
                of[w] = of.get(w, 0.0) + p.weight
    for vendor, of in shares.items():
        undecided = {w: min(share, 1 - share) for w, share in of.items()}
        if max(undecided.values()) > UNDECIDED:
            worth[vendor] = sum(part * branch.paid[w] for w, part in undecided.items())
    return max(worth, key=lambda vendor: (worth[vendor], vendor), default=None)


def _mixes_are_of_any_number(fleet: FleetProblem) -> bool:
    """Whether mixes are found for a pool as a whole, whatever they use."""
    return len(fleet.slot_hours) == 1 or any(pool.max_deployments > 2 for pool in fleet.pools.values())


def _use(branch: ColumnGeneration) -> tuple[str, str] | None:
    """The workload and offer that the LP leaves most undecided, by what is paid for the workload; large boxes first."""
    fleet = branch.fleet
    if _mixes_are_of_any_number(fleet):
        return None
    shares: dict[tuple[str, str], float] = {}
    for p in branch.picked:
        for w in p.path.workloads:
            for g in p.path.offers:
                if (w, g) not in fleet.uses:
                    shares[w, g] = shares.get((w, g), 0.0) + p.weight
    undecided = {
        (w, g): (fleet.offers[g].box > 1, min(share, 1 - share) * branch.paid[w])
        for (w, g), share in shares.items()
        if min(share, 1 - share) > UNDECIDED
    }
    return max(undecided, key=lambda k: (undecided[k], k), default=None)
