"""Counters and histograms of vLLM, as Prometheus answers `query_range`: increases by model, resets counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from planner.io.errors import input_error, shown
from planner.logs.reading.ledger import Ledger
from planner.logs.reading.tables import Document

REQUESTS = "vllm:request_success_total"
COUNTERS = {
    "requests": REQUESTS,
    "prompt": "vllm:prompt_tokens_total",
    "output": "vllm:generation_tokens_total",
    "hits": "vllm:prefix_cache_hits_total",
    "queries": "vllm:prefix_cache_queries_total",
}
LENGTHS = {"prompt": "vllm:request_prompt_tokens_bucket", "output": "vllm:request_generation_tokens_bucket"}
ALIASES = {
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
}
NAMES = {metric: counter for counter, metric in COUNTERS.items()}
BOUNDS = {metric: side for side, metric in LENGTHS.items()}
LABELS = {"model": "model_name", "route": "job", "team": "namespace", "workload": "workload"}
INSTEAD = "vllm:request_prompt_tokens_count"
"""counts requests where the counter of answered ones was not saved"""
Spans = tuple[np.ndarray, np.ndarray, np.ndarray]
"""from, to and increase of one series, in seconds since 1970"""


@dataclass
class Counters:
    """Increases of one workload's counters, by the span of time that they are for."""

    spans: dict[str, list[Spans]] = field(default_factory=lambda: defaultdict(list))
    """by counter"""
    histogram: dict[str, dict[float, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    """lengths -> requests at or below each bound"""
    requests_of: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """by model"""

    def total(self, counter: str) -> float:
        return float(sum(increase.sum() for _, _, increase in self.spans.get(counter, ())))


class Metrics:
    """Saved answers on their way to counters; those of metrics that say nothing about demand are passed over."""

    def __init__(self, by: str | None, ledger: Ledger) -> None:
        self.by, self.ledger = by, ledger
        self.first: Path | None = None
        """the file that came first"""
        self.counters: dict[str, Counters] = defaultdict(Counters)
        self.spare: dict[str, list[Spans]] = defaultdict(list)
        self.restarts: set[tuple[str, float]] = set()
        self.longest_s = self.usual_s = 0.0

    def add(self, document: Document) -> None:
        self.first = self.first or document.path
        for series in document.series:
            try:
                self._add(series["metric"], series["values"])
            except (KeyError, TypeError, ValueError, AttributeError, IndexError):
                self.ledger.leave_out_together("a broken series", 1, document.path.name)

    def _add(self, labels: dict[str, Any], samples: np.ndarray) -> None:
        metric = ALIASES.get(labels["__name__"], labels["__name__"])
        if metric not in NAMES and metric not in BOUNDS and metric != INSTEAD:
            return
        begins, ends, increase, falls = increases(samples)
        bound = float(labels["le"]) if metric in BOUNDS else 0.0
        key = str(labels.get(LABELS[self.by], "")) if self.by else ""
        of = self.counters[key]
        if metric in (REQUESTS, INSTEAD):
            of.requests_of[str(labels.get("model_name", ""))] += float(increase.sum())
        if metric in NAMES:
            self.ledger.rows += len(increase) + 1
            self.restarts |= {(str(labels.get("instance", "")), t) for t in falls} if metric == REQUESTS else set()
            self.longest_s = max(self.longest_s, float((ends - begins).max(initial=0.0)))
            self.usual_s = max(self.usual_s, float(np.median(ends - begins))) if len(begins) else self.usual_s
            of.spans[NAMES[metric]].append((begins, ends, increase))
        elif metric == INSTEAD:
            self.spare[key].append((begins, ends, increase))
        else:
            of.histogram[BOUNDS[metric]][bound] += float(increase.sum())

    def usable(self) -> dict[str, Counters]:
        """Those with requests; raises InputError where there are none."""
        for key, series_of in self.spare.items():
            if not self.counters[key].spans.get("requests"):
                self.counters[key].spans["requests"] = series_of
        usable = {key: c for key, c in self.counters.items() if c.spans.get("requests") and c.total("requests") > 0}
        if not usable and self.first is not None:
            remedy = f"Save the query_range answers of {REQUESTS}, {COUNTERS['prompt']} and {COUNTERS['output']} too"
            raise input_error(self.first, "holds no count of requests", remedy)
        if self.restarts:
            some = f"{len(self.restarts)} restart{'s' * (len(self.restarts) > 1)}"
            self.ledger.note(f"{some} of a replica: what its counters show afterwards is added")
        if self.longest_s > 3 * self.usual_s:
            pause = f"{self.longest_s / 60:.0f} minutes"
            self.ledger.note(f"counters pause for up to {pause}: their growth is spread over the pause")
        for key in sorted(set(self.counters) - set(usable)):
            self.ledger.note(f"metrics of {shown(key)} hold no requests and are left out")
        return usable


def increases(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]]:
    """From, to and increase between neighbouring samples, and when the counter fell back to 0."""
    samples = samples[np.argsort(samples[:, 0], kind="stable")]
    change = np.diff(samples[:, 1])
    fell = change < 0
    return samples[:-1, 0], samples[1:, 0], np.where(fell, samples[1:, 1], change), samples[1:, 0][fell].tolist()


def steps(series: list[Spans], step_s: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Increases by steps of time: the first step's number, increases, and whether any series shows them.

    What a counter gained in a longer pause is spread evenly over it, for nobody knows when.
    """
    low = int(min(begins.min() for begins, _, _ in series if len(begins)) // step_s)
    high = int(-(-max(ends.max() for _, ends, _ in series if len(ends)) // step_s))
    total, shown_in = np.zeros(high - low), np.zeros(high - low, dtype=bool)
    edges = (np.arange(high - low + 1) + low) * float(step_s)
    for begins, ends, increase in series:
        if not len(begins):
            continue
        grown = np.interp(edges, np.r_[begins[:1], ends], np.r_[0.0, np.cumsum(increase)])
        total += np.diff(grown)
        shown_in |= (edges[:-1] >= begins[0] - 1e-6) & (edges[1:] <= ends[-1] + 1e-6)
    return low, total, shown_in


def quantiles(histogram: dict[float, float], at: Iterable[float]) -> list[float]:
    """Lengths at shares of the requests, straight between the bounds of the buckets, on a logarithmic scale."""
    bounds = np.array(sorted(histogram))
    below = np.maximum.accumulate(np.array([histogram[b] for b in bounds.tolist()]))
    finite = bounds < np.inf
    bounds, below = np.r_[1.0, np.maximum(1.0, bounds[finite])], np.r_[0.0, below[finite] / below[-1]]
    lengths = []
    for share in at:
        k = int(np.searchsorted(below, min(share, below[-1]), side="left"))
        if k == 0:
            lengths.append(float(bounds[0]))
            continue
        inside = (min(share, below[-1]) - below[k - 1]) / max(below[k] - below[k - 1], 1e-300)
        lengths.append(float(bounds[k - 1] * (bounds[k] / bounds[k - 1]) ** inside))
    return lengths
