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
    there: np.ndarray | None = None
    """whether what is held is there; None: always [slot]"""

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
class Room:
    """What each month may still cost beside everything that allowances do not change, where a budget says so."""

    month: np.ndarray
    """[slot]"""
    hours: np.ndarray
    """of its month that a slot stands for [slot]"""
    usd: np.ndarray
    """left for allowances less what they save [month]"""

    def beyond(self, usd_per_h: float, saved_usd_per_h: np.ndarray | float) -> float:
        """By how much the month that exceeds its budget most does."""
        saved = np.bincount(self.month, self.hours * saved_usd_per_h, len(self.usd))
        beyond = float((usd_per_h * HOURS_PER_MONTH - saved - self.usd).max())
        return beyond if beyond > SAME * float(np.abs(self.usd).max()) else 0.0


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
            some = some if a.there is None else some * a.there
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
        self, usage: Usage, weight: np.ndarray, known: Sequence[Mapping[str, float]] = (), room: Room | None = None
    ) -> dict[str, float]:
        """The amounts to sign for given usage: exactly for one allowance, for several each beside the others.

        What an hour saves grows ever slower with the amount, so the best is where another unit no longer pays, or in
        steps one beside that. What a month costs falls and then rises with it, so where budgets leave only so much
        room the best is the amount next to it that every month has room for. Where none is, it exceeds them least.
        """

        def usd(units: Mapping[str, float]) -> tuple[float, float]:
            saved, paid = self.saved_usd_per_h(units, usage), self.usd_per_h(units)
            beyond = room.beyond(paid, saved) if room is not None else 0.0
            return beyond, paid * HOURS_PER_MONTH - float(np.sum(weight * saved))

        held = {a.key: a.held for a in self.each if a.held}
        best = min(({**start, **held} for start in ({}, *known)), key=usd)
        for _ in range(ROUNDS if len(self.each) > 1 else 1):
            before = usd(best)
            for a in self.each:
                others = {key: n for key, n in best.items() if key != a.key}
                curve = self._curve(a, others, usage, len(weight))
                wanted = [curve.where_it_stops_to_pay(weight)]
                if room is not None:
                    wanted += curve.where_room_begins_and_ends(room, self.usd_per_h(others))
                amounts = {n: None for units in wanted for n in a.amounts_beside(units)}
                best = min((best, *({**others, a.key: n} for n in amounts)), key=usd)
            after = usd(best)
            if after[0] >= before[0] * (1 - SAME) and after[1] >= before[1] - SAME * abs(before[1]):
                break
        return {key: n for key, n in best.items() if n}

    def _curve(self, a: Allowance, others: Mapping[str, float], usage: Usage, slots: int) -> _Curve:
        """What an allowance saves beside what others cover."""
        covered = self.covered(others, usage)
        left = {item: usage[item] for item in self.in_order(a) if item in usage}
        by_others = np.zeros(slots)
        for (_, item), part in covered.items():
            by_others = by_others + self.usd_of[item] * part
            if item in left:
                left[item] = np.maximum(left[item] - part, 0.0)
        ends = np.cumsum(np.reshape([a.takes[item] * left[item] for item in left], (len(left), slots)), axis=0)
        worth = np.array([self.usd_of[item] / a.takes[item] for item in left])
        return _Curve(a, ends, -np.diff(worth, append=0.0), by_others)


@dataclass(frozen=True, eq=False)
class _Curve:
    """What an allowance saves of given usage: falls @ min(what it covers, ends) in each hour."""

    a: Allowance
    ends: np.ndarray
    """covered at which an item is covered as a whole, and the next one begins [item, slot]"""
    falls: np.ndarray
    """by which the worth of what is covered falls there, USD [item]"""
    by_others: np.ndarray
    """what others save, USD/h [slot]"""

    @property
    def _usd_per_covered(self) -> float:
        """of a month, for what covers one an hour"""
        return self.a.usd_per_h * HOURS_PER_MONTH / self.a.covers

    def where_it_stops_to_pay(self, weight: np.ndarray) -> float:
        """Units up to which another one saves more than it costs."""
        at, drop = self.ends.ravel(), np.outer(self.falls, weight).ravel()
        order = np.argsort(at, kind="stable")
        worth, price = float(weight.sum() * self.falls.sum()), self._usd_per_covered
        if worth <= price:
            return 0.0
        still = worth - np.cumsum(drop[order]) > price * (1 + SAME)
        n = int(np.argmin(still)) if not still.all() else len(still) - 1
        return min(float(at[order][n]) / self.a.covers, self.a.most)

    def where_room_begins_and_ends(self, room: Room, others_usd_per_h: float) -> list[float]:
        """The fewest units and the most for which every month has room; where a month never has, what it costs least
        with."""
        low, high = 0.0, np.inf
        for month, left in enumerate(room.usd.tolist()):
            own = room.month == month
            hours = room.hours[own]
            at = self.ends[:, own].ravel()
            order = np.argsort(at, kind="stable")
            at, drop = at[order], np.outer(self.falls, hours).ravel()[order]
            saved = np.cumsum(drop * at) + at * (drop.sum() - np.cumsum(drop))
            nothing = others_usd_per_h * HOURS_PER_MONTH - float(hours @ self.by_others[own]) - left
            x = np.concatenate([[0.0], at])
            y = np.concatenate([[nothing], nothing + self._usd_per_covered * at - saved])
            least = int(np.argmin(y))
            if y[least] >= 0:
                low = max(low, float(x[least]))
                continue
            if y[0] > 0:
                k = int(np.argmax(y[: least + 1] <= 0))
                low = max(low, float(x[k - 1] + (x[k] - x[k - 1]) * y[k - 1] / (y[k - 1] - y[k])))
            after, beyond = x[least:], y[least:]
            if beyond[-1] > 0:
                k = int(np.argmax(beyond > 0))
                high = min(
                    high,
                    float(after[k - 1] + (after[k] - after[k - 1]) * -beyond[k - 1] / (beyond[k] - beyond[k - 1])),
                )
            elif self._usd_per_covered:
                high = min(high, float(after[-1] - beyond[-1] / self._usd_per_covered))
        return [min(x / self.a.covers, self.a.most) for x in (low, high) if np.isfinite(x)]


NO_ALLOWANCES = Allowances()
