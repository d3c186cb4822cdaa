"""Deferrable work as a queue (an inventory model): what arrives, is done in each slot, and waits for the next one.

Work is done first in, first out, so all is in time if at the end of a slot no more waits than arrived in the hours of a
window but its first. That takes one number a slot, where moves from slot to slot would take one for each hour of the
window. Work that may wait a whole day needs no order at all: its day is one stretch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


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

    def waits(self, done: np.ndarray) -> np.ndarray:
        """What waits at the end of each stretch where so much is done or leaves the line there [stretch].

        Twice around the day: at some hour nothing waits, and from there on it is right.
        """
        waits = np.zeros(len(self.work))
        for n in (*self.stretches, *self.stretches):
            waits[n] = max(0.0, waits[self.before[n]] + self.work[n] - done[n])
        return waits


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
