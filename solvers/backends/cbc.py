"""CBC, by way of PuLP: the model goes out as a file, the binary runs as a child, its log is the witness."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import isinf
from pathlib import Path
from typing import Any

import numpy as np

from problems.model import Floats, Model
from solvers.backends.cbc_log import CbcLog
from solvers.backends.child import run_child
from solvers.backends.result import Claim, Request, Status, StoppedBy, cost_scale
from solvers.backends.scratch import scratch_folder, writing
from solvers.backends.trouble import SolverMissing

SEED = "20"
TO_START_S = 30.0
"""for a CBC that is asked to do nothing; a hundredth of a second is usual"""


def run_cbc(request: Request) -> Claim:
    """One run of CBC; what it says, unchecked."""
    binary = _binary()
    scale = cost_scale(request.model)
    log = CbcLog()

    def on_line(line: str) -> None:
        if log.feed(line) and request.on_progress is not None:
            incumbent = None if log.incumbent is None else log.incumbent / scale
            request.on_progress(incumbent, log.open_bound / scale)

    with scratch_folder("cbc") as folder:
        model_file, start_file, solution_file = (folder / name for name in ("model.mps", "start.sol", "out.sol"))
        options = _options(request)
        with writing():
            write_mps(request.model, model_file, scale)
            if request.warm_start is not None:
                write_start(request.warm_start, start_file)
                options += ["-mips", str(start_file)]
        argv = [binary, str(model_file), *options, "-solve", "-solution", str(solution_file)]
        started = time.monotonic()
        returncode, killed = run_child(argv, request.time_limit_s, on_line)
        seconds = time.monotonic() - started
        x = None
        # Without an incumbent the file holds the relaxation, or nothing meaningful: it is not opened.
        if log.incumbent is not None and not killed and solution_file.exists():
            x = read_solution(solution_file, request.model.n_columns)

    claim = _claim(log, x, request, seconds, returncode, killed)
    return dataclasses.replace(claim, bound=claim.bound / scale)


def _claim(log: CbcLog, x: Floats | None, request: Request, seconds: float, returncode: int, killed: bool) -> Claim:
    if killed:
        note = "CBC ignored its time limit and was killed"
        return Claim(Status.NO_SOLUTION, None, log.open_bound, StoppedBy.TIME, (note,))
    if returncode != 0 or (log.incumbent is not None and x is None):
        return Claim(Status.FAILED, notes=(f"CBC ended with code {returncode} and no solution file",))
    unfinished = Status.NO_SOLUTION if x is None else Status.FEASIBLE
    if log.status in (Status.OPTIMAL, Status.INFEASIBLE):
        if request.time_limit_s is not None and seconds >= 0.95 * request.time_limit_s:
            # A search cut short by the clock has been seen to print "Search completed".
            note = "CBC reported a completed search only as its time ran out: not taken as proof"
            return Claim(unfinished, x, log.open_bound, StoppedBy.TIME, (note,))
        if log.damaged:
            note = "CBC reported trouble undoing its preprocessing: not taken as proof"
            return Claim(unfinished, x, log.open_bound, None, (note,))
    return Claim(log.status, x, log.bound, log.stopped_by)


def _binary() -> str:
    try:
        import pulp
    except ImportError as error:
        raise SolverMissing(f"CBC needs PuLP: pip install 'pulp>=3.3.1,<4' ({error}).") from error
    with _pulp_4_ignored():
        path = str(pulp.PULP_CBC_CMD(msg=False).path)
    if not os.access(path, os.X_OK):
        raise SolverMissing(f"PuLP's CBC is not an executable file on this machine: {path}.")
    return path


def cbc_trouble() -> str | None:
    """Why CBC cannot run on this machine, in a sentence; None if it can."""
    try:
        binary = _binary()
    except SolverMissing as missing:
        return str(missing)
    return _trouble_of(binary)


def cbc_version() -> str:
    """The version that CBC prints when it starts. Raises SolverMissing if there is none to ask."""
    lines: list[str] = []
    run_child([_binary(), "-quit"], TO_START_S, lines.append)
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Version:")), "unknown")


@cache
def _trouble_of(binary: str) -> str | None:
    try:
        code, _ = run_child([binary, "-quit"], TO_START_S, lambda line: None)
    except SolverMissing as missing:
        return str(missing)
    return f"{binary} ends with code {code} on this machine." if code else None


def _options(request: Request) -> list[str]:
    # Elapsed time is needed for honesty too: with CBC's default, CPU time, the limit also cuts off single
    # linear programs, whose half-done values it then reports as bounds.
    options = ["-timeMode", "elapsed", "-randomSeed", SEED, "-randomCbcSeed", SEED]
    # Both have been seen to cut off optimal points; for flow covers see github.com/coin-or/Cbc/issues/769.
    options += ["-knapsackCuts", "off", "-flowCoverCuts", "off"]
    # CBC divides by the larger of |objective| and |bound|, so below zero it would stop too early.
    options += ["-ratio", repr(request.gap_frac / (1.0 + request.gap_frac))]
    if request.time_limit_s is not None:
        options += ["-sec", repr(request.time_limit_s)]
    if request.node_limit is not None:
        options += ["-maxNodes", str(request.node_limit)]
    if request.again:
        options += ["-preprocess", "off", "-presolve", "off"]
    return options


def write_mps(model: Model, path: Path, scale: float) -> None:
    """The model as PuLP writes it, under neutral names: names made from keys can collide once cleaned."""
    with _pulp_4_ignored():
        _pulp_problem(model, scale).writeMPS(str(path))


def _pulp_problem(model: Model, scale: float) -> Any:
    import pulp

    problem = pulp.LpProblem("model", pulp.LpMinimize)
    variables = [
        pulp.LpVariable(
            f"x{j}",
            None if isinf(low) else low,
            None if isinf(high) else high,
            pulp.LpInteger if whole else pulp.LpContinuous,
        )
        for j, (low, high, whole) in enumerate(
            zip(model.lower.tolist(), model.upper.tolist(), model.integer.tolist(), strict=True)
        )
    ]
    problem.addVariables(variables)
    costs = (model.cost * scale).tolist()
    problem.setObjective(pulp.LpAffineExpression(dict(zip(variables, costs, strict=True))))
    indices, values, starts = model.indices.tolist(), model.values.tolist(), model.starts.tolist()
    for i, (low, high) in enumerate(zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)):
        entries = range(starts[i], starts[i + 1])
        expression = pulp.LpAffineExpression({variables[indices[k]]: values[k] for k in entries})
        sense, rhs = (
            (pulp.LpConstraintEQ, low)
            if low == high
            else (pulp.LpConstraintLE, high)
            if isinf(low)
            else (pulp.LpConstraintGE, low)
        )
        problem.addConstraint(pulp.LpConstraint(expression, sense, f"r{i}", rhs))
    return problem


@contextmanager
def _pulp_4_ignored() -> Iterator[None]:
    """PuLP 3 warns on every call that version 4 will differ; the dependency is pinned below 4."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def write_start(x: Floats, path: Path) -> None:
    """A starting point for CBC; zeros are written too, as it searches over what is left out."""
    lines = ["Stopped on time - objective value 0"]
    lines += [f"{j} x{j} {value!r} 0" for j, value in enumerate(x.tolist())]
    path.write_text("\n".join(lines) + "\n")


def read_solution(path: Path, n_columns: int) -> Floats:
    """The values in a CBC solution file (8 digits each); columns it leaves out are zero."""
    x = np.zeros(n_columns)
    for line in path.read_text().splitlines()[1:]:
        words = line.replace("**", " ").split()
        if len(words) >= 3 and words[1].startswith("x"):
            x[int(words[1][1:])] = float(words[2])
    return x
