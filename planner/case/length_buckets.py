"""Length buckets: requests of about one length, from two percentiles of prompt and answer."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist

from planner.case.case import Bucket

CUTS = (0.0, 0.5, 0.8, 0.95, 1.0)
"""quantiles at which a length distribution is cut; the last slice is the 5% that a p95 objective may miss"""
Z95 = NormalDist().inv_cdf(0.95)
SMALLEST_SHARE = 1e-4


def quantile(p50: float, p95: float, percentile: float) -> float:
    """A percentile of the log-normal through these two."""
    return p50 * math.pow(p95 / p50, NormalDist().inv_cdf(percentile) / Z95)


def slices(p50: float, p95: float) -> list[tuple[float, float]]:
    """(share, mean tokens) of each slice of a log-normal through the two percentiles; the mean is kept."""
    sigma = math.log(p95 / p50) / Z95
    if sigma < 1e-9:
        return [(1.0, p50)]
    mean = p50 * math.exp(sigma**2 / 2)
    normal = NormalDist()

    def below(quantile: float) -> float:
        """share of all tokens that is in requests up to this quantile"""
        if quantile in (0.0, 1.0):
            return quantile
        return normal.cdf(normal.inv_cdf(quantile) - sigma)

    return [(high - low, mean * (below(high) - below(low)) / (high - low)) for low, high in pairwise(CUTS)]


def buckets_from(inputs: list[tuple[float, float]], outputs: list[tuple[float, float]]) -> tuple[Bucket, ...]:
    """Every pair of an input and an output slice (lengths taken as independent)."""
    return tuple(
        Bucket(share_frac=p * q, input_tokens=max(1.0, i), output_tokens=max(1.0, o))
        for p, i in inputs
        for q, o in outputs
        if p * q >= SMALLEST_SHARE
    )


def must_hold(buckets: tuple[Bucket, ...], percentile: float, outputs: bool = False) -> list[bool]:
    """Which buckets an objective at this percentile binds: all but the longest prompts (or answers) beyond it."""
    lengths = [b.output_tokens if outputs else b.input_tokens for b in buckets]
    pairs = list(zip(lengths, (b.share_frac for b in buckets), strict=True))
    shorter = {n: sum(share for length, share in pairs if length < n) for n in set(lengths)}
    return [shorter[n] < percentile - 1e-9 for n in lengths]
