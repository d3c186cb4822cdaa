"""Read CBC's log, the only place where its bound and the reason it stopped can be found.

A `Result -` line is believed only when it says that CBC stopped or found nothing; `Lower bound:` and the
header of the solution file never: after a time limit they have been seen to say "Optimal solution found"
and a gap of zero on an open search.
"""

from __future__ import annotations

import re
from math import inf

from solvers.backends.result import Status, StoppedBy

# CBC prints 1e+50 for "none".
NOTHING = 1e40
# Most numbers are printed with 8 significant digits, the first relaxation with 6: a bound is lowered by half
# a unit of the last digit, so that rounding cannot raise it above what was proved.
EIGHT_DIGITS = 5e-8
SIX_DIGITS = 5e-6

_NUMBER = r"([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|inf))"
_INCUMBENT = re.compile(rf"Integer solution of {_NUMBER} found")
_NODES = re.compile(rf"Cbc0010I After .* {_NUMBER} best solution, best possible {_NUMBER}")
_PARTIAL = re.compile(rf"Cbc0005I Partial search - best objective {_NUMBER} \(best possible {_NUMBER}\)")
_COMPLETED = re.compile(rf"Cbc0001I Search completed - best objective {_NUMBER},")
_GAP_REACHED = re.compile(rf"Cbc0011I Exiting as integer gap of {_NUMBER} less than")
_RELAXATION = re.compile(rf"Continuous objective value is {_NUMBER}")
_OBJECTIVE = re.compile(rf"^Objective value:\s+{_NUMBER}")
_LIMITS = {
    "Cbc0020I": StoppedBy.TIME,
    "Result - Stopped on time limit": StoppedBy.TIME,
    "Cbc0003I": StoppedBy.NODES,
    "Result - Stopped on node limit": StoppedBy.NODES,
}
_INFEASIBLE = (
    "Problem is infeasible",
    "Result - Problem proven infeasible",
    "Result - Linear relaxation infeasible",
    "Pre-processing says infeasible",
)
_UNBOUNDED = ("Problem is unbounded", "Result - Linear relaxation unbounded")


class CbcLog:
    """Feed it lines; ask for the status, the incumbent and the bound. All values are in CBC's own scale."""

    def __init__(self) -> None:
        self.incumbent: float | None = None
        self.stopped_by: StoppedBy | None = None
        self.damaged = False
        self._relaxation = -inf
        self._open_bound = -inf
        self._completed: float | None = None
        self._gap_reached: float | None = None
        self._partial = False
        self._no_search = False
        self._infeasible = False
        self._unbounded = False

    def feed(self, line: str) -> bool:
        """Take one line; true when the incumbent or the bound may have moved."""
        if match := _INCUMBENT.search(line):
            self._found(float(match[1]))
        elif match := _NODES.search(line) or _PARTIAL.search(line):
            self._partial = self._partial or "Cbc0005I" in line
            self._found(float(match[1]))
            self._open_bound = _lowered(float(match[2]), EIGHT_DIGITS)
        elif match := _COMPLETED.search(line):
            self._completed = float(match[1])
            self._found(self._completed)
        elif match := _GAP_REACHED.search(line):
            self._gap_reached = float(match[1])
        elif match := _RELAXATION.search(line):
            self._relaxation = _lowered(float(match[1]), SIX_DIGITS)
        elif self._no_search and (match := _OBJECTIVE.search(line)):
            self._completed = float(match[1])
            self._found(self._completed)
        else:
            self._take_message(line)
            return False
        return True

    def _take_message(self, line: str) -> None:
        for words, limit in _LIMITS.items():
            if line.startswith(words):
                self.stopped_by = limit
        # Nothing is left to search: preprocessing settled it, or the root cannot beat the starting point.
        if line.startswith(("Cbc3007W", "Cbc0006I")):
            self._no_search = True
        if line.startswith("Cgl0014I"):  # "Postprocessing changed objective ... possible tolerance issue"
            self.damaged = True
        self._infeasible = self._infeasible or line.startswith(_INFEASIBLE)
        self._unbounded = self._unbounded or line.startswith(_UNBOUNDED)

    def _found(self, objective: float) -> None:
        if abs(objective) < NOTHING:
            self.incumbent = objective

    @property
    def open_bound(self) -> float:
        """The bound of the search while nodes are open; no claim of completion is used."""
        return max(self._relaxation, self._open_bound)

    @property
    def bound(self) -> float:
        if self.status is not Status.OPTIMAL or self._completed is None:
            return self.open_bound
        if self._gap_reached is None:
            return self._completed
        return max(self.open_bound, self._completed - self._gap_reached * (1.0 + EIGHT_DIGITS))

    @property
    def status(self) -> Status:
        """What the log says happened; OPTIMAL means that the search ended within the gap asked for."""
        if self._unbounded:
            return Status.UNBOUNDED
        ended = not self._partial and self.stopped_by is None
        if self._infeasible or (ended and self._completed is not None and self.incumbent is None):
            return Status.INFEASIBLE if self.incumbent is None else Status.FAILED
        if ended and self._completed is not None:
            return Status.OPTIMAL
        return Status.FEASIBLE if self.incumbent is not None else Status.NO_SOLUTION


def _lowered(value: float, relative: float) -> float:
    return value - relative * abs(value) if abs(value) < NOTHING else -inf
