"""What a search says of a tiny fleet, held against its optimum; and whether more to choose from ever costs more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from solvers.heuristics.incumbent import limits_are_kept
from solvers.search.fleet_solution import COLD_START, FleetSolution, Options, Outcome, Progress, WarmStart
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.exhaustive import least_objective
from tests.oracle.large_cases import Menu
from tests.oracle.plans import check_plan
from tests.support.fleets import Case

SAME = 3e-6
"""of the cost: a little more than the gap up to which a plan is called optimal"""


@dataclass
class Verdict:
    """One case, searched once or more: the truth, the first solution, and all that is wrong, in words."""

    case: Case
    truth: float
    """infinite where there is no plan"""
    found: FleetSolution = field(default_factory=FleetSolution)
    wrong_proofs: list[str] = field(default_factory=list)
    bounds_above: list[str] = field(default_factory=list)
    told_above: list[str] = field(default_factory=list)
    """bounds told while the search went on"""
    broken_rules: list[str] = field(default_factory=list)
    menus: int = 0
    dearer_cold: list[str] = field(default_factory=list)
    """narrower menus whose plan costs less than the one of the wider menu, not started from it"""
    dearer: list[str] = field(default_factory=list)
    """the same where the wider plan is called optimal, or its search started from the narrower one"""

    @property
    def proved(self) -> bool:
        return self.found.outcome in (Outcome.OPTIMAL, Outcome.INFEASIBLE)

    @property
    def above_frac(self) -> float:
        """how much more the plan costs than the optimum"""
        return self.found.objective / self.truth - 1 if self.found.best is not None and self.truth else 0.0

    @property
    def problems(self) -> list[str]:
        """what must never be"""
        return [*self.wrong_proofs, *self.bounds_above, *self.told_above, *self.broken_rules, *self.dearer]

    def hold(self, options: Options, known: WarmStart = COLD_START) -> FleetSolution:
        """Search, and hold against the truth what comes of it: every bound on the way, the outcome, the plan."""
        bounds: list[float] = []

        def note(progress: Progress) -> None:
            bounds.append(progress.bound_usd_per_month or 0.0)

        found = solve_fleet(self.case.fleet, options, note, known)
        said = f"{found.outcome.value} at {found.objective:.6f} with {options.solver}, the optimum is {self.truth:.6f}"
        for bound, above in (
            (found.bound_usd_per_month, self.bounds_above),
            (max(bounds, default=0.0), self.told_above),
        ):
            if bound > self.truth * (1 + 1e-9):
                above.append(f"bound {bound:.6f}: {said}")
        if _is_wrong(found, self.truth):
            self.wrong_proofs.append(said)
        self.broken_rules += [note for note in found.notes if note.startswith("defect:")]
        if found.best is not None:
            if found.objective < self.truth * (1 - SAME):
                self.broken_rules.append(f"cheaper than can be: {said}")
            if not limits_are_kept(self.case.fleet, found.best):
                self.broken_rules.append(f"breaks a limit: {said}")
            try:
                check_plan(self.case, found.best)
            except AssertionError as error:
                self.broken_rules.append(f"{str(error)[:120]}: {said}")
        return found

    def compare(self, menu: Menu, options: Options) -> None:
        """The plan of a menu with less on it costs no less, unless neither is proved nor started from the other."""
        narrow = solve_fleet(menu.case.fleet, options)
        self.menus += 1
        if narrow.best is None:
            return
        wide, words = self.found, f"with {menu.without} {{:.6f}}, without {narrow.objective:.6f}"
        if wide.objective > narrow.objective * (1 + SAME):
            self.dearer_cold.append(words.format(wide.objective))
        if wide.outcome is not Outcome.OPTIMAL:
            wide = self.hold(options, WarmStart(start=narrow.best))
        if wide.objective > narrow.objective * (1 + SAME):
            self.dearer.append(words.format(wide.objective))


def _is_wrong(found: FleetSolution, truth: float) -> bool:
    """Whether a proof is of something else than the truth."""
    if truth == math.inf:
        return found.best is not None
    if found.outcome is Outcome.INFEASIBLE:
        return True
    return found.outcome is Outcome.OPTIMAL and found.objective > truth * (1 + SAME)


def judged(case: Case, options: Options, menus: list[Menu], quick: Options) -> Verdict:
    """A case held against its truth: a whole search, one cut short, and narrower menus."""
    verdict = Verdict(case, least_objective(case))
    verdict.found = verdict.hold(options)
    verdict.hold(quick)
    for menu in menus:
        verdict.compare(menu, options)
    return verdict
