"""Several searches at once: fleets that have nothing to do with each other, each in a process of its own.

A process is `python -m solvers.search.searches`: it reads searches and writes their solutions. It ends with this one,
however that ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from problems.fleet_problem import FleetProblem
from problems.recipes.vendors import NO_VENDORS
from solvers.backends.clock import check
from solvers.backends.parent import killed_with_parent
from solvers.backends.python_child import piped_module
from solvers.search.fleet_solution import FleetSolution, Options, WarmStart
from solvers.search.fleet_solver import solve_fleet
from solvers.search.worker import cores

OnDone = Callable[[int, int], None]
"""how many searches are done, of how many"""
MOST_PROCESSES = 4
"""each needs the memory of a search"""
LOOK_EVERY_S = 0.1
"""at the clock, while processes search"""
WORTH_SERVINGS = 50_000
"""servings of all fleets from which starting processes is worth it"""


@dataclass(frozen=True, eq=False)
class FleetSearch:
    """One search: the fleet, and how to look."""

    fleet: FleetProblem
    options: Options
    known: WarmStart

    def run(self) -> FleetSolution:
        return solve_fleet(self.fleet, self.options, lambda progress: None, self.known)


class Searches:
    """Runs searches, side by side where there are cores and it is worth it; processes stay for the next ones."""

    def __init__(self) -> None:
        self._processes: list[_Process] = []

    def __enter__(self) -> Searches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes:
            process.end()
        self._processes = []

    def side_by_side(self, fleets: Sequence[FleetProblem]) -> int:
        """How many of these are searched at once."""
        small = sum(fleet.servings for fleet in fleets) < WORTH_SERVINGS
        if small or multiprocessing.current_process().daemon:
            return 1
        return max(1, min(cores(), MOST_PROCESSES, len(fleets)))

    def run(self, searches: Sequence[FleetSearch], on_done: OnDone) -> list[FleetSolution]:
        """Their solutions, in the same order. What a process does not bring to an end is done here."""
        at_once = self.side_by_side([search.fleet for search in searches])
        if at_once == 1:
            here = []
            for search in searches:
                here.append(search.run())
                on_done(len(here), len(searches))
            return here
        while len(self._processes) < at_once:
            self._processes.append(_Process())
        done: queue.SimpleQueue[tuple[_Process, int, FleetSolution | None]] = queue.SimpleQueue()
        solutions: list[FleetSolution | None] = [None] * len(searches)
        waiting = list(enumerate(searches))[::-1]
        at_work = 0
        try:
            for process in self._processes[:at_once]:
                process.start(*waiting.pop(), done)
                at_work += 1
            while at_work:
                try:
                    process, k, solution = done.get(timeout=LOOK_EVERY_S)
                except queue.Empty:
                    check()
                    continue
                solutions[k] = solution
                at_work -= 1
                on_done(len(searches) - len(waiting) - at_work, len(searches))
                if waiting and process.alive:
                    process.start(*waiting.pop(), done)
                    at_work += 1
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return [search.run() if found is None else found for search, found in zip(searches, solutions, strict=True)]


class _Process:
    """A process that searches, one fleet after the other."""

    def __init__(self) -> None:
        self._process = piped_module("solvers.search.searches", preexec_fn=killed_with_parent())
        self.alive = True

    def start(
        self, k: int, search: FleetSearch, done: queue.SimpleQueue[tuple[_Process, int, FleetSolution | None]]
    ) -> None:
        threading.Thread(target=lambda: done.put((self, k, self._asked(search))), daemon=True).start()

    def _asked(self, search: FleetSearch) -> FleetSolution | None:
        """The solution; None if the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(search, self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
            solution = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self.alive = False
            return None
        return solution if isinstance(solution, FleetSolution) else None

    def end(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.wait()


def main() -> None:
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    with contextlib.suppress(BrokenPipeError, EOFError):
        while True:
            search: FleetSearch = pickle.load(sys.stdin.buffer)
            fleet = search.fleet
            if fleet.vendors == NO_VENDORS:
                search = replace(search, fleet=replace(fleet, vendors=NO_VENDORS))  # which others compare by identity
            pickle.dump(search.run(), out, protocol=pickle.HIGHEST_PROTOCOL)
            out.flush()


if __name__ == "__main__":
    main()
