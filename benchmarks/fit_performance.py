"""Fit the constants of the performance model to measured points, score it, and write what was found.

    python benchmarks/fit_performance.py FILES.csv[.gz]... [--refit-all] [--write]

Robust least squares on log(predicted / measured), every constant held to a prior (performance_constants.py). Points
weigh less the more their group (model, GPU, engine) has. Without --refit-all the constants of dense models on GPUs
before Blackwell stay as they are in planner/data; the scores of left-out groups always refit everything, from the
priors. The rows that are scored stand in scored_rows.txt (hashes), fixed before the fit; --write refreshes
planner/data/efficiency.yaml and engines.yaml and the score table of docs/evidence/performance.md. Nothing is random.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from performance_constants import GPUS, Prior, efficiency, engine, facts, kept_priors, link_of, priors, touched_by
from public_sets import rows_of
from write_constants import score_table, write

from planner.performance.accuracy import Group, grouped
from planner.performance.machine import Machine
from planner.performance.measurements import MachineKey, Point, Resolver, Unscorable

SCORED_ROWS = Path(__file__).with_name("scored_rows.txt")
LOSS_SCALE = 0.12
"""log errors beyond this count linearly"""
PULL = 3.0
"""how many independent points a prior is worth: rows of one table share their errors"""
PASSES = 14
QUEUEING = ("queue_frac", "queued_steps", "prefill_overhead_ms")
FEW_IN_FLIGHT = 8
"""TTFT up to this concurrency is mostly the prompt itself; beyond, it shows how a benchmark queues"""


def row_id(row: Mapping[str, str]) -> str:
    """A short hash of everything that a row states."""
    text = "\x1f".join(f"{name}={row[name]}" for name in sorted(row))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def training_points(paths: Iterable[str]) -> tuple[list[Point], dict[MachineKey, Machine]]:
    """The points of all files that the list of scored rows names; all that can be scored where there is no list."""
    resolver = Resolver(facts())
    wanted = set(SCORED_ROWS.read_text(encoding="utf-8").split()) if SCORED_ROWS.exists() else None
    points: list[Point] = []
    for path in paths:
        for number, row in enumerate(rows_of(path)[0]):
            if wanted is None or row_id(row) in wanted:
                try:
                    points.append(resolver.point(number, row))
                except Unscorable as why:
                    if wanted is not None:
                        raise SystemExit(f"{path}: row {number} is on the list but cannot be scored: {why}") from None
    return points, resolver.machines


def group_of(p: Point) -> tuple[str, str, str]:
    return p.machine_key.model, p.machine_key.gpu, p.machine_key.engine


class Fit:
    """Constants that fit points; `x` are the logarithms of the free ones over their priors."""

    def __init__(
        self, points: Sequence[Point], machines: Mapping[MachineKey, Machine], prior: dict[str, Prior]
    ) -> None:
        self.catalog = facts()
        self.points, self.machines, self.prior = points, machines, prior
        self.groups = grouped(points)
        self.touched = {
            name: touched
            for name, p in prior.items()
            if p.sigma > 0 and (touched := [g for g in self.groups if self._touches(name, g.key)])
        }
        self.free = list(self.touched)
        self.sigma = np.array([prior[n].sigma for n in self.free])
        self.measured = np.log([p.value for p in points])
        count = Counter(map(group_of, points))
        raw = np.array([count[group_of(p)] ** -0.5 * _trust(p) for p in points])
        self.weight = raw * len(points) / raw.sum()
        self.queued = np.array([_queued(p) for p in points])

    def _touches(self, name: str, key: MachineKey) -> bool:
        moe = self.machines[key].model.moe is not None
        return touched_by(name, key.gpu, GPUS[key.gpu], link_of(key.gpu, self.catalog), key.engine, moe)

    def values(self, x: np.ndarray) -> dict[str, float]:
        out = {n: p.value for n, p in self.prior.items()}
        out.update({n: self.prior[n].value * float(np.exp(v)) for n, v in zip(self.free, x, strict=True)})
        return out

    def at(self, values: Mapping[str, float]) -> np.ndarray:
        """Where these constants are, to start from."""
        return np.log([values[n] / self.prior[n].value for n in self.free])

    def log_errors(self, x: np.ndarray, groups: Sequence[Group] | None = None) -> np.ndarray:
        """log(predicted / measured); NaN for points of other groups."""
        values = self.values(x)
        wanted = self.groups if groups is None else groups
        keys = {g.key for g in wanted}
        effs = {g: efficiency(values, g, self.catalog) for g in {k.gpu for k in keys}}
        engines = {e: engine(values, e) for e in {k.engine for k in keys}}
        machines = {k: replace(self.machines[k], efficiency=effs[k.gpu], engine=engines[k.engine]) for k in keys}
        out = np.full(len(self.points), np.nan)
        for group in wanted:
            out[group.members] = np.log(np.maximum(group.predicted(machines[group.key]), 1e-9))
        return out - self.measured

    def objective(self, x: np.ndarray, errors: np.ndarray) -> float:
        loss = 2 * LOSS_SCALE**2 * (np.sqrt(1 + np.square(errors / LOSS_SCALE)) - 1)
        return float(self.weight @ loss + np.square(PULL * LOSS_SCALE * x / self.sigma).sum())

    def jacobian(self, x: np.ndarray, base: np.ndarray) -> np.ndarray:
        jac = np.zeros((len(self.points), len(x)))
        for j, name in enumerate(self.free):
            moved = x.copy()
            moved[j] += 1e-4
            jac[:, j] = np.nan_to_num((self.log_errors(moved, self.touched[name]) - base) / 1e-4)
            if not name.endswith(QUEUEING):
                jac[self.queued, j] = 0.0
        return jac

    def step(
        self, x: np.ndarray, errors: np.ndarray, jac: np.ndarray, weight: np.ndarray, damping: float
    ) -> np.ndarray:
        """A step of damped, reweighted least squares."""
        w = weight / np.sqrt(1 + np.square(errors / LOSS_SCALE))
        pull = np.square(PULL * LOSS_SCALE / self.sigma)
        weighted = jac * w[:, None]
        normal = weighted.T @ jac
        normal[np.diag_indices_from(normal)] += pull * (1 + damping) + 1e-9
        return np.asarray(np.linalg.solve(normal, -(weighted.T @ errors + pull * x)))

    def solve(self, x: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Constants, log errors and Jacobian at the optimum."""
        x = np.zeros(len(self.free)) if x is None else x
        errors, damping = self.log_errors(x), 0.1
        best = self.objective(x, errors)
        jac = self.jacobian(x, errors)
        for _ in range(PASSES):
            move = np.clip(self.step(x, errors, jac, self.weight, damping), -0.5, 0.5)
            moved = self.log_errors(x + move)
            found = self.objective(x + move, moved)
            if found >= best:
                damping *= 10
                continue
            small = best - found < 1e-4 * best
            x, errors, best, damping = x + move, moved, found, damping / 3
            if small:
                break
            jac = self.jacobian(x, errors)
        return x, errors, jac

    def without(self, left_out: np.ndarray, x: np.ndarray, errors: np.ndarray, jac: np.ndarray) -> np.ndarray:
        """Constants fitted without some points, predictions taken as linear around the fit to all."""
        weight = np.where(left_out, 0.0, self.weight)
        moved = x
        for _ in range(4):
            linear = errors + jac @ (moved - x)
            moved = moved + np.clip(self.step(moved, linear, jac, weight, 0.0), -0.5, 0.5)
        return moved


