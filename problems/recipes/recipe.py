"""Recipes: the exact ways to serve a pool, computed outside the mixed-integer program.

A recipe names who serves a pool: deployments, and an API for what they do not carry. In each slot it offers a few
**servings**: so many replicas of each deployment, so many of them firm (not spot), and what the API costs for the
rest. All that is non-linear (staffing, spot safety, routing by length) is inside the serving, so the master only adds
up numbers.

Within a recipe the slots are independent: any choice of one serving per slot is a complete way to serve the pool. So
pricing takes the cheapest serving of each slot, and the master may recombine them. Only work that may wait ties slots
together: its recipes carry a `Deferral`, and their servings say how much load they can take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from problems.recipes.waiting_line import Run, WaitingLine, line_through

RecipeKey = tuple[str, tuple[str, ...], str | None]
"""pool, deployments and API: what a recipe is known by"""


def _starts(slot: np.ndarray) -> np.ndarray:
    """where each slot begins, of servings in the order of their slots"""
    return np.flatnonzero(np.diff(slot, prepend=-1))


def _keep_small(record: object, dtype: type[np.integer], *names: str) -> None:
    """Whole numbers in few bits: recipes are most of what a large case has in memory."""
    for name in names:
        object.__setattr__(record, name, np.asarray(getattr(record, name), dtype=dtype))


@dataclass(frozen=True, eq=False)
class Use:
    """What the servings of a recipe use of one deployment (arrays over the servings)."""

    deployment: str
    offer: str
    gpus_per_replica: int
    replicas: np.ndarray
    firm_replicas: np.ndarray
    """replicas that must not be spot"""
    load: np.ndarray
    """load that it carries; in a mix of deployments, the most that it may carry"""

    def __post_init__(self) -> None:
        _keep_small(self, np.int32, "replicas", "firm_replicas")
        if self.firm_replicas is not self.replicas and np.array_equal(self.firm_replicas, self.replicas):
            object.__setattr__(self, "firm_replicas", self.replicas)

    @property
    def gpus(self) -> np.ndarray:
        return self.replicas * self.gpus_per_replica

    @property
    def firm_gpus(self) -> np.ndarray:
        return self.firm_replicas * self.gpus_per_replica

    def only(self, servings: np.ndarray) -> Use:
        return replace(
            self,
            replicas=self.replicas[servings],
            firm_replicas=self.firm_replicas[servings],
            load=self.load[servings],
        )


@dataclass(frozen=True, eq=False)
class Deferral:
    """Work that may wait: what arrives, where it may go, and what an API would ask for it."""

    load: np.ndarray
    """[arrival slot]"""
    window: np.ndarray
    """[arrival slot, slot]"""
    hours: np.ndarray
    """hours that a slot stands for: work moves between slots as load x hours [slot]"""
    api_usd_per_load_h: float | None
    """price of one replica-hour of load at the API; None: no API"""
    lot: float = 0.0
    """the load of the fewest replicas that may run; 0: any part of it"""

    @cached_property
    def runs(self) -> list[Run]:
        """hours in a row in which whole lots of work must be done; none where an API may do parts of it"""
        if not self.lot or self.api_usd_per_load_h is not None or self.days is None:
            return []
        least = np.full(len(self.line.work), np.inf)
        np.minimum.at(least, self.line.stretch_of, self.lot * self.hours / self.line.unit)
        return self.line.runs(least)

    def done_in_runs(self, room: np.ndarray, slot: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each run of hours, servings in it and the parts of its work that they do, by each measure: at least one
        in all; `room` is work of the waiting line [serving].
        """
        stretch = self.line.stretch_of[slot]
        found = []
        for run in self.runs:
            within = np.flatnonzero(np.isin(stretch, run.stretches) & (room > 0))
            found += [(within, parts) for parts in run.parts(room[within])]
        return found

    @cached_property
    def days(self) -> list[tuple[list[int], int]] | None:
        """the slots of each day in their order, and how many of them work may take, where windows are such: hours that
        follow on the arrival, around midnight too"""
        near = [{h, *np.flatnonzero(self.window[h] | self.window[:, h]).tolist()} for h in range(len(self.load))]
        days: list[tuple[list[int], int]] = []
        seen: set[int] = set()
        for h in range(len(self.load)):
            if h in seen:
                continue
            found = {h}
            while len(more := {t for s in found for t in near[s]}) > len(found):
                found = more
            slots = sorted(found)
            long = int(self.window[h].sum())
            for k, slot in enumerate(slots):
                follow = {slots[(k + ahead) % len(slots)] for ahead in range(long)}
                if follow != set(np.flatnonzero(self.window[slot]).tolist()):
                    return None
            days.append((slots, long))
            seen.update(slots)
        return days

    @cached_property
    def line(self) -> WaitingLine:
        """the work as it waits from slot to slot"""
        if self.days is None:
            raise ValueError("work may be done in the hours that follow on its arrival, around midnight too")
        return line_through(self.days, self.load * self.hours)

    @cached_property
    def slots_of(self) -> list[list[int]]:
        """the slots of each arrival slot's window"""
        return [np.flatnonzero(row).tolist() for row in self.window]


