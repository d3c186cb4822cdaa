"""Solve a model and say only what was proved: every point is checked, every claim that fails is retried."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Literal

import numpy as np

from problems.model import Floats, Model
from solvers.backends.cbc import run_cbc
from solvers.backends.highs import run_highs, solve_lp
from solvers.backends.result import Claim, Progress, Request, Solution, Status, StoppedBy, objective_slack
from solvers.backends.trouble import SolverMissing
from solvers.backends.verify import rounded, verify

SolverName = Literal["cbc", "highs"]
OTHER: dict[SolverName, SolverName] = {"cbc": "highs", "highs": "cbc"}


def solve_mip(
    model: Model,
    *,
    solver: SolverName = "cbc",
    gap_frac: float = 0.0,
    time_limit_s: float | None = None,
    node_limit: int | None = None,
    warm_start: Floats | None = None,
    on_progress: Progress | None = None,
) -> Solution:
    """The cheapest whole solution found, and how much cheaper one could still be.

    A run whose answer fails a check is repeated in another way and then with the other solver; each of those gets the
    time left, and at least a tenth of the limit.
    """
    if solver not in OTHER:
        raise ValueError(f"unknown solver {solver!r}; use one of {', '.join(OTHER)}")
    if not 0.0 <= gap_frac < inf:
        raise ValueError(f"gap_frac must be a finite number >= 0, not {gap_frac}")
    if time_limit_s is not None and not (isfinite(time_limit_s) and time_limit_s > 0.0):
        raise ValueError(f"time_limit_s must be a positive number or None, not {time_limit_s}")
    if node_limit is not None and node_limit < 0:
        raise ValueError(f"node_limit must be >= 0 or None, not {node_limit}")
    search = _Search(model, gap_frac, time_limit_s)
    if warm_start is not None:
        search.take_warm_start(np.asarray(warm_start, dtype=float))
    if not model.integer.any() and solver == "cbc":
        solver = "highs"
        search.notes.append("no integer columns: solved as a linear program by HiGHS")
    request = Request(model, gap_frac, node_limit=node_limit, on_progress=on_progress)
    for name, again in ((solver, False), (solver, True), (OTHER[solver], False)):
        attempt = dataclasses.replace(request, again=again, time_limit_s=search.time_left(), warm_start=search.best)
        claim = _run(name, attempt)
        solution = search.judge(name, claim)
        if solution is not None:
            return solution
    if search.best is not None:
        search.notes.append("no run could be trusted with a bound")
        return search.solution(Status.FEASIBLE, solver)
    return search.solution(Status.FAILED, solver)


def _run(solver: SolverName, request: Request) -> Claim:
    if solver == "highs":
        return run_highs(request)
    try:
        return run_cbc(request)
    except SolverMissing as missing:
        return Claim(Status.FAILED, notes=(f"CBC cannot run: {missing}",))


@dataclass
class _Search:
    """One call of solve_mip: the best checked point so far, and what was learnt on the way."""

    model: Model
    gap_frac: float
    time_limit_s: float | None
    started: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)
    best: Floats | None = None
    called_infeasible: bool = False

    def time_left(self) -> float | None:
        if self.time_limit_s is None:
            return None
        return max(self.time_limit_s - self.seconds(), 0.1 * self.time_limit_s)

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def take_warm_start(self, start: Floats) -> None:
        x, broken = checked_point(self.model, start)
        if x is None:
            self.notes.append(f"warm start ignored: {broken}")
        else:
            self.best = x

    def judge(self, solver: SolverName, claim: Claim) -> Solution | None:
        """The solution to report, or None when the run cannot be trusted and another is needed."""
        self.notes += [note for note in claim.notes if note not in self.notes]
        if claim.status is Status.INFEASIBLE:
            return self._judge_infeasible(solver)
        if claim.status is Status.UNBOUNDED:
            return self._judge_unbounded(solver)
        if claim.status is Status.FAILED:
            return None
        if claim.x is not None:
            x, broken = checked_point(self.model, claim.x)
            if x is None:
                self.notes.append(f"{solver} returned a point that breaks the model: {broken}")
                return None
            self._keep_cheaper(x)
        if claim.status is not Status.OPTIMAL and claim.stopped_by is None:
            self.notes += () if claim.notes else (f"{solver} stopped without a reason",)
            return None
        if self.best is None:
            return self.solution(Status.NO_SOLUTION, solver, claim.bound, claim.stopped_by)

        objective = self.model.objective(self.best)
        if objective < claim.bound - objective_slack(objective):
            self.notes.append(f"{solver} claims a bound of {claim.bound} above a checked point of {objective}")
            return None
        bound = min(claim.bound, objective)
        if claim.status is Status.OPTIMAL:
            if objective - bound <= self.gap_frac * abs(objective) + objective_slack(objective):
                return self.solution(Status.OPTIMAL, solver, bound)
            self.notes.append(f"{solver} ended its search at {bound}, but its point costs {objective}")
            return None
        return self.solution(Status.FEASIBLE, solver, bound, claim.stopped_by)

    def _keep_cheaper(self, x: Floats) -> None:
        if self.best is None or self.model.objective(x) < self.model.objective(self.best):
            self.best = x

    def _judge_infeasible(self, solver: SolverName) -> Solution | None:
        """Infeasible comes without a certificate, and CBC's preprocessing has claimed it of feasible models.

        The other solver gets as long again to object or agree; failing that, a second run has to agree.
        """
        if self.best is not None:
            self.notes.append(f"{solver} calls the model infeasible, but a checked point exists")
            return None
        other = OTHER[solver]
        patience_s = min(max(1.0, self.seconds()), self.time_left() or inf)
        second = _run(other, Request(self._without_cost(), gap_frac=1.0, time_limit_s=patience_s))
        if second.status is Status.INFEASIBLE:
            return self.solution(Status.INFEASIBLE, solver)
        if second.x is not None:
            x, _ = checked_point(self.model, second.x)
            if x is not None:
                self._keep_cheaper(x)
                self.notes.append(f"{solver} calls the model infeasible, but {other} found a checked point")
                return None
        if not self.called_infeasible:
            self.called_infeasible = True
            return None
        self.notes.append(f"infeasible by {solver} twice, in two ways; {other} could not tell")
        return self.solution(Status.INFEASIBLE, solver)

    def _judge_unbounded(self, solver: SolverName) -> Solution | None:
        """A relaxation without a floor means an unbounded model only where a whole point exists."""
        if solve_lp(self.model).status is not Status.UNBOUNDED:
            self.notes.append(f"{solver} calls the model unbounded, but its relaxation is not")
            return None
        if self.best is not None:
            return self.solution(Status.UNBOUNDED, solver)
        claim = _run("highs", Request(self._without_cost(), gap_frac=1.0, time_limit_s=self.time_left()))
        if claim.status is Status.INFEASIBLE:
            return self.solution(Status.INFEASIBLE, solver)
        if claim.x is not None and checked_point(self.model, claim.x)[0] is not None:
            return self.solution(Status.UNBOUNDED, solver)
        self.notes.append("the relaxation has no lowest cost, and no whole point was found")
        return self.solution(Status.NO_SOLUTION, solver, -inf, claim.stopped_by)

    def _without_cost(self) -> Model:
        """The model that asks only whether a point exists."""
        return self.model.with_cost(np.zeros(self.model.n_columns))

    def solution(
        self, status: Status, solver: str, bound: float = -inf, stopped_by: StoppedBy | None = None
    ) -> Solution:
        x = self.best if status in (Status.OPTIMAL, Status.FEASIBLE) else None
        objective = None if x is None else self.model.objective(x)
        return Solution(status, x, objective, bound, stopped_by, self.seconds(), solver, tuple(self.notes))


def checked_point(model: Model, x: Floats) -> tuple[Floats | None, str]:
    """`x` with whole integers, verified; the rest is solved for again where rounding broke something."""
    if x.shape != (model.n_columns,) or not np.isfinite(x).all():
        return None, "wrong length or not finite"
    candidate = rounded(model, x)
    violations = verify(model, candidate)
    if not violations:
        return candidate, ""
    broken = "; ".join(str(violation) for violation in violations[:3])
    whole = candidate[model.integer]
    inside = (whole >= model.lower[model.integer]) & (whole <= model.upper[model.integer])
    if not inside.all() or model.integer.all():
        return None, broken
    repaired = solve_lp(model.with_fixed(model.integer, whole))
    if repaired.x is None or verify(model, repaired.x):
        return None, broken
    return repaired.x, ""
