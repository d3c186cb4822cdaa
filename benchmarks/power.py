"""How far the power law is from measurements of groups that it was not fitted to, and its constants.

    python -m benchmarks.power MLENERGY.csv.gz POWERX.csv

Rows are GPUs at steady state with a fixed number of requests in flight: ML.ENERGY v3 (vLLM 0.11.1), and DeepSeek V4 on
B200 as InferenceX measured it, without drafts and with prompts and answers on the same GPUs. A group is an architecture
on a GPU; each is scored with constants that were fitted to the others of its GPU, and to all others. Rows that
benchmarks/public_sets.py leaves out of times are left out here. What is taken at part load is scored by itself: a
straight line, in the requests that are answered, between the fewest and the most in flight of a series.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.public_sets import rows_of_mlenergy
from planner.catalog.entries import shipped_catalog
from planner.catalog.power import tdp_w_of
from planner.performance.measurements import Point, Resolver, Unscorable
from planner.performance.power import PowerLaw, StepShares, step_shares

MOST = 0.97
"""of the TDP: what the largest rows of B200 draw"""
IDLE = 0.115
"""of the TDP: an H200 without any work (planner/data/power.yaml); a GPU that waits draws no less"""
HUBER = 0.1
"""relative error from which a row counts less"""
EVENING = 1e-6


@dataclass(frozen=True)
class Measured:
    group: str
    series: tuple[str, ...]
    gpu: str
    tdp_w: float
    watts: float
    rate: float
    """answers a second"""
    busy: float
    arithmetic: float

    @property
    def frac(self) -> float:
        return self.watts / self.tdp_w


def _of_mlenergy(path: str) -> Iterator[tuple[str, tuple[str, ...], float, Mapping[str, str]]]:
    with gzip.open(path, "rt", newline="") as file:
        for run in csv.DictReader(file):
            try:
                row = next(rows_of_mlenergy(run))
            except Unscorable as why:
                LEFT_OUT[str(why)] += 1
                continue
            series = tuple(run[k] for k in ("model_id", "gpu", "n_gpus", "task", "max_num_batched_tokens"))
            yield run["group"], series, float(run["watts_per_gpu"]), row


def _of_powerx(path: str) -> Iterator[tuple[str, tuple[str, ...], float, Mapping[str, str]]]:
    with Path(path).open(newline="") as file:
        for run in csv.DictReader(file):
            if run["disaggregated"] == "yes" or run["speculation"] != "none":
                LEFT_OUT["prompts and answers apart, or drafts"] += 1
                continue
            copies, gpus, watts = (
                8 if run["decode_dp_attention"] == "yes" else 1,
                run["gpus"],
                float(run["watts_per_gpu"]),
            )
            rate = watts * float(gpus) / float(run["joules_per_output_token"])
            row = {
                "source": "powerx", "model": run["model"], "gpu": run["gpu"], "n_gpus": gpus,
                "tp": str(int(gpus) // copies), "attention_dp": str(copies), "moe_ep": run["decode_ep"],
                "dtype_weights": run["weights"], "dtype_kv": "", "engine": run["engine"],
                "input_len": run["input_len"], "output_len": run["output_len"], "notes": "",
                "batch_or_concurrency": run["concurrency"], "metric": "output_tok_s", "value": str(rate),
            }  # fmt: skip
            yield f"deepseek-v4|{run['gpu']}", (run["group"],), watts, row


LEFT_OUT: Counter[str] = Counter()


def measured(mlenergy: str, powerx: str) -> list[Measured]:
    resolver, found = Resolver(shipped_catalog()), []
    for group, series, watts, row in (*_of_mlenergy(mlenergy), *_of_powerx(powerx)):
        try:
            point = resolver.point(0, row)
        except Unscorable as why:
            LEFT_OUT[str(why)] += 1
            continue
        shares = _shares(resolver, point)
        tdp_w = tdp_w_of(point.gpu, resolver.catalog.gpus[point.gpu])
        assert tdp_w is not None
        found.append(
            Measured(
                group,
                series,
                point.gpu,
                tdp_w,
                watts,
                point.value / point.output_tokens,
                float(shares.busy),
                float(shares.arithmetic),
            )
        )
    return found


def _shares(resolver: Resolver, p: Point) -> StepShares:
    return step_shares(resolver.machines[p.machine_key], p.concurrency, p.input_tokens, p.output_tokens)


def fitted(rows: list[Measured]) -> PowerLaw:
    """Least squares of relative errors, by Gauss-Newton steps; a row that is far off, or at its most, counts less."""
    y = np.array([r.frac for r in rows])
    x = np.stack([np.ones(len(rows)), [r.busy for r in rows], [r.arithmetic for r in rows]], axis=1)
    c = np.array([0.3, 0.4, 1.0])
    start = np.zeros(len(rows))
    for k in range(200):
        if k == 100 and c[0] < IDLE:  # no row waits all the time: what would be drawn then is not known that well
            x, start, c = x[:, 1:], np.full(len(rows), IDLE), c[1:]
        drawn = start + x @ c
        error = np.minimum(drawn, MOST) / y - 1
        free = drawn < MOST
        weight = np.minimum(1.0, HUBER / np.maximum(np.abs(error), 1e-12)) / y**2 * free
        new = np.linalg.solve(
            (x * weight[:, None]).T @ x + EVENING * np.eye(len(c)), (x * weight[:, None]).T @ (y - start)
        )
        c = 0.5 * c + 0.5 * new
    constants = [IDLE, *c] if len(c) == 2 else [*c]
    return PowerLaw(*(round(float(v), 3) for v in constants), MOST)


def predicted(law: PowerLaw, rows: list[Measured]) -> np.ndarray:
    return law.frac(StepShares(np.array([r.busy for r in rows]), np.array([r.arithmetic for r in rows])))


def errors(law: PowerLaw, rows: list[Measured]) -> np.ndarray:
    return np.asarray(predicted(law, rows) / np.array([r.frac for r in rows]) - 1)


def part_load(rows: list[Measured]) -> list[float]:
    """Errors of a straight line between the ends of each series, at the rows between them."""
    series, found = defaultdict(list), []
    for r in rows:
        series[r.series].append(r)
    for members in series.values():
        ordered = sorted(members, key=lambda r: r.rate)
        if len(ordered) < 3:
            continue
        ends = (ordered[0].rate, ordered[-1].rate), (ordered[0].frac, ordered[-1].frac)
        found += [float(np.interp(r.rate, *ends)) / r.frac - 1 for r in ordered[1:-1]]
    return found


def main() -> None:
    rows = measured(*sys.argv[1:3])
    groups = list(dict.fromkeys(r.group for r in rows))
    print(f"{len(rows)} rows of {len(groups)} groups; left out: {dict(LEFT_OUT.most_common())}")
    by_gpu: list[float] = []
    pooled: list[float] = []
    for group in sorted(groups):
        out = [r for r in rows if r.group == group]
        others = [r for r in rows if r.group != group]
        own = errors(fitted([r for r in others if r.gpu == out[0].gpu]), out)
        everybody = errors(fitted(others), out)
        print(f"  {group:28} {len(out):3} rows, of the same GPU {_said(own)}, of all {_said(everybody)}")
        by_gpu += own.tolist()
        pooled += everybody.tolist()
    print(f"left out one by one, fitted to the same GPU: {_said(by_gpu)}; fitted to all: {_said(pooled)}")
    for name in sorted({r.gpu for r in rows}):
        own_rows = [r for r in rows if r.gpu == name]
        law = fitted(own_rows)
        held_out = [e for r, e in zip(_ordered(rows), by_gpu, strict=True) if r.gpu == name]
        print(f"{name}: {law}, {len(own_rows)} rows, left out {_said(held_out)}")
    print(f"default: {fitted(rows)}")
    between = part_load(rows)
    print(f"part load, a straight line between the ends of a series: {len(between)} rows, {_said(between)}")


def _ordered(rows: list[Measured]) -> list[Measured]:
    return [r for group in sorted({r.group for r in rows}) for r in rows if r.group == group]


def _said(found: list[float] | np.ndarray) -> str:
    return f"mean error {np.mean(np.abs(found)):.1%}, bias {np.mean(found):+.1%}"


if __name__ == "__main__":
    main()
