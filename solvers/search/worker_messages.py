"""Messages to the worker process of a search, and when they are sent: the current LP, and the best plan."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from problems.fleet_problem import FleetProblem
from solvers.backends.clock import check
from solvers.backends.solve import SolverName
from solvers.heuristics.incumbent import heaviest_paths
from solvers.heuristics.rounding import near_paths, near_the_plan
from solvers.pricing.column_generation import ColumnGeneration
from solvers.search.fleet_solution import FleetSolution
from solvers.search.worker import Worker
from solvers.search.worker_main import Task

TELL_AGAIN_S = 12.0
"""seconds after which the current LP is sent again"""
FIRST_BOXES_S = 8.0
"""seconds after which the first cuts are sent"""
OF_A_BRANCH_S = 6.0
"""seconds after which the LP of a branch is sent"""
HEAR_AGAIN_S = 0.1
"""after which it is asked again, where there is nothing else to do"""


class WorkerMessages:
    """Sends a search's LP to the worker, and offers the plans that it finds."""

    def __init__(
        self, beside: Worker, fleet: FleetProblem, solution: FleetSolution, solver: SolverName, deadline: float
    ) -> None:
        self.beside, self.fleet, self.solution, self.solver, self.deadline = beside, fleet, solution, solver, deadline
        self._last_sent = -np.inf
        """time of the last message"""
        self._knows_boxes = False
        """whether cuts were sent"""

    @property
    def at_work(self) -> bool:
        return self._last_sent > -np.inf

    def hear(self) -> None:
        """Offer what it found since it was asked last."""
        for plan in self.beside.received():
            self.solution.offer(self.fleet, plan)

    def hear_to_the_end(self, gap_frac: float) -> None:
        """Where nothing more can be proved in time, it has the rest of it."""
        self.hear()
        while self.at_work and self.solution.gap_frac > gap_frac and time.monotonic() < self.deadline:
            check()
            time.sleep(HEAR_AGAIN_S)
            self.hear()

    def tell(self, generation: ColumnGeneration) -> None:
        """What the LP knows, the first time with the simplest plan out of it; not where too little time is left."""
        if time.monotonic() + TELL_AGAIN_S >= self.deadline:
            return
        first = not self.at_work
        if first:
            self.solution.offer(self.fleet, heaviest_paths(generation.fleet, *generation.settled()))
        if self.solution.best is not None:
            near = near_the_plan(generation.fleet, generation.priced, self.solution.best)
            near = replace(near, pools=self.fleet.pools)  # the plan may have one that a branch has not
            near = generation.box_rows.with_forgotten(near)
            plans, left_s = (self.solution.best,), self.deadline - time.monotonic()
            paths, held = near_paths(generation), tuple(generation.paths.held)
            self.beside.look(Task(near, plans, paths, held, self.solver, left_s))
            self._knows_boxes = bool(near.rounded)
        self._last_sent = time.monotonic()

    def tell_again(self, generation: ColumnGeneration, of_a_branch: bool = False) -> None:
        """Send the LP again if the last message is old. Dives need cuts, so the first ones are sent sooner."""
        after_s = OF_A_BRANCH_S if of_a_branch else TELL_AGAIN_S
        if generation.fleet.rounded and not self._knows_boxes:
            after_s = min(after_s, FIRST_BOXES_S)
        if self.at_work and self._last_sent < time.monotonic() - after_s and generation.feasible:
            self.tell(generation)
