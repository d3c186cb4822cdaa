"""How far the performance model is from measurements: a table of errors for any CSV of points."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.catalog.entries import Catalog, shipped_catalog
from planner.io.result import Result
from planner.performance.closed_loop import closed_loop, largest_in_flight
from planner.performance.latency import decode_step_s, prefill_s
from planner.performance.machine import Machine
from planner.performance.measurements import Arrivals, MachineKey, Point, Resolver, Unscorable, read_rows
from planner.performance.memory import parallelism_of
from planner.performance.queueing import under_load

LOADED = {
    "ttft_ms": "ttft_s", "ttft_p95_ms": "ttft_percentile_s", "tpot_ms": "tpot_s", "tpot_p95_ms": "tpot_percentile_s",
    "e2e_ms": "e2e_s", "e2e_p95_ms": "e2e_percentile_s",
}  # fmt: skip
"""what a metric is called of a replica under arrivals"""
MIXED = "mixed"
"""pipelines, and attention or experts in other numbers of copies than those that plans choose from"""
TOO_MANY = "more arrivals than a replica answers by the model"


@dataclass(frozen=True)
class Errors:
    """Errors as fractions of what was measured."""

    n: int
    mape: float
    median_ape: float
    bias: float


@dataclass(frozen=True)
class Scored:
    """One measurement beside its prediction, in the unit of the metric."""

    point: Point
    predicted: float

    @property
    def error_frac(self) -> float:
        return self.predicted / self.point.value - 1


@dataclass(frozen=True, repr=False)
class Accuracy(Result):
    rows: int
    scored: tuple[Scored, ...]
    skipped: dict[str, int]
    """rows left out, by reason"""
    reasons: dict[int, str]
    """the reason of each of them, by row number from 0"""
    file: Path
    """that has the rows"""

    def by(self, group: Callable[[Scored], str]) -> dict[str, Errors]:
        groups: dict[str, list[float]] = defaultdict(list)
        for s in self.scored:
            groups[group(s)].append(s.error_frac)
        return {name: errors_of(groups[name]) for name in sorted(groups)}

    @property
    def by_metric(self) -> dict[str, Errors]:
        return self.by(lambda s: s.point.metric)

    @property
    def by_gpu(self) -> dict[str, Errors]:
        return self.by(lambda s: s.point.gpu)

    @property
    def by_source(self) -> dict[str, Errors]:
        return self.by(lambda s: s.point.source)

    @property
    def by_precision(self) -> dict[str, Errors]:
        return self.by(lambda s: s.point.precision)

    @property
    def by_parallelism(self) -> dict[str, Errors]:
        """How the GPUs of a replica share the model, whether it has experts or not."""
        return self.by(lambda s: _parallelism(s.point))

    @property
    def by_parallelism_and_metric(self) -> dict[str, Errors]:
        return self.by(lambda s: f"{_parallelism(s.point)} {s.point.metric}")

    @property
    def by_source_and_metric(self) -> dict[str, Errors]:
        return self.by(lambda s: f"{s.point.source} {s.point.metric}")

    def as_json(self) -> dict[str, Any]:
        groups = (
            "by_metric", "by_gpu", "by_source", "by_precision", "by_parallelism", "by_parallelism_and_metric",
            "by_source_and_metric",
        )  # fmt: skip
        tables = {name: {key: asdict(e) for key, e in getattr(self, name).items()} for name in groups}
        return {"rows": self.rows, "scored": len(self.scored), "skipped": self.skipped, **tables}


def _parallelism(p: Point) -> str:
    return parallelism_of(p.machine_key.layout, p.machine_key.gpus) or MIXED


def errors_of(error_fracs: Iterable[float]) -> Errors:
    errors = np.array(list(error_fracs))
    size = np.abs(errors)
    return Errors(len(errors), float(size.mean()), float(np.median(size)), float(errors.mean()))


def score(path: str | Path, catalog: Catalog | None = None) -> Accuracy:
    """Predict every row of a CSV (plain or gzipped) that the model can be asked about."""
    rows = read_rows(path)
    resolver = Resolver(catalog or shipped_catalog())
    points, reasons = [], {}
    for number, row in enumerate(rows):
        try:
            points.append(resolver.point(number, row))
        except Unscorable as why:
            reasons[number] = str(why)
    predictions = predict(points, resolver.machines)
    scored = tuple(Scored(p, float(v)) for p, v in zip(points, predictions, strict=True) if np.isfinite(v))
    reasons |= {p.row: TOO_MANY for p, v in zip(points, predictions, strict=True) if not np.isfinite(v)}
    return Accuracy(len(rows), scored, dict(Counter(reasons.values()).most_common()), reasons, Path(path))


@dataclass(frozen=True, eq=False)
class Group:
    """Points of one machine and metric, as arrays."""

    key: MachineKey
    metric: str
    members: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    concurrency: np.ndarray
    replicas: np.ndarray

    def predicted(self, machine: Machine) -> np.ndarray:
        most = largest_in_flight(machine, self.input_tokens, self.output_tokens)
        inside = np.maximum(np.minimum(self.concurrency, most), 1.0)
        if self.metric in ("decode_step_ms", "median_tpot_ms"):
            return 1e3 * decode_step_s(machine, inside, self.input_tokens + self.output_tokens / 2)
        if self.metric == "prefill_ms":
            return 1e3 * prefill_s(machine, self.input_tokens, None, inside)
        run = closed_loop(machine, self.concurrency, self.input_tokens, self.output_tokens)
        if self.metric == "ttft_ms":
            return 1e3 * run.ttft_s
        if self.metric == "tpot_ms":
            return 1e3 * run.tpot_s
        requests: np.ndarray = run.requests_per_s * self.replicas
        tokens: np.ndarray = requests * self.output_tokens
        return requests if self.metric == "req_s" else tokens


def grouped(points: Sequence[Point]) -> list[Group]:
    members: dict[tuple[MachineKey, str], list[int]] = defaultdict(list)
    for i, p in enumerate(points):
        members[p.machine_key, "median_tpot_ms" if p.median and p.metric == "tpot_ms" else p.metric].append(i)
    return [_group(key, metric, points, index) for (key, metric), index in members.items()]


def _group(key: MachineKey, metric: str, points: Sequence[Point], index: list[int]) -> Group:
    fields = ("input_tokens", "output_tokens", "concurrency", "replicas")
    arrays = {name: np.array([getattr(points[i], name) for i in index]) for name in fields}
    return Group(key, metric, np.array(index), **arrays)


def predict(points: Sequence[Point], machines: Mapping[MachineKey, Machine]) -> np.ndarray:
    """What the model says about each point, all points of a machine and metric at once."""
    values = np.empty(len(points))
    closed = [i for i, p in enumerate(points) if p.arrivals is None]
    for group in grouped([points[i] for i in closed]):
        values[np.array(closed)[group.members]] = group.predicted(machines[group.key])
    for i, p in enumerate(points):
        if p.arrivals is not None:
            values[i] = _under_arrivals(p, p.arrivals, machines[p.machine_key])
    return values


def _under_arrivals(p: Point, arrivals: Arrivals, machine: Machine) -> float:
    loaded = under_load(
        machine, p.input_tokens, p.output_tokens, arrivals.requests_per_s, arrivals.burstiness,
        prompts=arrivals.prompts, answers=arrivals.answers,
    )  # fmt: skip
    return 1e3 * float(getattr(loaded, LOADED[p.metric]))
