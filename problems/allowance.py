"""What an allowance is, and what it covers of given usage: in the provider's order, hour by hour.

An allowance is a commitment to so much an hour that covers usage as it comes: dollars at the rates of a plan (a savings
plan, a flexible commitment), or the tokens of provisioned units. It is paid in every hour; what an hour does not use is
lost, and usage beyond it is paid for as ever. It covers instances on demand while they run, not while they start, and
API bills of work that does not wait.

Allowances cover one after the other, each what is worth most for what it takes of it first. For one allowance that is
what saves most, and for several whose order is from the narrow to the wide it is what their provider does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from problems.constants import HOURS_PER_MONTH

Item = str | tuple[str, str]
"""what is covered: an offer, or a pool's bill at an API"""
Usage = dict[Item, np.ndarray]
"""instances on demand of an offer, or dollars of a bill, in an hour of each slot [slot]"""
ROUNDS, SAME_DIGITS = 3, 9
"""in which the amounts of several allowances are chosen, each beside the others; and digits to which quotients of the
same discount are the same"""
SAME = 1e-9


def units_of(lots: int, lot: float) -> float:
    """Of so many lots, as short as they are written."""
    return float(f"{lots * lot:.12g}")


@dataclass(frozen=True, eq=False)
class Allowance:
    """A commitment that may be signed, in units that are paid in every hour."""

    key: str
    usd_per_h: float
    """of a unit; none where it is held anyway"""
    takes: Mapping[Item, float]
    """what an instance-hour on demand, or a dollar of a bill, takes of it: dollars or tokens"""
    covers: float = 1.0
    """what a unit covers in an hour"""
    fewest: float = 0.0
    """the first step: no fewer units, or none"""
    step: float | None = None
    """units beyond the fewest come in such steps; None: any part of one"""
    most: float = np.inf
    held: float = 0.0
    """units that are there anyway, at no further cost: then none are signed"""

    def amounts_beside(self, units: float) -> list[float]:
        """The amounts that may be signed next below and above some."""
        if self.held:
            return [self.held]
        beyond = max(units - self.fewest, 0.0)
        if self.step is None:
            amounts = [self.fewest + beyond]
        else:
            whole = np.floor(beyond / self.step + SAME)
            amounts = [self.fewest + self.step * n for n in (whole, whole + 1)]
        return [0.0, *(n for n in amounts if n <= self.most * (1 + SAME))]


@dataclass(frozen=True, eq=False)
class Allowances:
    """All of a fleet, in the order in which they cover."""

    each: tuple[Allowance, ...] = ()
    usd_of: Mapping[Item, float] = field(default_factory=dict)
    """what a unit of usage costs that nothing covers"""
    most_usage: Mapping[Item, float] = field(default_factory=dict)
    """in any hour"""

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(dict.fromkeys(item for a in self.each for item in a.takes))

    def of(self, item: Item) -> list[Allowance]:
        return [a for a in self.each if item in a.takes]

    def most_units(self, a: Allowance) -> float:
        """Units beyond which nothing more can be covered."""
        most = sum(takes * self.most_usage[item] for item, takes in a.takes.items()) / a.covers
        whole = most if a.step is None else a.fewest + a.step * np.ceil(max(most - a.fewest, 0.0) / a.step)
        return float(a.held or min(a.most, max(whole, a.fewest)))

    def most_saved_usd_per_h(self, a: Allowance) -> float:
        """The most that a unit takes off the bill of an hour."""
        return a.covers * max((self.usd_of[item] / takes for item, takes in a.takes.items()), default=0.0)

    def in_order(self, a: Allowance) -> list[Item]:
        """What it covers, most worth for what it takes first; of equals what takes less, then by name."""

        def first(item: Item) -> tuple[float, float, str]:
            return -float(f"{self.usd_of[item] / a.takes[item]:.{SAME_DIGITS}g}"), a.takes[item], str(item)

        return sorted(a.takes, key=first)

    def covered(self, units: Mapping[str, float], usage: Usage) -> dict[tuple[str, Item], np.ndarray]:
        """How much of the usage each allowance covers [slot]."""
        left = {item: np.asarray(usage[item], dtype=float) for item in self.items if item in usage}
        covered = {}
        for a in self.each:
            some = np.array(a.covers * units.get(a.key, 0.0))
            for item in self.in_order(a):
                if item in left and units.get(a.key):
                    part = np.minimum(left[item], some / a.takes[item])
                    left[item], some = left[item] - part, np.maximum(some - part * a.takes[item], 0.0)
                    covered[a.key, item] = part
        return covered

    def saved_usd_per_h(self, units: Mapping[str, float], usage: Usage) -> np.ndarray | float:
        """What coverage takes off the bill [slot]."""
        covered = self.covered(units, usage)
        return sum((self.usd_of[item] * part for (_, item), part in covered.items()), start=0.0)

    def usd_per_h(self, units: Mapping[str, float]) -> float:
        """What is paid for the allowances themselves."""
        return float(sum(a.usd_per_h * units.get(a.key, 0.0) for a in self.each if not a.held))

    def best_units(
        self, usage: Usage, weight: np.ndarray, known: Sequence[Mapping[str, float]] = ()
    ) -> dict[str, float]:
        """The amounts to sign for given usage: exactly for one allowance, for several each beside the others.

        What an hour saves grows ever slower with the amount, so the best is where another unit no longer pays, or in
        steps one beside that.
        """

        def usd(units: Mapping[str, float]) -> float:
            saved = float(np.sum(weight * self.saved_usd_per_h(units, usage)))
            return self.usd_per_h(units) * HOURS_PER_MONTH - saved

        held = {a.key: a.held for a in self.each if a.held}
        best = min(({**start, **held} for start in ({}, *known)), key=usd)
        for _ in range(ROUNDS if len(self.each) > 1 else 1):
            before = usd(best)
            for a in self.each:
                others = {key: n for key, n in best.items() if key != a.key}
                amounts = a.amounts_beside(self._where_it_stops_to_pay(a, others, usage, weight))
                best = min((best, *({**others, a.key: n} for n in amounts)), key=usd)
            if usd(best) >= before - SAME * abs(before):
                break
        return {key: n for key, n in best.items() if n}

    def _where_it_stops_to_pay(
        self, a: Allowance, others: Mapping[str, float], usage: Usage, weight: np.ndarray
    ) -> float:
        """Units of an allowance up to which another one saves more than it costs, beside what others cover."""
        covered = self.covered(others, usage)
        left = {item: usage[item] for item in self.in_order(a) if item in usage}
        for (_, item), part in covered.items():
            if item in left:
                left[item] = np.maximum(left[item] - part, 0.0)
        if not left:
            return 0.0
        ends = np.cumsum([takes * left[item] for item, takes in ((i, a.takes[i]) for i in left)], axis=0)
        worth = np.array([self.usd_of[item] / a.takes[item] for item in left])
        falls = np.append(worth, 0.0)[:-1] - np.append(worth[1:], 0.0)
        at, drop = ends.ravel(), (falls[:, None] * weight[None, :]).ravel()
        order = np.argsort(at, kind="stable")
        pays = float(weight.sum() * worth[0]) - np.cumsum(drop[order])
        still = pays > a.usd_per_h * HOURS_PER_MONTH / a.covers * (1 + SAME)
        first = float(weight.sum() * worth[0]) > a.usd_per_h * HOURS_PER_MONTH / a.covers
        if not first:
            return 0.0
        n = int(np.argmin(still)) if not still.all() else len(still) - 1
        return min(float(at[order][n]) / a.covers, a.most)


NO_ALLOWANCES = Allowances()
