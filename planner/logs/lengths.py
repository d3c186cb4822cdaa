"""How long requests are: exact percentiles from distinct lengths, and joint buckets whose means are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

PROMPT_CUTS = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
OUTPUT_CUTS = (0.5, 0.8, 0.95)
CONTEXTS = (32_768, 40_960, 131_072, 262_144)
"""tokens of prompt and answer together at which buckets are cut as well: contexts of many models"""
FEWEST_BEYOND = 5
"""requests beyond a cut, below which it is left out"""
SHOWN = (0.5, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True)
class Side:
    """Prompts or answers."""

    mean: float
    percentiles: dict[float, float]


@dataclass(frozen=True)
class LengthBucket:
    input_tokens: float
    output_tokens: float
    requests: int


@dataclass(frozen=True)
class Lengths:
    """Joint lengths of requests that were seen one by one."""

    prompt: Side
    output: Side
    buckets: tuple[LengthBucket, ...]


@dataclass(frozen=True)
class Marginals:
    """What counters tell: means and, from histograms, percentiles of prompts and answers apart."""

    prompt: Side | None
    output: Side | None

    @classmethod
    def of_means(cls, prompt: float | None, output: float | None, requests: float) -> Marginals:
        sides = (Side(total / requests, {}) if total and requests else None for total in (prompt, output))
        return cls(*sides)

    @classmethod
    def of_histograms(
        cls, tables: dict[str, list[float]], prompt: float | None, output: float | None, requests: float
    ) -> Marginals:
        means = {"prompt": prompt, "output": output}
        sides = []
        for name, total in means.items():
            lengths = tables.get(name)
            percentiles = dict(zip((0.5, 0.95, 0.999), lengths, strict=True)) if lengths else {}
            sides.append(Side(total / requests, percentiles) if total and requests else None)
        return cls(*sides)


def quantiles(values: np.ndarray, counts: np.ndarray, at: Sequence[float]) -> list[float]:
    """Percentiles of values that occur so often, straight between neighbours, as numpy has them; values ascend."""
    upto = np.cumsum(counts)
    place = np.asarray(at) * (upto[-1] - 1)
    low = np.floor(place)
    below = values[np.searchsorted(upto, low, side="right")]
    above = values[np.searchsorted(upto, np.minimum(low + 1, upto[-1] - 1), side="right")]
    return [float(x) for x in below + (above - below) * (place - low)]


def side_of(values: np.ndarray, counts: np.ndarray) -> Side:
    mean = float(values @ counts) / float(counts.sum())
    return Side(mean, dict(zip(SHOWN, quantiles(values, counts, SHOWN), strict=True)))


def cuts_of(values: np.ndarray, counts: np.ndarray, at: Sequence[float]) -> list[float]:
    """Lengths at which to cut, each once, with enough requests beyond."""
    total = float(counts.sum())
    kept = [share for share in at if (1 - share) * total >= FEWEST_BEYOND]
    cuts = sorted({float(np.floor(q)) for q in quantiles(values, counts, kept)}) if kept else []
    return [cut for cut in cuts if cut < values[-1]]


def buckets_of(cells: pd.DataFrame) -> tuple[LengthBucket, ...]:
    """Each slice of prompts and answers with its own means, so that the means of all are kept.

    Requests beyond a context are a bucket of their own, unless they are few: these stay with the next shorter ones.
    """
    sums: dict[tuple[int, int, int], list[float]] = {}
    columns = (cells.prompt_slice, cells.output_slice, cells.contexts, cells.prompt, cells.output, cells.requests)
    for prompt_slice, output_slice, contexts, *tokens in zip(*columns, strict=True):
        sums[int(prompt_slice), int(output_slice), int(contexts)] = [float(x) for x in tokens]
    for key in sorted(sums, reverse=True):
        shorter = max((other for other in sums if other[:2] == key[:2] and other < key), default=None)
        if shorter is not None and sums[key][2] < FEWEST_BEYOND:
            sums[shorter] = [a + b for a, b in zip(sums[shorter], sums.pop(key), strict=True)]
    return tuple(LengthBucket(i / n, o / n, round(n)) for _, (i, o, n) in sorted(sums.items()))
