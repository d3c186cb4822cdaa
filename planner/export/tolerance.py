"""Floors that a HorizontalPodAutoscaler does reach, though it leaves a count alone that is nearly right.

For each metric it compares what is asked for with the replicas there are. While the two differ by no more than a tenth
it proposes the count as it is, upward and downward alike; else what is asked for, whole. The largest proposal counts,
between the least and the most replicas. So 12 asked for beside 11 stay 11, and a floor above ten replicas is missed.

A floor is therefore written so high that it is reached from every count that the hours before it may leave, and no
higher: above 1.1 times the largest count that would be too few. The count at which a Deployment is applied may be there
at any time. Where a start takes an hour, a floor begins beside counts of hours long before its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from planner.export.hours import DAYS, EVERY_DAY, Block, Hours, blocks, fewest

TOLERANCE = (1, 10)
"""a tenth: --horizontal-pod-autoscaler-tolerance of kube-controller-manager, where nobody changed it"""
WEEK = (1, 2, 3, 4, 5, 6, 0)
"""days as cron counts them, in their order"""


@dataclass(frozen=True)
class Floors:
    """What is written for each block of hours, and what comes of it."""

    written: dict[Block, int]
    """replicas to ask for, where there are more than the fewest; they may be more than the most there can be"""
    more_by_hour: tuple[int, ...]
    """replicas above those of the plan, in each hour of the week, where nothing but the floors counts"""

    @property
    def are_raised(self) -> bool:
        return any(replicas > block.replicas for block, replicas in self.written.items())


def floors(hours: Hours, most: int, applied: int, early_min: int = 0) -> Floors:
    """The lowest floors with which no hour has fewer than planned; `applied` is the count of the manifest.

    `early_min` is how long before a rise its floor begins, and how long counts stay after the hour that asked for them.
    """
    week, early_h = list(_week(hours)), math.ceil(early_min / 60)
    least = fewest(hours)
    written = {block: block.replicas for block in blocks(hours) if block.replicas > least}
    while True:
        missed = next(_missed(week, written, least, most, applied, early_h), None)
        if missed is None:
            return Floors(written, tuple(_more(week, written, least, most)))
        block, count = missed
        written[block] = count * (sum(TOLERANCE)) // TOLERANCE[1] + 1


def next_counts(count: int, asked: int | None, least: int, most: int) -> set[int]:
    """What becomes of a count: one result, or two where rounding decides. None: no floor asks for anything."""
    part, whole = TOLERANCE
    if asked is None:
        return {least}
    off = whole * abs(asked - count)
    found = {count} if off < part * count else {asked} if off > part * count else {count, asked}
    return {min(max(n, least), most) for n in found}


def _week(hours: Hours) -> Iterator[Block]:
    """The block of each hour of a week, from Monday on."""
    every = blocks(hours)
    for day in WEEK:
        today = [b for b in every if b.day == EVERY_DAY or day in DAYS[b.day]]
        yield from (next(b for b in today if b.start_h <= hour < b.end_h) for hour in range(24))


def _missed(
    week: list[Block], written: dict[Block, int], least: int, most: int, applied: int, early_h: int
) -> Iterator[tuple[Block, int]]:
    """Blocks that have too few replicas at some time, and the largest count from which their floor is not reached."""
    there, seen = {applied, most}, set[frozenset[int]]()
    while frozenset(there) not in seen:
        seen.add(frozenset(there))
        for now, block in enumerate(week):
            short = [n for n in there if min(next_counts(n, written.get(block), least, most)) < block.replicas]
            if short:
                yield block, max(short)
            asks = {written.get(block), *_asked_early(week, written, now, early_h)}
            there = {n for m in (*there, applied, most) for ask in asks for n in next_counts(m, ask, least, most)}


def _asked_early(week: list[Block], written: dict[Block, int], now: int, early_h: int) -> Iterator[int]:
    """What floors of later hours ask for, where they begin before the hour ahead of their own has its count."""
    ahead = (week[(now + h) % len(week)] for h in range(1, early_h + 1)) if early_h > 1 else ()
    for block in ahead:
        if block.rises and block in written:
            yield max(written[block], written.get(week[now], 0))


def _more(week: list[Block], written: dict[Block, int], least: int, most: int) -> Iterator[int]:
    """Replicas above the plan once a week has passed."""
    there = {least}
    for now, block in enumerate(week * 2):
        there = {n for m in there for n in next_counts(m, written.get(block), least, most)}
        if now >= len(week):
            yield max(there) - block.replicas