def _queued(p: Point) -> bool:
    return p.metric == "ttft_ms" and p.concurrency > FEW_IN_FLIGHT


def _trust(p: Point) -> float:
    """Points with more noise or less physics in them count less."""
    if p.metric == "prefill_ms" and p.concurrency > 1:
        return 0.3
    return 0.3 if p.metric == "ttft_ms" and p.concurrency > 1 else 1.0


def left_out_errors(fit: Fit, x: np.ndarray, errors: np.ndarray, jac: np.ndarray) -> np.ndarray:
    """The log error of every point under constants fitted without its group, from the fit to all."""
    out = np.empty(len(fit.points))
    of_point = [group_of(p) for p in fit.points]
    for group in sorted(set(of_point)):
        inside = np.array([g == group for g in of_point])
        index = [g for g in fit.groups if inside[g.members].any()]
        out[inside] = fit.log_errors(fit.without(inside, x, errors, jac), index)[inside]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", nargs="+")
    parser.add_argument("--refit-all", action="store_true", help="also the constants of dense models before Blackwell")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    points, machines = training_points(args.points)
    everything = Fit(points, machines, priors())
    found = everything.solve()
    out_of_sample = left_out_errors(everything, *found)
    fit = everything if args.refit_all else Fit(points, machines, kept_priors())
    x, errors, _ = found if args.refit_all else fit.solve(fit.at(everything.values(found[0])))
    values = fit.values(x)
    table = score_table(points, machines, np.expm1(errors), np.expm1(out_of_sample))
    print(table)
    if args.write:
        write(values, points, machines, np.expm1(errors), not args.refit_all, table)
    for n, p in fit.prior.items():
        if p.sigma and abs(np.log(values[n] / p.value)) > 1.5 * p.sigma:
            print(f"far from its prior: {n} {p.value} -> {values[n]:.3g}")


if __name__ == "__main__":
    main()
