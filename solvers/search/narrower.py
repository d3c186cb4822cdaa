"""A fleet is searched from the plans of narrower ones, where all choices together are harder than fewer of them.

More choices never make the best plan dearer, but they may hide it. Mixes of three deployments and more are found one by
one, where those of two are written down with all their servings. And no LP knows that a vendor in use must serve a
share of the requests, so plans come out of it with vendors that serve too little, most of all with mixes, of which
only the whole plan says who serves what. So fleets with smaller mixes, and fleets without such vendors, are searched
first, and the best of their plans is where the whole search begins.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from problems.recipes.vendors import Vendor
from solvers.heuristics.incumbent import limits_are_kept
from solvers.pricing.vendor_shares import short_of_their_share
from solvers.search.fleet_solution import OPTIMAL_FRAC, FleetSolution, Options, Progress, WarmStart
from solvers.search.search import Search

NARROWER_FRAC = 0.5
"""share of the time that narrower fleets may take, all of them together"""
MOST_FLEETS = 8
"""that are searched without some vendors"""
ROUNDS = 20
"""of prices for each of these"""


@dataclass(eq=False)
class Narrower:
    """What narrower fleets teach the search of a fleet."""

    fleet: FleetProblem
    options: Options
    solution: FleetSolution
    on_progress: Callable[[Progress], None]
    known: WarmStart
    of_two_usd: float = 0.0
    """what no plan with at most two deployments in a pool costs less than; 0: nothing is known of that"""

    def begin(self) -> WarmStart:
        """What there is to begin with; plans of narrower fleets that keep all limits are offered."""
        if len(self.fleet.slot_hours) > 1 and _most_deployments(self.fleet) > 2:
            self.of_two_usd = self._look_at(with_mixes_of(self.fleet, 2), 1.0).bound_usd_per_month
        elif self.fleet.vendors.least_share:
            if _most_deployments(self.fleet) > 1:
                self._look_at(with_mixes_of(self.fleet, 1), 1 / MOST_FLEETS)
            self._leave_out_vendors()
        return self.known

    def _look_at(self, narrower: FleetProblem, time_frac: float, rounds: int | None = None) -> FleetSolution:
        """Search a narrower fleet. What it proves holds for none with more choices; paths and cuts are of use there."""
        found, limit_s = FleetSolution(), self.options.time_limit_s
        options = replace(
            self.options,
            time_limit_s=None if limit_s is None else NARROWER_FRAC * time_frac * limit_s,
            round_limit=rounds if self.options.round_limit is None else self.options.round_limit,
        )
        try:
            if _most_deployments(narrower) > 1:
                searched(narrower, options, found, self._tell, self.known)
            else:
                Search(narrower, options, found, self._tell, self.known).run()
        finally:
            if found.best is not None and limits_are_kept(self.fleet, found.best):
                self.solution.offer(found.best)
        paths: dict[object, Recipe] = {path.footprint: path for path in (*self.known.paths, *found.known.paths)}
        starts = [plan for plan in (self.known.start, self.solution.best) if plan is not None]
        start = min(starts, key=lambda plan: plan.objective, default=None)
        self.known = replace(self.known, paths=tuple(paths.values()), start=start)
        return found

    def _tell(self, progress: Progress) -> None:
        """What is at hand for the fleet itself: neither plans nor bounds of a narrower one need hold for it."""
        best = self.solution.objective if self.solution.best is not None else None
        self.on_progress(Progress(progress.phase, best, self.solution.bound_usd_per_month))

    def _leave_out_vendors(self) -> None:
        """Plans without the rule about shares; where vendors then serve too little, without each of these.

        What could be cheapest comes first.
        """
        order = count()
        free = replace(self.fleet, vendors=replace(self.fleet.vendors, least_share={}))
        waiting: list[tuple[float, int, frozenset[Vendor]]] = [(0.0, next(order), frozenset())]
        seen = {frozenset[Vendor]()}
        for _ in range(MOST_FLEETS - 1):
            if not waiting or waiting[0][0] >= self.solution.objective:
                break
            out = heapq.heappop(waiting)[2]
            found = self._look_at(without_vendors(free, out), 1 / MOST_FLEETS, ROUNDS)
            if not out:
                self.solution.raise_bound(found.bound_usd_per_month)  # without the rule nothing costs more
            for vendor in short_of_their_share(self.fleet, found.best.paths) if found.best is not None else ():
                if out | {vendor} not in seen:
                    seen.add(out | {vendor})
                    heapq.heappush(waiting, (found.bound_usd_per_month, next(order), out | {vendor}))


def searched(
    fleet: FleetProblem,
    options: Options,
    solution: FleetSolution,
    on_progress: Callable[[Progress], None],
    known: WarmStart,
) -> None:
    """Search a fleet, from the best plan of narrower ones."""
    started = time.monotonic()
    narrower = Narrower(fleet, options, solution, on_progress, known)
    known = narrower.begin()
    if options.time_limit_s is not None:
        options = replace(options, time_limit_s=max(0.5, options.time_limit_s - (time.monotonic() - started)))
    Search(fleet, options, solution, on_progress, known).run()
    if solution.gap_frac > OPTIMAL_FRAC and narrower.of_two_usd > solution.bound_usd_per_month:
        least = f"${min(narrower.of_two_usd, solution.objective):,.2f}"
        solution.notes.append(f"no plan with at most 2 deployments in a pool costs less than {least} / month")


def _most_deployments(fleet: FleetProblem) -> int:
    """Deployments that may serve a pool together."""
    return max(pool.max_deployments for pool in fleet.pools.values())


def with_mixes_of(fleet: FleetProblem, most: int) -> FleetProblem:
    """The fleet with at most so many deployments in a pool."""
    pools = {k: replace(pool, max_deployments=min(most, pool.max_deployments)) for k, pool in fleet.pools.items()}
    return replace(fleet, pools=pools)


def without_vendors(fleet: FleetProblem, out: frozenset[Vendor]) -> FleetProblem:
    """The fleet in which nothing is bought of some vendors; what is on hand there stays idle."""

    def is_in(offers: tuple[str, ...], api: str | None = None) -> bool:
        return out.isdisjoint(fleet.vendors.of(offers, api))

    pools = {
        key: replace(
            pool,
            deployments=tuple(d for d in pool.deployments if is_in((d.offer,))),
            apis=tuple(api for api in pool.apis if is_in((), api.key)),
        )
        for key, pool in fleet.pools.items()
    }
    recipes = tuple(recipe for recipe in fleet.recipes if is_in(recipe.offers, recipe.api))
    return replace(fleet, pools=pools, recipes=recipes)