@dataclass(frozen=True, eq=False)
class Recipe:
    """One way to serve a pool, with its servings slot by slot (arrays of one length, sorted by slot)."""

    pool: str
    workloads: tuple[str, ...]
    uses: tuple[Use, ...]
    api: str | None
    slot: np.ndarray
    usd_per_h: np.ndarray
    """API and caches"""
    penalty_usd_per_h: np.ndarray
    """penalty of shed requests: part of the objective, of no cost or budget"""
    shed_frac: np.ndarray
    """share that is shed of what the GPUs do not carry; the API has the rest"""
    caching: str = "none"
    deferral: Deferral | None = None
    """how its slots hang together, where work may wait; a path has settled that"""
    between: Recipe | None = None
    """where not all loads are tried: fictitious servings, no more expensive than any between two that were; for work
    that may wait one for each serving, which does what any count up to the next can"""

    def __post_init__(self) -> None:
        _keep_small(self, np.int16 if np.max(self.slot, initial=0) < 2**15 else np.int32, "slot")
        for name in ("usd_per_h", "penalty_usd_per_h", "shed_frac"):
            values = getattr(self, name)
            if not values.any():
                object.__setattr__(self, name, np.broadcast_to(np.zeros(1), values.shape))

    @property
    def key(self) -> RecipeKey:
        return (self.pool, self.deployments, self.api)

    @property
    def footprint(self) -> tuple[Any, ...]:
        """the key of a path and its counts of replicas: paths with the same one are the same"""
        return (*self.key, *(use.replicas.tobytes() for use in self.uses))

    @property
    def deployments(self) -> tuple[str, ...]:
        return tuple(use.deployment for use in self.uses)

    @cached_property
    def offers(self) -> tuple[str, ...]:
        """each once"""
        return tuple(dict.fromkeys(use.offer for use in self.uses))

    @property
    def self_hosted(self) -> bool:
        return bool(self.uses)

    @property
    def servings(self) -> int:
        return len(self.slot)

    def gpus_on(self, offer: str) -> np.ndarray:
        """GPUs of an offer in use [serving]"""
        return self._sum("gpus", offer)

    def firm_gpus_on(self, offer: str) -> np.ndarray:
        return self._sum("firm_gpus", offer)

    def used_on(self, kind: str, offer: str) -> np.ndarray:
        """all that are in use, or those that must not be spot: kind is in-use or firm [serving]"""
        return self.gpus_on(offer) if kind == "in-use" else self.firm_gpus_on(offer)

    def in_large_replicas(self, kind: str, offer: str, size: int) -> np.ndarray:
        """GPUs of an offer that are in replicas of so many GPUs or more [serving]"""
        return self._sum("gpus" if kind == "in-use" else "firm_gpus", offer, size)

    def _sum(self, what: str, offer: str, size: int = 1) -> np.ndarray:
        total = np.zeros(len(self.slot), dtype=int)
        for use in self.uses:
            if use.offer == offer and use.gpus_per_replica >= size:
                total = total + getattr(use, what)
        return total

    def only(self, servings: np.ndarray) -> Recipe:
        """The recipe with a part of its servings (indices or a mask)."""
        return replace(
            self,
            uses=tuple(use.only(servings) for use in self.uses),
            slot=self.slot[servings],
            usd_per_h=self.usd_per_h[servings],
            penalty_usd_per_h=self.penalty_usd_per_h[servings],
            shed_frac=self.shed_frac[servings],
            between=self.between.only(servings) if self.between is not None and self.deferral is not None else None,
        )

    @cached_property
    def slot_starts(self) -> np.ndarray:
        """where each slot begins [slot]"""
        return _starts(self.slot)

    @property
    def at_best(self) -> Recipe:
        """Optimistic servings of work that may wait: what they and the untried counts after them could do."""
        return self.between or self

    @cached_property
    def idle(self) -> Recipe:
        """Each slot while none of its replicas runs, as far as others may do the waiting work, also where a branch has
        ruled that out.
        """
        one = self.at_best.only(self.first_of_each_slot(self.uses[0].load))
        nothing = np.zeros(one.servings, dtype=int)
        return replace(one, uses=tuple(replace(use, replicas=nothing, firm_replicas=nothing) for use in one.uses))

    def first_of_each_slot(self, order: np.ndarray) -> np.ndarray:
        """Indices of the serving with the lowest `order` value in each slot (ties: the first)."""
        starts = self.slot_starts
        if len(starts) == len(order):
            return starts
        lowest = np.repeat(np.minimum.reduceat(order, starts), np.diff(starts, append=len(order)))
        cheapest = np.flatnonzero(order == lowest)
        first: np.ndarray = cheapest[_starts(self.slot[cheapest])]
        return first

    def within(self, other: Recipe) -> Recipe:
        """The recipe with the servings of another one too, which differs in nothing else."""
        most = 1 + max((int(use.replicas.max(initial=0)) for use in (*self.uses, *other.uses)), default=0)

        def numbered(recipe: Recipe) -> np.ndarray:
            number = recipe.slot.astype(np.int64)
            for use in recipe.uses:
                number = number * most + use.replicas
            return number

        return self.only(np.isin(numbered(self), numbered(other)))


def joined(one: Recipe, other: Recipe) -> Recipe:
    """One recipe with the servings of two that differ in nothing else, each once."""

    def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.concatenate((a, b))

    uses = tuple(
        replace(
            a,
            replicas=both(a.replicas, b.replicas),
            firm_replicas=both(a.firm_replicas, b.firm_replicas),
            load=both(a.load, b.load),
        )
        for a, b in zip(one.uses, other.uses, strict=True)
    )
    together = replace(
        one,
        uses=uses,
        slot=both(one.slot, other.slot),
        usd_per_h=both(one.usd_per_h, other.usd_per_h),
        penalty_usd_per_h=both(one.penalty_usd_per_h, other.penalty_usd_per_h),
        shed_frac=both(one.shed_frac, other.shed_frac),
        between=None,
    )
    counts = [n for use in together.uses for n in (use.replicas, use.firm_replicas)]
    alike = np.stack([together.slot, *counts, together.usd_per_h, together.penalty_usd_per_h])
    return together.only(np.unique(alike, axis=1, return_index=True)[1])
