"""Deferrable work as a queue (an inventory model): what arrives, is done in each slot, and waits for the next one.

Work is done first in, first out, so all is in time if at the end of a slot no more waits than arrived in the hours of a
window but its first. That takes one number a slot, where moves from slot to slot would take one for each hour of the
window. Work that may wait a whole day needs no order at all: its day is one stretch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

MOST_LOTS = 4
"""lots that a run of stretches needs, beyond which whole ones say little more than their parts"""
TIED = 1e-6
"""share of a lot that makes no difference"""


@dataclass(frozen=True, eq=False)
class Run:
    """Stretches in a row, work that must be done in them, and the lots that it takes at least."""

    stretches: tuple[int, ...]
    work: float
    lot: float
    """the least that any replicas do in one of them"""
    lots: int

    def parts(self, room: np.ndarray) -> Iterator[np.ndarray]:
        """Two measures of which part of the work whole servings do: those of any plan add up to one [serving].

        More room than there is work counts for no more, and whole lots count where parts of one would not be enough.
        """
        yield np.minimum(room / (self.work * (1 - TIED)), 1.0)
        if self.lots > 1:
            yield np.minimum(np.ceil(room / self.lot - 1e-3 * TIED) / self.lots, 1.0)


@dataclass(frozen=True, eq=False)
class WaitingLine:
    """In units of the mean work of a slot, so that programs have numbers near one. A stretch is an hour of a kind of
    day, or all of that day.
    """

    unit: float
    """load x hours"""
    stretch_of: np.ndarray
    """[slot]"""
    before: np.ndarray
    """the stretch from which work waits for this one [stretch]"""
    work: np.ndarray
    """work that arrives [stretch]"""
    may_wait: np.ndarray
    """the most that may wait at the end [stretch]"""

    @property
    def stretches(self) -> range:
        return range(len(self.work))

    def slots(self, stretch: int) -> np.ndarray:
        return np.flatnonzero(self.stretch_of == stretch)

    @cached_property
    def first_slot(self) -> np.ndarray:
        """[stretch]"""
        return np.unique(self.stretch_of, return_index=True)[1]

    @cached_property
    def most(self) -> np.ndarray:
        """work that there can be, with what waited before [stretch]"""
        work: np.ndarray = self.may_wait[self.before] + self.work
        return work

    def runs(self, lot: np.ndarray) -> list[Run]:
        """The shortest runs of stretches in which so many lots of work must be done; `lot` is work [stretch].

        What comes in a run must be done there, but for what may wait at its end. Days are apart.
        """
        after = np.argsort(self.before)
        found: dict[tuple[int, ...], Run] = {}
        for first in self.stretches:
            run, lots = [first], 0
            while True:
                around = int(after[run[-1]]) == first
                work = float(self.work[run].sum()) - (0.0 if around else float(self.may_wait[run[-1]]))
                least = float(lot[run].min())
                needed = int(np.ceil(work / least - TIED)) if least > 0 else 0
                if needed > MOST_LOTS:
                    break
                if needed > lots:
                    lots = needed
                    found[tuple(run)] = Run(tuple(run), work, least, lots)
                if around:
                    break
                run.append(int(after[run[-1]]))
        return [run for run in found.values() if not _says_less(run, found)]

    def waits(self, done: np.ndarray) -> np.ndarray:
        """What waits at the end of each stretch where so much is done or leaves the line there [stretch].

        Twice around the day: at some hour nothing waits, and from there on it is right.
        """
        waits = np.zeros(len(self.work))
        for n in (*self.stretches, *self.stretches):
            waits[n] = max(0.0, waits[self.before[n]] + self.work[n] - done[n])
        return waits


def _says_less(run: Run, runs: dict[tuple[int, ...], Run]) -> bool:
    """Whether it needs no more lots than the same without its first stretch, and so says less."""
    shorter = runs.get(run.stretches[1:])
    return shorter is not None and shorter.lots >= run.lots


def line_through(days: list[tuple[list[int], int]], work: np.ndarray) -> WaitingLine:
    """Days are the slots of each, in order, and in how many of them work may be done; work is load x hours [slot]."""
    unit = float(work.mean()) or 1.0
    stretch_of = np.zeros(len(work), dtype=int)
    before: list[int] = []
    may_wait: list[float] = []
    for slots, long in days:
        first = len(before)
        if long >= len(slots):
            stretch_of[slots] = first
            before.append(first)
            may_wait.append(0.0)
            continue
        stretch_of[slots] = range(first, first + len(slots))
        for k in range(len(slots)):
            before.append(first + (k - 1) % len(slots))
            arrivals = [slots[k - ago] for ago in range(long - 1)]
            may_wait.append(float(work[arrivals].sum()) / unit)
    return WaitingLine(unit, stretch_of, np.array(before), np.bincount(stretch_of, work) / unit, np.array(may_wait))
