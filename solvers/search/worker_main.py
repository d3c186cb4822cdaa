"""The worker process: `python -m solvers.search.worker_main` reads tasks and writes better plans.

The program over the LP's paths, replica counts chosen again and dives follow each other; a new task, with better
prices, replaces the one before. The end of the input ends the process, and whatever solver runs in it.
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
from solvers.heuristics.diving import Dives
from solvers.heuristics.incumbent import Incumbent
from solvers.heuristics.local_search import improved, with_fewer_offers
from solvers.heuristics.polishing import polished
from solvers.heuristics.rounding import rounded_plan

ROUNDING_S, POLISHING_S = 10.0, 10.0
"""seconds of the program over paths, and of choosing counts"""
LOOK_EVERY_S = 0.1
"""at the clock, where there is no task"""


@dataclass(frozen=True, eq=False)
class Task:
    """A fleet problem with plans and paths to start from."""

    fleet: FleetProblem
    """with the servings that are worth a look"""
    plans: tuple[Incumbent, ...]
    paths: tuple[Recipe, ...]
    """integer paths of the LP and others near it"""
    held: tuple[Recipe, ...]
    """what the LP holds, with all servings"""
    solver: SolverName
    seconds: float


def plans_of(task: Task, newest: Newest, known: list[Incumbent], turns: Iterator[int]) -> Iterator[Incumbent]:
    """Plans as they are found, good or not, until a new task arrives or time is up.

    The rounding program over the LP's paths comes first, and again with each LP that has cuts. The counts of the best
    plan are chosen again; if the LP has cuts, they are compared with what a dive decides on, and dives follow. No two
    dives use the same random numbers, whatever task they belong to.
    """
    until = time.monotonic() + task.seconds
    plans = list({plan.objective: plan for plan in (*task.plans, *known)}.values())
    if not known:
        plans = [improved(task.fleet, plan, until) for plan in plans]
        yield min(plans, key=_cost)
    if not known or task.fleet.rounded:
        limit_s = min(ROUNDING_S, task.seconds / 4)
        rounded = rounded_plan(task.fleet, task.paths, task.solver, limit_s)
        if rounded is not None:
            plans.append(with_fewer_offers(task.fleet, improved(task.fleet, rounded, until), until))
        yield min(plans, key=_cost)
    if newest.waits:
        return
    best = min(plans, key=_cost)
    dives = Dives(task.fleet, task.held) if task.fleet.rounded and uses("diving") else None
    dived = None if dives is None else dives.decided(until, 0, best.objective)
    plans.append(_polished(task, best, until, () if dived is None else (dived,)))
    yield plans[-1]
    if dives is None:
        return
    for turn in turns:
        if newest.waits or time.monotonic() >= until:
            return
        for plan in dives.dived(task.solver, until, turn, min(plans, key=_cost).objective):
            plans.append(plan)
            yield plan
            if newest.waits:
                return


def _cost(plan: Incumbent) -> float:
    return plan.objective


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
