"""How uneven the work of data-parallel ranks is: each has requests of its own, and all wait for the busiest.

With c ranks and B requests in flight, of which a step begins B / output prompts on average, so many for each rank by
chance (Poisson), and a context that varies from request to request:

    requests of the busiest rank      (B + c - 1) / c                     one for a lone request, never below B / c
    its context, over the mean        1 + E[max of c normals] cv / sqrt(B / c)
    its prompts, over the mean        E[max of c Poisson(m)] / m,         m = B / (c output)
"""

from __future__ import annotations

from functools import lru_cache
from math import lgamma
from statistics import NormalDist

import numpy as np

CONTEXT_CV = 1.0
"""coefficient of variation of the contexts of requests in flight, as in chat traces"""
MEANS = np.geomspace(1e-4, 500.0, 240)
"""prompts a step for each rank at which the busiest is computed; between them it is interpolated"""


def busiest_requests(batch: np.ndarray, ranks: int) -> np.ndarray:
    """Requests in flight on the busiest rank, times the ranks: what all would have if they were all as busy."""
    return batch + (ranks - 1.0)


def context_excess(batch: np.ndarray, ranks: int) -> np.ndarray:
    """What the busiest rank holds over the mean of its requests; a lone request is the mean."""
    of_several = np.interp(np.minimum(batch, ranks), np.arange(1, ranks + 1), _largest_normals(ranks))
    excess: np.ndarray = 1 + CONTEXT_CV * of_several / np.sqrt(np.maximum(batch / ranks, 1.0))
    return excess


def prompt_excess(prompts_per_step: np.ndarray, ranks: int) -> np.ndarray:
    """Prompts of the busiest rank over the mean: as many as there are ranks where prompts are rare, 1 where many."""
    mean = np.maximum(prompts_per_step / ranks, MEANS[0])
    excess: np.ndarray = np.interp(np.log(mean), np.log(MEANS), largest_poisson(ranks) / MEANS)
    return excess


@lru_cache(maxsize=64)
def largest_poisson(ranks: int) -> np.ndarray:
    """Expected largest of so many independent Poisson numbers, for each of MEANS: sum of P(largest > k)."""
    k = np.arange(0.0, 800.0)
    log_factorial = np.array([lgamma(x + 1) for x in k.tolist()])
    below = np.cumsum(np.exp(k * np.log(MEANS)[:, None] - MEANS[:, None] - log_factorial), axis=1)
    largest: np.ndarray = -np.expm1(ranks * np.log(np.clip(below, 1e-300, 1.0))).sum(axis=1)
    return largest


@lru_cache(maxsize=64)
def _largest_normals(ranks: int) -> np.ndarray:
    """Expected largest of 1, 2, ... so many independent standard normal numbers."""
    share = (np.arange(2000) + 0.5) / 2000
    return np.array(
        [np.mean([NormalDist().inv_cdf(float(u)) for u in share ** (1 / n)]) if n > 1 else 0.0
         for n in range(1, ranks + 1)]
    )  # fmt: skip
