"""How uneven the work of data-parallel ranks is: each has requests of its own, and all wait for the busiest.

With c ranks and B requests in flight, of which a step begins B / output prompts on average, so many on each rank by
chance (Poisson), and prompts and contexts whose length varies with cv2, its squared coefficient of variation:

    requests of the busiest rank      (B + c - 1) / c                     one for a lone request, never below B / c
    its context, over the mean        1 + E[largest of c normals] sqrt(cv2 / (B / c))
    its prompts, over the mean        E[largest of c Poisson(m)] / m,     m = B / (c output) / (1 + cv2)

Prompts of varying length are as uneven as fewer prompts of equal length, with the same mean and variance of their sum.
"""

from __future__ import annotations

from functools import lru_cache
from math import lgamma
from statistics import NormalDist

import numpy as np

LENGTH_CV2 = 1.0
"""of prompts, and of the contexts of requests in flight, as in chat traces"""
MEANS = np.geomspace(1e-4, 500.0, 240)
"""prompts on a rank in a step for which the busiest is computed; between them it is interpolated"""


def busiest_requests(batch: np.ndarray, ranks: int) -> np.ndarray:
    """Requests in flight on the busiest rank, times the ranks: what all would have if they were all as busy."""
    return batch + (ranks - 1.0)


def context_excess(batch: np.ndarray, ranks: int) -> np.ndarray:
    """What the busiest rank holds over the mean of its requests; a lone request is the mean."""
    largest = np.interp(np.minimum(batch, ranks), np.arange(1, ranks + 1), _largest_normals(ranks))
    excess: np.ndarray = 1 + largest * np.sqrt(LENGTH_CV2 / np.maximum(batch / ranks, 1.0))
    return excess


def prompt_excess(prompts_per_step: np.ndarray, ranks: int) -> np.ndarray:
    """Prompts of the busiest rank over the mean: as many as there are ranks where prompts are rare, 1 where many."""
    mean = np.maximum(prompts_per_step / ranks / (1 + LENGTH_CV2), MEANS[0])
    excess: np.ndarray = np.interp(np.log(mean), np.log(MEANS), _largest_poisson(ranks) / MEANS)
    return excess


@lru_cache(maxsize=64)
def _largest_poisson(ranks: int) -> np.ndarray:
    """Expected largest of so many independent Poisson numbers, for each of MEANS: sum of P(largest > k)."""
    k = np.arange(0.0, 800.0)
    log_factorial = np.array([lgamma(x + 1) for x in k.tolist()])
    below = np.cumsum(np.exp(k * np.log(MEANS)[:, None] - MEANS[:, None] - log_factorial), axis=1)
    largest: np.ndarray = -np.expm1(ranks * np.log(np.clip(below, 1e-300, 1.0))).sum(axis=1)
    return largest


def largest_normal(count: int) -> float:
    """Expected largest of so many independent standard normal numbers."""
    return float(_largest_normals(count)[-1])


@lru_cache(maxsize=64)
def _largest_normals(ranks: int) -> np.ndarray:
    """Expected largest of 1, 2, ... so many independent standard normal numbers."""
    shares = (np.arange(2000) + 0.5) / 2000
    normal = NormalDist().inv_cdf
    return np.array([0.0, *(np.mean([normal(x) for x in (shares ** (1 / n)).tolist()]) for n in range(2, ranks + 1))])
