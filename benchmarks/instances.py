"""Fleet-mix instances: the cheapest GPUs for one hour of traffic, against recorded optima and Melange's answers.

    python benchmarks/instances.py FOLDER --solver cbc --format table

FOLDER holds JSON files. Each has a rate, the share of every length bucket (`weights_in_out`), and for each GPU its
price and the requests/s that it carries of every bucket (`max_rps_in_out`; null or 0 where it cannot serve it). What a
file records of answers, `exact` and `melange`, is set aside before anything is solved, and read only to compare.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import Offer, fleet_of
from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing
from solvers.backends.solve import SolverName
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet

NO_MARGIN = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=1.0, min_replicas=1)
SAME_FRAC = 1e-4
"""costs this near to each other count as equal"""


class BadFile(ValueError):
    """A file that cannot be read as an instance; the message says why."""


@dataclass(frozen=True, eq=False)
class Instance:
    """The problem alone: what is asked for, and what each GPU costs and carries."""

    name: str
    rate_rps: np.ndarray
    """[bucket]"""
    usd_per_h: dict[str, float]
    max_rps: dict[str, np.ndarray]
    """[bucket]; 0 where a GPU cannot serve it"""


@dataclass(frozen=True)
class Answers:
    """What a file records; None where it does not."""

    optimum_usd_per_h: float | None
    melange_usd_per_h: float | None
    melange_seconds: float | None


def read_folder(folder: Path) -> list[tuple[Instance, dict[str, Any]]]:
    """Every instance by name, with the record of its answers, unread."""
    if not folder.is_dir():
        raise BadFile(f"{folder}: no such folder")
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise BadFile(f"{folder}: no .json files in it")
    read, errors = [], []
    for path in paths:
        try:
            read.append(_read(path))
        except BadFile as error:
            errors.append(f"{path}: {error}")
    if errors:
        raise BadFile("\n".join(errors))
    return sorted(read, key=lambda item: item[0].name)


def _read(path: Path) -> tuple[Instance, dict[str, Any]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot be read: {error}") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadFile(f"is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise BadFile("is not a JSON object")
    record = {key: data.pop(key, None) for key in ("exact", "melange")}
    return instance_of(data, path.stem), record


def instance_of(data: dict[str, Any], stem: str) -> Instance:
    """The instance in a file, without the buckets that nobody asks for."""
    name = data.get("name", stem)
    if not isinstance(name, str):
        raise BadFile("name is not a string")
    share = _table(data, "weights_in_out", "weights_in_out")
    rate_rps = _number(data.get("rate_rps"), "rate_rps") * share
    asked = rate_rps > 0
    if not asked.any():
        raise BadFile("nothing is asked for: rate_rps or all of weights_in_out are 0")
    gpus = data.get("gpus")
    if not isinstance(gpus, dict) or not gpus:
        raise BadFile("gpus is missing or empty")
    usd_per_h, max_rps = {}, {}
    for gpu, facts in gpus.items():
        if not isinstance(facts, dict):
            raise BadFile(f"gpus.{gpu} is not an object")
        usd_per_h[gpu] = _number(facts.get("cost_per_hour"), f"gpus.{gpu}.cost_per_hour")
        most = _table(facts, "max_rps_in_out", f"gpus.{gpu}.max_rps_in_out", null=0.0)
        if most.shape != share.shape:
            raise BadFile(f"gpus.{gpu}.max_rps_in_out is {_size(most)}, weights_in_out is {_size(share)}")
        max_rps[gpu] = most[asked]
    if not np.any(list(max_rps.values()), axis=0).all():
        raise BadFile("there is a bucket with requests that no GPU can serve")
    return Instance(name, rate_rps[asked], usd_per_h, max_rps)


def _table(data: dict[str, Any], key: str, where: str, null: float | None = None) -> np.ndarray:
    rows = data.get(key)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
        raise BadFile(f"{where} is not a table of numbers")
    if len({len(row) for row in rows}) > 1:
        raise BadFile(f"{where} has rows of different lengths")
    numbers = [[null if x is None else x for x in row] for row in rows]
    return np.array([[_number(x, where) for x in row] for row in numbers])


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise BadFile(f"{where} is {value!r}, not a number of at least 0")
    return float(value)


def _size(table: np.ndarray) -> str:
    return f"{table.shape[0]} x {table.shape[1]}"


def answers_of(record: dict[str, Any]) -> Answers:
    """The recorded optimum, and Melange's answer with buckets cut in 4 slices."""

    def known(of: Any, *keys: str) -> float | None:
        for key in keys:
            of = of.get(key) if isinstance(of, dict) else None
        return float(of) if isinstance(of, int | float) and not isinstance(of, bool) else None

    return Answers(
        known(record, "exact", "cost"),
        known(record, "melange", "slice4", "cost"),
        known(record, "melange", "slice4", "solve_s"),
    )


