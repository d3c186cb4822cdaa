"""The worker process: `python -m solvers.search.worker_main` reads tasks and writes better plans.

Destroy and repair, replica counts chosen again and dives from the LP take turns; a new task, with better prices,
replaces the one before. The end of the input ends the process, and whatever solver runs in it.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import BinaryIO

from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from solvers.backends.clock import Stopped, check
from solvers.backends.parent import end_this_process
from solvers.backends.solve import SolverName
from solvers.devices import uses
from solvers.heuristics.destroy_repair import repaired, scattered
from solvers.heuristics.diving import Dives
from solvers.heuristics.incumbent import Incumbent
from solvers.heuristics.local_search import improved, with_fewer_offers
from solvers.heuristics.polishing import polished
from solvers.heuristics.rounding import rounded_plan

ROUNDING_S = 5.0
REPAIRING_S, POLISHING_S = 3.0, 10.0
"""seconds of a turn"""
LOOK_EVERY_S = 0.1
"""at the clock, where there is no task"""
REPAIR_EVERY = 5
"""one in so many turns is destroy and repair; the others are dives"""
WORTH_FRAC = 1e-3
"""share of its cost that a plan must gain in a turn"""


@dataclass(frozen=True, eq=False)
class Task:
    """A fleet problem with plans and paths to start from."""

    fleet: FleetProblem
    """with the servings that are worth a look"""
    plans: tuple[Incumbent, ...]
    paths: tuple[Recipe, ...]
    """integer paths of the LP; none if they were sent before"""
    held: tuple[Recipe, ...]
    """what the LP holds, with all servings"""
    solver: SolverName
    seconds: float


def plans_of(task: Task, newest: Newest, known: list[Incumbent], turns: Iterator[int]) -> Iterator[Incumbent]:
    """Plans as they are found, good or not, until a new task arrives or time is up.

    The rounding program over the LP's paths comes first, unless a better plan is known than such a program finds. The
    counts of the best plan are chosen again; if the LP has cuts, they are compared with what a dive decides on. Then,
    turn by turn, the best plan that still gains goes through destroy and repair, or has its counts chosen again; with
    cuts most turns are dives. When no plan gains any more, the best of all is scattered, and it starts over. No two
    turns use the same random numbers, whatever task they belong to.
    """
    until = time.monotonic() + task.seconds
    starts = list({plan.objective: plan for plan in (*task.plans, *known)}.values())
    if not known:
        starts = [improved(task.fleet, start, until) for start in starts]
        yield min(starts, key=_cost)
        limit_s = min(ROUNDING_S, task.seconds / 4)
        rounded = rounded_plan(task.fleet, task.paths, task.solver, limit_s) if task.paths else None
        if rounded is not None:
            starts.append(with_fewer_offers(task.fleet, improved(task.fleet, rounded, until), until))
        yield min(starts, key=_cost)
    best = min(starts, key=_cost)
    polished_ones: set[float] = set()
    """costs of plans whose counts need not be chosen again"""
    dives = Dives(task.fleet, task.held) if task.fleet.rounded and uses("diving") else None
    if not newest.waits:
        dived = dives.decided(until, 0, best.objective) if dives is not None else None
        starts.append(_polished(task, best, until, () if dived is None else (dived,)))
        polished_ones |= {best.objective, starts[-1].objective}
        yield starts[-1]
    stalled: list[Incumbent] = []
    for turn in turns:
        if newest.waits or time.monotonic() >= until:
            return
        if dives is not None and turn % REPAIR_EVERY:
            best = min(starts + stalled, key=_cost)
            for plan in dives.dived(task.solver, until, turn, best.objective):
                starts.append(plan)
                polished_ones.add(plan.objective)
                yield plan
                if newest.waits:
                    return
            continue
        if not starts:
            starts = [scattered(task.fleet, min(stalled, key=_cost), until, turn)]
        before = _taken(starts)
        after = _repaired(task, before, until, turn)
        yield after
        if newest.waits:
            return
        if after.objective > (1 - WORTH_FRAC) * before.objective and after.objective not in polished_ones:
            after = _polished(task, after, until)
            polished_ones.add(after.objective)
            yield after
        gains = after.objective < (1 - WORTH_FRAC) * before.objective
        (starts if gains else stalled).append(after)


def _cost(plan: Incumbent) -> float:
    return plan.objective


def _taken(plans: list[Incumbent]) -> Incumbent:
    """Remove and return the cheapest plan."""
    return plans.pop(plans.index(min(plans, key=_cost)))


def _repaired(task: Task, plan: Incumbent, until: float, turn: int) -> Incumbent:
    return repaired(task.fleet, plan, min(until, time.monotonic() + REPAIRING_S), turn)


def _polished(task: Task, plan: Incumbent, until: float, others: Sequence[FleetProblem] = ()) -> Incumbent:
    paths = task.held if task.fleet.rounded else ()
    better = polished(task.fleet, plan, task.solver, min(until, time.monotonic() + POLISHING_S), paths, others)
    return improved(task.fleet, better, until)


class Newest:
    """The newest task of the input."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self._arrived, self._task = source, threading.Event(), None
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def waits(self) -> bool:
        return self._arrived.is_set()

    def take(self) -> Task:
        while not self._arrived.wait(LOOK_EVERY_S):
            check()
        self._arrived.clear()
        assert self._task is not None
        return self._task

    def _read(self) -> None:
        while True:
            try:
                self._task = pickle.load(self._source)
            except (EOFError, OSError, pickle.UnpicklingError):
                end_this_process()
            self._arrived.set()


def main() -> None:
    newest, known = Newest(sys.stdin.buffer), []  # type: ignore[var-annotated]
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    turns = count()
    try:
        while True:
            for plan in plans_of(newest.take(), newest, known, turns):
                if all(plan.objective < other.objective for other in known):
                    known = [plan]
                    pickle.dump(plan, out, protocol=pickle.HIGHEST_PROTOCOL)
                    out.flush()
    except (Stopped, BrokenPipeError):
        return


if __name__ == "__main__":
    main()
