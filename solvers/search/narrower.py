"""A fleet is searched from the plans of narrower ones, where all choices together are harder than fewer of them.

More choices never make the best plan dearer, but they may hide it. Mixes of three deployments and more are found one by
one, where those of two are written down with all their servings. So fleets with smaller mixes are searched first, and
the best of their plans is where the whole search begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from solvers.search.fleet_solution import OPTIMAL_FRAC, FleetSolution, Options, Progress, WarmStart
from solvers.search.search import Search

NARROWER_FRAC = 0.5
"""share of the time that narrower fleets may take, all of them together"""


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
            self.of_two_usd = self._look_at(with_mixes_of(self.fleet, 2)).bound_usd_per_month
        return self.known

    def _look_at(self, narrower: FleetProblem) -> FleetSolution:
        """Search a narrower fleet. What it proves holds for none with more choices; paths and cuts are of use there."""
        found, limit_s = FleetSolution(), self.options.time_limit_s
        options = replace(self.options, time_limit_s=None if limit_s is None else NARROWER_FRAC * limit_s)
        try:
            Search(narrower, options, found, self._tell, self.known).run()
        finally:
            self.solution.offer(self.fleet, found.best)
        paths: dict[object, Recipe] = {path.footprint: path for path in (*self.known.paths, *found.known.paths)}
        starts = [plan for plan in (self.known.start, self.solution.best) if plan is not None]
        start = min(starts, key=lambda plan: plan.objective, default=None)
        self.known = replace(self.known, paths=tuple(paths.values()), start=start)
        return found

    def _tell(self, progress: Progress) -> None:
        """What is at hand for the fleet itself: neither plans nor bounds of a narrower one need hold for it."""
        best = self.solution.objective if self.solution.best is not None else None
        self.on_progress(Progress(progress.phase, best, self.solution.bound_usd_per_month))


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
