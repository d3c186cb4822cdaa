"""HiGHS: linear programs and small mixed-integer ones in this process, large ones in a child that can be killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from math import inf, isinf
from typing import Any

import numpy as np

from problems.model import Booleans, Floats, Model
from solvers.backends import highs_child
from solvers.backends.child import late_after_s, run_child
from solvers.backends.clock import check
from solvers.backends.python_child import module_argv, module_environment
from solvers.backends.result import Claim, LpSolution, Request, Status, StoppedBy, cost_scale
from solvers.backends.scratch import scratch_folder, writing
from solvers.backends.trouble import SolverMissing
from solvers.backends.verify import rounded, verify

SMALL = 1_000
"""columns and rows of a linear program that takes a few milliseconds"""
MOST_COLUMNS_HERE = 20_000
"""of a mixed-integer program that is solved in this process: a larger one may leave it little memory, or never look"""
IGNORED_LIMIT = "HiGHS ignored its time limit and was ended"
PART_GAP_FRAC = 1e-4
"""gap, as a share of the cost, to which a part of a program is solved"""
_LIMITS = {
    "kTimeLimit": StoppedBy.TIME,
    "kSolutionLimit": StoppedBy.NODES,
    "kIterationLimit": StoppedBy.NODES,
}


def solve_lp(model: Model, presolve: bool = True) -> LpSolution:
    """The linear program (integrality is ignored) with its duals; x is checked before it is returned."""
    require_highspy()
    started = time.perf_counter()
    model = model.relaxed()
    highs = highs_child.load_model(_arrays(model))
    highs.setOptionValue("presolve", "choose" if presolve else "off")
    name = highs_child.run_resolved(highs, _run_interruptibly).name
    seconds = time.perf_counter() - started
    if name in ("kInfeasible", "kUnbounded"):
        status = Status.INFEASIBLE if name == "kInfeasible" else Status.UNBOUNDED
        return LpSolution(status, None, None, None, None, seconds)
    solution = highs.getSolution()
    x = np.clip(np.array(solution.col_value, dtype=float), model.lower, model.upper)
    # An empty model is solved by its bounds, and HiGHS says so with a status of its own.
    if name not in ("kOptimal", "kModelEmpty") or verify(model, x):
        return LpSolution(Status.FAILED, None, None, None, None, seconds)
    row_duals = np.array(solution.row_dual, dtype=float)
    return LpSolution(
        status=Status.OPTIMAL,
        x=x,
        objective=model.objective(x),
        row_duals=row_duals,
        reduced_costs=model.cost - model.priced(row_duals),
        seconds=seconds,
    )


def solve_lp_centrally(model: Model) -> LpSolution:
    """Solve a linear program by an interior point method without crossover: central duals, and x near the optimum.

    Of many optimal duals simplex returns a corner, where whatever the program does not know yet is free. What is not
    solved this way is solved by simplex.
    """
    require_highspy()
    started = time.perf_counter()
    model = model.relaxed()
    highs = highs_child.load_model(_arrays(model))
    highs.setOptionValue("solver", "ipm")
    highs.setOptionValue("run_crossover", "off")
    name = highs_child.run_resolved(highs, _run_interruptibly).name
    if name != "kOptimal":
        return solve_lp(model)
    solution = highs.getSolution()
    x = np.clip(np.array(solution.col_value, dtype=float), model.lower, model.upper)
    row_duals = np.array(solution.row_dual, dtype=float)
    reduced_costs = model.cost - model.priced(row_duals)
    seconds = time.perf_counter() - started
    return LpSolution(Status.OPTIMAL, x, model.objective(x), row_duals, reduced_costs, seconds)


class WarmLp:
    """A linear program that is solved again and again while its columns are decided and rows are added, each time from
    where it was.
    """

    def __init__(self, model: Model) -> None:
        require_highspy()
        self._highs = highs_child.load_model(_arrays(model.relaxed()))
        self._highs.setOptionValue("solver", "ipm")  # from nowhere that is faster, and it leaves a basis behind
        self._model, self._first_basis = model, None
        self._decided: set[int] = set()

    def decide(self, columns: Iterable[int], lower: float, upper: float) -> None:
        """Bounds of some columns from now on."""
        for column in columns:
            self._highs.changeColBounds(column, lower, upper)
            self._decided.add(column)

    def begin_again(self) -> None:
        """Nothing is decided any more, and it is solved from where it was at first."""
        for column in self._decided:
            self._highs.changeColBounds(column, float(self._model.lower[column]), float(self._model.upper[column]))
        self._decided.clear()
        if self._first_basis is not None:
            self._highs.setBasis(self._first_basis)

    def add_columns(self, columns: list[tuple[float, np.ndarray, np.ndarray]]) -> None:
        """Shares from 0 to 1, each with its cost, its rows and its entries there."""
        starts = np.cumsum([0, *(len(rows) for _, rows, _ in columns)])
        nothing = np.zeros(0)
        self._highs.addCols(
            len(columns),
            np.array([cost for cost, _, _ in columns]),
            np.zeros(len(columns)),
            np.ones(len(columns)),
            int(starts[-1]),
            starts[:-1].astype(np.int32),
            np.concatenate([nothing, *(rows for _, rows, _ in columns)]).astype(np.int32),
            np.concatenate([nothing, *(entries for _, _, entries in columns)]),
        )

    @property
    def prices(self) -> Floats:
        """Duals of the rows at the last solution."""
        return np.array(self._highs.getSolution().row_dual, dtype=float)

    @property
    def reduced_costs(self) -> Floats:
        """Reduced costs of the columns at the last solution."""
        return np.array(self._highs.getSolution().col_dual, dtype=float)

    @property
    def objective(self) -> float:
        return float(self._highs.getInfo().objective_function_value)

    def solve(self) -> Floats | None:
        """Values of the columns, near enough; None if there are none."""
        _run_interruptibly(self._highs)
        if self._first_basis is None:
            self._highs.setOptionValue("solver", "simplex")
            self._highs.setOptionValue("presolve", "off")
            self._first_basis = self._highs.getBasis()
        if self._highs.getModelStatus().name != "kOptimal":
            return None
        return np.array(self._highs.getSolution().col_value, dtype=float)


def solve_part(model: Model, stays: Booleans, x: Floats, seconds: float) -> Floats | None:
    """A cheaper whole point with some columns as they are in x, found in so many seconds; None if there is none.

    In this process, as it is small: nobody else has to wait for it, and nothing is proved by it.
    """
    require_highspy()
    part = model.without_columns(stays, x).without_empty_rows()
    highs = highs_child.load_model(_arrays(part))
    for option, value in (("mip_rel_gap", PART_GAP_FRAC), ("mip_allow_restart", False), ("time_limit", seconds)):
        highs.setOptionValue(option, value)
    start = x[~stays]
    highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
    _run_interruptibly(highs)
    values = np.array(highs.getSolution().col_value, dtype=float)
    if values.shape != start.shape:
        return None
    then = x.copy()
    then[~stays] = values
    then = rounded(model, then)
    return then if not verify(model, then) and model.objective(then) < model.objective(x) else None


def _run_interruptibly(highs: Any) -> None:
    """Run in a thread, and look at the clock meanwhile. Small models end at once."""
    check()
    if highs.getNumCol() + highs.getNumRow() < SMALL:
        highs.run()
        return
    _run_and_look(highs, check)


def _run_and_look(highs: Any, look: Callable[[], None]) -> None:
    """Run in a thread; `look` is called ten times a second, and may raise what ends it."""
    highs.HandleUserInterrupt = True
    highs.startSolve()
    try:
        while not highs.wait(0.1)[0]:
            look()
    except BaseException:
        highs.cancelSolve()
        highs.wait(1.0)
        raise


def run_highs(request: Request) -> Claim:
    """One run of HiGHS on a mixed-integer model; what it says, unchecked."""
    require_highspy()
    return (_run_here if request.model.n_columns <= MOST_COLUMNS_HERE else _run_in_child)(request)


class _Late(Exception):
    """A solver goes on after its time limit."""


def _run_here(request: Request) -> Claim:
    """A small model, in a thread of this process: to start another one would take longer than most of them."""
    scale, heard = cost_scale(request.model), [(inf, -inf)]
    latest = inf if request.time_limit_s is None else time.monotonic() + late_after_s(request.time_limit_s)

    def look() -> None:
        check()
        if len(heard) > 1:
            heard[:] = heard[-1:]
            _tell(request, *heard[0], scale)
        if time.monotonic() >= latest:
            raise _Late

    arrays = _arrays(request.model, scale) | _asked(request)
    check()
    try:
        name, x, bound = highs_child.solve_mip(
            arrays, lambda *costs: heard.append(costs), lambda highs: _run_and_look(highs, look)
        )
    except _Late:
        return Claim(Status.NO_SOLUTION, None, heard[-1][1] / scale, StoppedBy.TIME, (IGNORED_LIMIT,))
    except ValueError as error:
        return Claim(Status.FAILED, notes=(str(error),))
    for costs in heard[1:]:
        _tell(request, *costs, scale)
    return _claim(name, x if x.size == request.model.n_columns else None, bound / scale)


def _tell(request: Request, incumbent: float, bound: float, scale: float) -> None:
    if request.on_progress is not None:
        request.on_progress(None if isinf(incumbent) else incumbent / scale, bound / scale)


def _run_in_child(request: Request) -> Claim:
    scale = cost_scale(request.model)
    last_bound = -inf
    last_lines: list[str] = []

    def on_line(line: str) -> None:
        nonlocal last_bound
        words = line.split()
        if len(words) == 3 and words[0] == "progress":
            incumbent, last_bound = float(words[1]), float(words[2])
            _tell(request, incumbent, last_bound, scale)
        else:
            last_lines[:] = [*last_lines[-4:], line]

    with scratch_folder("highs") as folder:
        with writing():
            np.savez(folder / "model.npz", **_arrays(request.model, scale), **_asked(request))
        argv = module_argv("solvers.backends.highs_child", str(folder), str(os.getpid()))
        returncode, killed = run_child(argv, request.time_limit_s, on_line, module_environment())
        if killed:
            return Claim(Status.NO_SOLUTION, None, last_bound / scale, StoppedBy.TIME, (IGNORED_LIMIT,))
        result_file = folder / "result.npz"
        if returncode != 0 or not result_file.exists():
            note = f"HiGHS ended with code {returncode}: {' | '.join(last_lines)}"
            return Claim(Status.FAILED, notes=(note,))
        with np.load(result_file) as stored:
            name, x, bound = str(stored["status"]), stored["x"], float(stored["bound"]) / scale
    return _claim(name, x if x.size == request.model.n_columns else None, bound)


def _claim(name: str, x: Any, bound: float) -> Claim:
    if name in ("kInfeasible", "kUnbounded"):
        return Claim(Status.INFEASIBLE if name == "kInfeasible" else Status.UNBOUNDED)
    bound = bound if bound < inf else -inf
    if name in ("kOptimal", "kModelEmpty") and x is not None:
        return Claim(Status.OPTIMAL, x, bound)
    if name in _LIMITS:
        return Claim(Status.NO_SOLUTION if x is None else Status.FEASIBLE, x, bound, _LIMITS[name])
    return Claim(Status.FAILED, notes=(f"HiGHS ended with status {name}",))


def _arrays(model: Model, scale: float = 1.0) -> dict[str, Any]:
    return {
        "cost": model.cost * scale,
        "lower": model.lower,
        "upper": model.upper,
        "integer": model.integer,
        "starts": model.starts,
        "indices": model.indices,
        "values": model.values,
        "row_lower": model.row_lower,
        "row_upper": model.row_upper,
    }


def _asked(request: Request) -> dict[str, Any]:
    asked = {
        "gap_frac": request.gap_frac,
        "again": request.again,
        "time_limit_s": request.time_limit_s,
        "node_limit": request.node_limit,
        "warm_start": request.warm_start,
    }
    return {name: value for name, value in asked.items() if value is not None}


def highs_version() -> str:
    """The version of the HiGHS library. Raises SolverMissing without highspy."""
    require_highspy()
    import highspy

    return str(highspy.Highs().version())


def require_highspy() -> None:
    """Raise SolverMissing where every linear program would."""
    if sys.modules.get("highspy") is not None:
        return
    try:
        import highspy  # noqa: F401
    except ImportError as error:
        raise SolverMissing(f"HiGHS needs highspy: pip install highspy ({error}).") from error
