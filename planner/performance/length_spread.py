"""Lengths of prompts or answers by percentiles: a log-normal through p50 and p95, up to the mean where it is known."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from pydantic import Field

from planner.io.validation import Strict

CUTS = (0.0, 0.5, 0.8, 0.95, 1.0)
"""quantiles at which a length distribution is cut; the last slice is the 5% that a p95 objective may miss"""
Z95 = NormalDist().inv_cdf(0.95)
MOST_DRAWN_IN = 1e6
POINTS = 400
"""at which lengths between two cuts are added up"""
ONE_LENGTH = 1e-9
"""logarithm of a spread up to which all lengths are the same"""


class LengthSpread(Strict):
    """Two percentiles of lengths, and their mean."""

    p50: float = Field(gt=0)
    p95: float = Field(gt=0)
    mean: float | None = Field(default=None, gt=0)
    """where it is known; else that of the log-normal"""


def spread_around(mean: float, p95: float, p50: float | None = None) -> LengthSpread:
    """Lengths with this mean and 95th percentile; without a median, that of the log-normal through both."""
    if p50 is not None:
        return LengthSpread(p50=p50, p95=p95, mean=mean)
    sigma = Z95 - math.sqrt(max(Z95**2 - 2 * math.log(max(p95 / mean, 1.0)), 0.0))
    return LengthSpread(p50=p95 * math.exp(-Z95 * sigma), p95=p95)


def quantile(spread: LengthSpread, percentile: float) -> float:
    """A percentile of the lengths."""
    return float(lengths_at(spread, np.array([percentile]), np.array([NormalDist().inv_cdf(percentile)]))[0])


def lengths_at(spread: LengthSpread, shares: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Lengths at quantiles, given with their standard normal values."""
    lengths: np.ndarray = spread.p50 * np.exp(_sigma(spread) * normals)
    if spread.mean is None or _sigma(spread) < ONE_LENGTH:
        return lengths
    drawn_in = _drawn_in(spread.p50, spread.p95, spread.mean)
    cuts = _cut_lengths(spread).tolist()
    for (low, high), (first, last) in zip(pairwise(cuts), pairwise(CUTS[1:-1]), strict=True):
        inside = (shares > first) & (shares < last)
        lengths[inside] = low + (high - low) * ((lengths[inside] - low) / (high - low)) ** drawn_in
    tail = shares > CUTS[-2]
    lengths[tail] = spread.p95 + (lengths[tail] - spread.p95) * _tail_factor(spread, drawn_in)
    return lengths


def slices(spread: LengthSpread) -> list[tuple[float, float]]:
    """(share, mean tokens) of each slice; the mean is kept."""
    if _sigma(spread) < ONE_LENGTH:
        return [(1.0, spread.p50)]
    return list(zip(np.diff(CUTS).tolist(), _moments(spread)[0].tolist(), strict=True))


def least_mean(spread: LengthSpread) -> float:
    """The smallest mean that lengths with these percentiles can have, as they are taken to be spread."""
    shares = np.diff(CUTS)
    return float(shares[0] * _log_normal_moments(spread)[0][0] + shares[1:] @ _cut_lengths(spread))


def cv2_within_slices(spread: LengthSpread) -> float:
    """What slices lack of the variance of the lengths: the mean square over that of the slices' means, less one."""
    if _sigma(spread) < ONE_LENGTH:
        return 0.0
    means, squares = _moments(spread)
    shares = np.diff(CUTS)
    return max(0.0, float(shares @ squares) / float(shares @ means**2) - 1)


def _moments(spread: LengthSpread, drawn_in: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and mean square of the lengths in each slice.

    Percentiles stay where they are. A mean below that of the log-normal draws the lengths between two cuts towards the
    lower one, and those beyond p95 towards it; a mean above it stretches those beyond p95.
    """
    means, squares = _log_normal_moments(spread)
    if spread.mean is None:
        return means, squares
    if drawn_in is None:
        drawn_in = _drawn_in(spread.p50, spread.p95, spread.mean)
    cuts = _cut_lengths(spread)
    for k, (low, high) in enumerate(pairwise(cuts), 1):
        normals = _inside(k)
        inside = low + (high - low) * ((spread.p50 * np.exp(_sigma(spread) * normals) - low) / (high - low)) ** drawn_in
        means[k], squares[k] = inside.mean(), (inside**2).mean()
    far, p95 = _tail_factor(spread, drawn_in), spread.p95
    apart = squares[-1] - 2 * p95 * means[-1] + p95**2
    squares[-1] = p95**2 + 2 * p95 * far * (means[-1] - p95) + far**2 * apart
    means[-1] = p95 + far * (means[-1] - p95)
    return means, squares


def _tail_factor(spread: LengthSpread, drawn_in: float) -> float:
    """By how much the lengths beyond p95 are nearer to it than those of the log-normal, or further away."""
    means, shares = _log_normal_moments(spread)[0], np.diff(CUTS)
    natural = float(shares @ means)
    if spread.mean is None or spread.mean < natural:
        return 1 / drawn_in
    return 1 + (spread.mean - natural) / float(shares[-1] * (means[-1] - spread.p95))


@cache
def _drawn_in(p50: float, p95: float, mean: float) -> float:
    """The power by which lengths between two cuts are drawn towards the lower one, at least 1, by halving."""
    spread, shares = LengthSpread(p50=p50, p95=p95, mean=mean), np.diff(CUTS)
    if mean >= float(shares @ _log_normal_moments(spread)[0]):
        return 1.0
    low, high = 1.0, MOST_DRAWN_IN
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if float(shares @ _moments(spread, middle)[0]) < mean else (middle, high)
    return high


@cache
def _inside(slice_of: int) -> np.ndarray:
    """Standard normal values at quantiles spread evenly over a slice."""
    low, high = CUTS[slice_of], CUTS[slice_of + 1]
    return np.array([NormalDist().inv_cdf(low + (high - low) * (k + 0.5) / POINTS) for k in range(POINTS)])


def _sigma(spread: LengthSpread) -> float:
    return math.log(spread.p95 / spread.p50) / Z95


def _cut_lengths(spread: LengthSpread) -> np.ndarray:
    return np.array([spread.p50 * math.exp(_sigma(spread) * NormalDist().inv_cdf(q)) for q in CUTS[1:-1]])


def _log_normal_moments(spread: LengthSpread) -> tuple[np.ndarray, np.ndarray]:
    """Mean and mean square in each slice of the log-normal through the two percentiles."""
    sigma, normal = _sigma(spread), NormalDist()

    def moment(power: int) -> np.ndarray:
        below = [normal.cdf(normal.inv_cdf(q) - power * sigma) if 0 < q < 1 else q for q in CUTS]
        whole = spread.p50**power * math.exp((power * sigma) ** 2 / 2)
        return np.asarray(whole * np.diff(below) / np.diff(CUTS))

    return moment(1), moment(2)
