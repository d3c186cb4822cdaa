"""Fit the constants of the performance model to measured points; print errors, write the catalog files.

    python benchmarks/fit_performance.py POINTS.csv[.gz] [--leave-out] [--write]

Robust least squares on log(predicted / measured), every constant held to a prior (performance_constants.py).
Low-batch decode is fitted first: it alone shows latencies, which tables of saturated throughput cannot.
Sources weigh with the square root of their number of points. --leave-out refits without each source in turn.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace

import numpy as np
from performance_constants import ENGINES, GPUS, Prior, efficiency, engine, facts, link_of, priors, touched_by
from scipy.optimize import least_squares

from planner.catalog.entries import Catalog
from planner.performance.accuracy import Errors, Group, errors_of, grouped
from planner.performance.machine import Machine
from planner.performance.measurements import MachineKey, Point, Resolver, Unscorable, read_rows

LOW_BATCH = 8
LOSS_SCALE = 0.15
"""log errors beyond this count linearly"""
PULL = 3.0
"""how many independent points a prior is worth: rows of one table share their errors"""


def training_points(path: str) -> tuple[list[Point], dict[MachineKey, Machine]]:
    """Scorable points; an undeclared precision whose checkpoint is known counts as the native one here."""
    resolver = Resolver(facts())
    points = []
    for number, row in enumerate(read_rows(path)):
        if row["dtype_weights"] == "unknown" and "DTYPE INFERRED" in row.get("notes", ""):
            row = {**row, "dtype_weights": "fp16"}
        try:
            points.append(resolver.point(number, row))
        except Unscorable:
            continue
    return points, resolver.machines


class Fit:
    def __init__(self, points: list[Point], machines: dict[MachineKey, Machine], prior: dict[str, Prior]) -> None:
        self.catalog: Catalog = facts()
        self.points, self.machines, self.prior = points, machines, prior
        self.groups = grouped(points)
        keys = {g.key for g in self.groups}
        self.touched = {
            n: [g for g in self.groups if self._touches(n, g.key)]
            for n, p in prior.items()
            if p.sigma > 0 and any(self._touches(n, k) for k in keys)
        }
        self.free = list(self.touched)
        self.measured = np.log([p.value for p in points])
        count = defaultdict(int)
        for p in points:
            count[p.source] += 1
        raw = np.array([count[p.source] ** -0.5 * _trust(p) for p in points])
        self.weight = np.sqrt(raw * len(points) / raw.sum())

    def _touches(self, name: str, key: MachineKey) -> bool:
        gpu = key[3]
        return touched_by(name, gpu, GPUS[gpu], link_of(gpu, self.catalog), key[5])

    def values(self, x: np.ndarray) -> dict[str, float]:
        out = {n: p.value for n, p in self.prior.items()}
        out.update({n: self.prior[n].value * float(np.exp(v)) for n, v in zip(self.free, x, strict=True)})
        return out

    def log_predictions(self, x: np.ndarray, groups: list[Group] | None = None) -> np.ndarray:
        values = self.values(x)
        wanted = self.groups if groups is None else groups
        keys = {g.key for g in wanted}
        effs = {g: efficiency(values, g, self.catalog) for g in {k[3] for k in keys}}
        engines = {e: engine(values, e) for e in {k[5] for k in keys}}
        machines = {k: replace(self.machines[k], efficiency=effs[k[3]], engine=engines[k[5]]) for k in keys}
        out = np.full(len(self.points), np.nan)
        for group in wanted:
            out[group.members] = np.log(np.maximum(group.predicted(machines[group.key]), 1e-9))
        return out

    def residuals(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([self.weight * (self.log_predictions(x) - self.measured), self._pull(x)])

    def _pull(self, x: np.ndarray) -> np.ndarray:
        """Distance from the priors, scaled so that it meets the loss in its quadratic part."""
        sigma = np.array([self.prior[n].sigma for n in self.free])
        return PULL * LOSS_SCALE * x / sigma

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        base = self.log_predictions(x)
        jac = np.zeros((len(self.points) + len(x), len(x)))
        for j, name in enumerate(self.free):
            moved = x.copy()
            moved[j] += 1e-4
            change = self.weight * (self.log_predictions(moved, self.touched[name]) - base)
            jac[: len(self.points), j] = np.nan_to_num(change) / 1e-4
            jac[len(self.points) + j, j] = PULL * LOSS_SCALE / self.prior[name].sigma
        return jac

    def solve(self, start: np.ndarray | None = None) -> np.ndarray:
        x0 = np.zeros(len(self.free)) if start is None else start
        found = least_squares(self.residuals, x0, self.jacobian, loss="soft_l1", f_scale=LOSS_SCALE, max_nfev=25)
        return found.x


def _trust(p: Point) -> float:
    """Points with more noise or less physics in them count less."""
    return 0.3 if p.metric == "prefill_ms" and p.concurrency > 1 else 1.0


PER_PROMPT = tuple(f"engine:{name}/prefill_overhead_ms" for name in ENGINES if ENGINES[name]["mixes_prefill"])
"""where prompts are mixed into decode steps, only TTFT shows what a prompt costs besides its tokens"""


def fitted(points: list[Point], machines: dict[MachineKey, Machine]) -> dict[str, float]:
    """Latencies first, then all constants, held near the first fit; last what only queues show."""
    prior = priors()
    low = [p for p in points if p.metric in ("tpot_ms", "decode_step_ms") and p.concurrency <= LOW_BATCH]
    first = Fit(low, machines, prior)
    values = first.values(first.solve())
    held = {n: Prior(values[n], p.sigma * 0.7) if n in first.free and "_us" in n else p for n, p in prior.items()}
    second = Fit([p for p in points if not _queued(p)], machines, held)
    values = second.values(second.solve())
    queueing = {
        n: prior[n] if n.endswith(("queue_frac", "queued_prompts")) else Prior(v, p.sigma * n.endswith(PER_PROMPT))
        for (n, p), v in zip(prior.items(), values.values(), strict=True)
    }
    third = Fit([p for p in points if p.metric == "ttft_ms"], machines, queueing)
    return third.values(third.solve())


def _queued(p: Point) -> bool:
    return p.metric == "ttft_ms" and p.concurrency > 1


def errors(points: list[Point], machines: dict[MachineKey, Machine], values: dict[str, float]) -> np.ndarray:
    fit = Fit(points, machines, {n: Prior(v, 0.0) for n, v in values.items()})
    return np.exp(fit.log_predictions(np.zeros(0)) - fit.measured) - 1


def group_of(p: Point) -> str:
    one = " x1" if p.concurrency == 1 and p.metric in ("prefill_ms", "ttft_ms") else ""
    full = " max" if np.isinf(p.concurrency) else ""
    return f"{p.metric}{one}{full}"


def table(title: str, points: list[Point], errs: np.ndarray) -> None:
    groups: dict[str, list[float]] = defaultdict(list)
    for p, e in zip(points, errs, strict=True):
        for name in (group_of(p), f"{p.source}: {group_of(p)}"):
            groups[name].append(float(e))
    print(f"\n{title:<48}{'n':>6}{'mean':>8}{'median':>8}{'bias':>8}")
    for name in sorted(groups, key=lambda n: (":" in n, n)):
        e: Errors = errors_of(groups[name])
        print(f"{name:<48}{e.n:>6}{e.mape:>8.1%}{e.median_ape:>8.1%}{e.bias:>+8.1%}")


def left_out_errors(points: list[Point], machines: dict[MachineKey, Machine]) -> np.ndarray:
    """The error of every point under constants fitted without its source."""
    out = np.empty(len(points))
    for source in sorted({p.source for p in points}):
        inside = [i for i, p in enumerate(points) if p.source == source]
        values = fitted([p for p in points if p.source != source], machines)
        out[inside] = errors([points[i] for i in inside], machines, values)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points")
    parser.add_argument("--leave-out", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    points, machines = training_points(args.points)
    values = fitted(points, machines)
    errs = errors(points, machines, values)
    table("in sample", points, errs)
    if args.leave_out:
        table("source left out", points, left_out_errors(points, machines))
    if args.write:
        from write_constants import write

        write(values, points, errs)
    prior = priors()
    for n, v in values.items():
        if prior[n].sigma and abs(np.log(v / prior[n].value)) > 1.5 * prior[n].sigma:
            print(f"far from its prior: {n} {prior[n].value} -> {v:.3g}")


if __name__ == "__main__":
    main()