def solve_instance(instance: Instance, solver: SolverName) -> float:
    """The cheapest fleet that carries the traffic, any GPUs together, fully loaded if need be [USD/h]."""
    deployments = []
    for gpu, most in instance.max_rps.items():
        seconds = np.divide(1.0, most, out=np.full(len(most), np.inf), where=most > 0)
        deployments.append(Deployment(gpu, gpu, 1, seconds, NO_MARGIN, staffing_in_a_mix=NO_MARGIN))
    pool = Pool(
        key=instance.name, workloads=(instance.name,), rate_rps=instance.rate_rps[None, :], critical_share=1.0,
        spot_allowed=False, deployments=tuple(deployments), apis=(), max_deployments=len(deployments),
    )  # fmt: skip
    offers = {gpu: Offer(gpu, gpu, 1, on_demand_usd_per_h=usd) for gpu, usd in instance.usd_per_h.items()}
    fleet = fleet_of(pool.workloads, [pool], offers, np.array([HOURS_PER_MONTH]), np.zeros(1, dtype=int))
    solution = solve_fleet(fleet, Options(solver=solver, gap_frac=1e-6))
    if solution.best is None:
        raise BadFile(f"{instance.name}: no fleet was found ({solution.outcome})")
    return solution.cost_usd_per_month / float(fleet.weight.sum())


def measured(folder: Path, solver: SolverName) -> list[dict[str, Any]]:
    """Every instance solved, then compared with what its file records."""
    rows = []
    for instance, record in read_folder(folder):
        started = time.monotonic()
        cost = solve_instance(instance, solver)
        seconds = time.monotonic() - started
        answers = answers_of(record)
        rows.append(
            {
                "name": instance.name,
                "cost_usd_per_h": cost,
                "optimum_usd_per_h": answers.optimum_usd_per_h,
                "melange_usd_per_h": answers.melange_usd_per_h,
                "seconds": round(seconds, 3),
                "melange_seconds": answers.melange_seconds,
            }
        )
    return rows


def table_of(rows: list[dict[str, Any]]) -> str:
    heads = ("cost $/h", "optimum $/h", "Melange $/h", "seconds", "Melange s")
    keys = ("cost_usd_per_h", "optimum_usd_per_h", "melange_usd_per_h", "seconds", "melange_seconds")
    width = max(len(row["name"]) for row in rows)
    lines = [" ".join([f"{'instance':{width}}", *(f"{head:>12}" for head in heads)])]
    for row in rows:
        cells = ("-" if row[key] is None else f"{row[key]:.3f}" for key in keys)
        lines.append(" ".join([f"{row['name']:{width}}", *(f"{cell:>12}" for cell in cells)]))
    return "\n".join([*lines, summary_of(rows)])


def summary_of(rows: list[dict[str, Any]]) -> str:
    """How many equal the optimum, the worst, the seconds, and the mean saving against Melange."""
    parts = [f"{len(rows)} instances"]
    off = [
        (abs(row["cost_usd_per_h"] / row["optimum_usd_per_h"] - 1), row["name"])
        for row in rows
        if row["optimum_usd_per_h"]
    ]
    if off:
        equal = sum(frac <= SAME_FRAC for frac, _ in off)
        worst, name = max(off)
        parts.append(f"{equal} of {len(off)} equal the optimum within {SAME_FRAC:.2%}")
        parts.append(f"worst {worst:.4%} off ({name})")
    parts.append(f"{sum(row['seconds'] for row in rows):.1f} s in all")
    saved = [1 - row["cost_usd_per_h"] / row["melange_usd_per_h"] for row in rows if row["melange_usd_per_h"]]
    if saved:
        parts.append(f"{np.mean(saved):.2%} cheaper than Melange on average of {len(saved)}")
    return "; ".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--solver", choices=("cbc", "highs"), default="cbc")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    given = parser.parse_args()
    try:
        rows = measured(given.folder, given.solver)
    except BadFile as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(rows, indent=1) if given.format == "json" else table_of(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
