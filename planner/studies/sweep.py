"""A sweep: every run at every budget, computed wherever the executor says, as one tidy table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

from planner.case.case import Case
from planner.io import result as results
from planner.io.errors import input_error
from planner.optimization.replan import OnProgress
from planner.studies.executing.executors import InProcess
from planner.studies.executing.jobs import Executor, Job, Result, Work, failed
from planner.studies.executing.run import run_jobs
from planner.studies.horizon_runs import Point
from planner.studies.overrides import Scenario, Source
from planner.studies.sweep_job import plans_of_case, point_of_error, shape_of_case, silent
from solvers.search.fleet_solution import Options, Progress

NEXT_USD = 1000.0
FEW_BUDGETS = 6
"""so many are planned a second time with $1,000 more; in longer sweeps a larger budget tells what more money buys"""
UNCHANGED = "as it is"
"""value of an input in runs that do not change it"""
Shape = list[tuple[float, float | None]]


@dataclass(frozen=True, repr=False)
class Sweep(results.Result):
    name: str
    inputs: tuple[str, ...]
    """columns that changes fill, in the order of their first use"""
    rows: tuple[Point, ...]
    """one for each run and budget; the inputs are under "inputs", what is not changed is missing there"""
    budgets: tuple[float, ...]
    gap_frac: float
    """that was asked for"""
    horizon: bool = False
    """whether the runs are plans of a horizon"""

    @property
    def frontier(self) -> list[Point]:
        """Frontier of the unchanged case."""
        return [row for row in self.rows if row["run"] == "base"] if self.budgets else []


def sweep(
    source: Source,
    runs: Sequence[Scenario],
    budgets: Sequence[float],
    options: Options,
    executor: Executor,
    journal: Path | None = None,
    on_shape: Callable[[Shape], None] | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
    on_progress: OnProgress = silent,
) -> Sweep:
    """Plan every run. All changes are read before anything is planned, so a mistake costs no time.

    Of runs that are planned in this process, `on_progress` hears how far each is.
    """
    asked = sorted(set(budgets))
    cases = [source.changed(run) for run in runs]
    horizon = _all_have_a_horizon(runs, cases)
    again = [] if horizon else asked if len(asked) <= FEW_BUDGETS else asked[-1:]
    planned = sorted({*asked, *(b + NEXT_USD for b in again)})
    jobs = [_job(case.as_json(), planned if asked else None, options) for case in cases]
    unique = list({job.key: job for job in jobs}.values())
    finished = 0

    def tell(progress: Progress) -> None:
        run = f"run {finished + 1} of {len(unique)}, " if len(unique) > 1 else ""
        on_progress(replace(progress, phase=run + progress.phase))

    def count(job: Job, result: Result, done: int, total: int) -> None:
        nonlocal finished
        finished = done
        on_done(done, total)

    if asked and on_shape is not None and not horizon:
        shape_job = _job(cases[0].as_json(), planned, options, "shape")
        for _, result in executor.results(_heard(shape_of_case, executor, tell), [shape_job]):
            if failed(result):
                break
            on_shape([(b, bound) for b, bound in zip(planned, result["bounds"], strict=True) if b in asked])
    found = run_jobs(_heard(plans_of_case, executor, tell), unique, executor, journal, count)
    rows: list[Point] = []
    for run, job in zip(runs, jobs, strict=True):
        points = _points(found[job.key], planned if asked else [None])
        inputs = {c.column: c.text for c in run.changes if c.kind != "shed"}
        head = {"run": run.label, "inputs": inputs}
        rows += [head | p for p in (_with_next(points, asked) if asked and not horizon else points)]
    columns = dict.fromkeys(c.column for run in runs for c in run.changes if c.kind != "shed")
    return Sweep(source.case.name, tuple(columns), tuple(rows), tuple(asked), options.gap_frac, horizon)


def _heard(work: Callable[..., Result], executor: Executor, tell: OnProgress) -> Work:
    """The same work; where it is done in this process, its progress is heard."""

    @wraps(work)
    def heard(payload: dict[str, Any]) -> Result:
        return work(payload, tell)

    return heard if isinstance(executor, InProcess) else work


def _all_have_a_horizon(runs: Sequence[Scenario], cases: Sequence[Case]) -> bool:
    """Raises InputError where some have one and others do not: their costs are not of the same things."""
    horizon = cases[0].future is not None
    for run, case in zip(runs, cases, strict=True):
        if (case.future is not None) != horizon:
            became, was = ("a horizon", "one quarter") if case.future else ("one quarter", "a horizon")
            message = f"turns a plan of {was} into a plan of {became}; their costs cannot be compared"
            raise input_error(run.label, message, "Change a copy of the file, and plan that")
    return horizon


def _job(case: dict[str, Any], budgets: list[float] | None, options: Options, what: str = "plans") -> Job:
    searching = {"solver": options.solver, "gap_frac": options.gap_frac, "time_limit_s": options.time_limit_s}
    payload = {"case": case, "budgets": budgets, "options": searching}
    text = json.dumps([what, payload], sort_keys=True, separators=(",", ":"))
    return Job(hashlib.sha256(text.encode()).hexdigest(), payload)


def _points(result: dict[str, Any], budgets: Sequence[float | None]) -> list[Point]:
    if failed(result):
        return [point_of_error(budget, str(result["error"])) for budget in budgets]
    points: list[Point] = result["points"]
    return points


def _with_next(points: list[Point], asked: Sequence[float]) -> list[Point]:
    """The points asked for, each with what the next $1,000 a month buys."""
    by_budget = {p["budget_usd_per_month"]: p for p in points}
    rows = []
    for budget in asked:
        after = min(b for b in by_budget if b >= budget + NEXT_USD)
        basis = "planned" if after == budget + NEXT_USD else f"on the way to ${after:,.0f}"
        rows.append(by_budget[budget] | _bought(by_budget[budget], by_budget[after], basis))
    return rows


def _bought(here: Point, more: Point, basis: str) -> Point:
    nothing: Point = {"next_1000_served_frac": None, "next_1000_requests_per_month": None, "next_1000_basis": None}
    if here["served_frac"] is None or more["served_frac"] is None:
        return nothing
    share = NEXT_USD / (more["budget_usd_per_month"] - here["budget_usd_per_month"])
    gained = max(0.0, more["served_frac"] - here["served_frac"]) * share
    requests = gained * here["requests_per_month"]
    return {"next_1000_served_frac": gained, "next_1000_requests_per_month": requests, "next_1000_basis": basis}


@dataclass(frozen=True)
class Sensitivity:
    """How far one input moves the cost, the others as they are or averaged over the grid."""

    input: str
    low_value: str
    low_usd_per_month: float
    high_value: str
    high_usd_per_month: float
    proved: bool
    """whether the difference exceeds the proof gap"""

    @property
    def usd_per_month(self) -> float:
        return self.high_usd_per_month - self.low_usd_per_month


def swings(found: Sweep) -> list[Sensitivity]:
    """The input that moves the cost most comes first; runs without a plan are left aside."""
    base = [r for r in found.rows if not r["inputs"] and r["cost_usd_per_month"] is not None]
    alone = all(len(r["inputs"]) <= 1 for r in found.rows)
    result = []
    for column in found.inputs:
        by_value: dict[str, list[Point]] = {UNCHANGED: base} if base and (alone or len(found.inputs) == 1) else {}
        for row in found.rows:
            if column in row["inputs"] and row["cost_usd_per_month"] is not None:
                by_value.setdefault(row["inputs"][column], []).append(row)
        cost = {v: sum(map(_usd_per_month, rows)) / len(rows) for v, rows in by_value.items() if rows}
        if len(cost) < 2:
            continue
        low, high = min(cost, key=lambda v: cost[v]), max(cost, key=lambda v: cost[v])
        pairs = [r for v in (low, high) for r in by_value[v]]
        unsure = max(_unproved_usd_per_month(r) for r in pairs)
        result.append(Sensitivity(column, low, cost[low], high, cost[high], cost[high] - cost[low] > unsure))
    return sorted(result, key=lambda s: (-s.usd_per_month, s.input))


def _usd_per_month(row: Point) -> float:
    """With what is held; of a horizon, the cost has it."""
    return float(row["cost_usd_per_month"] + (row.get("held_usd_per_month") or 0.0))


def _unproved_usd_per_month(row: Point) -> float:
    """What the proof leaves open."""
    if "counted_usd" in row:
        return float((row["counted_usd"] - row["bound_usd"]) / row["months"])
    return float(row["gap_frac"] * (row["cost_usd_per_month"] + row["penalty_usd_per_month"]))
