"""Bounds at every budget out of one LP: its prices, scaled to what a dollar of budget may be worth.

A tight budget makes dollars dear, and little else: most prices rise in proportion. So the prices of an LP at one
budget, scaled, come near to those of an LP at any other, without solving it. What a scale proves at a budget is concave
in what a dollar of budget is worth. So the chords between scales that were tried tell, extended, how much a scale
between two of them can prove at most, and where.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from solvers.column_generation import ColumnGeneration
from solvers.tangents import Tangent, scaled, tangent_of

FIRST_STEP = 4.0
"""between what a dollar may be worth in scales that are tried first"""
MOST_WORTH = 1e4
MOST_TRIED = 100


class PriceLadder:
    """Scales of the best prices that column generation came to, and their lines."""

    def __init__(self, generation: ColumnGeneration) -> None:
        assert generation.model is not None
        self.generation, self.duals = generation, generation.anchor
        self.worth = -tangent_of(generation.model, self.duals, 0.0).usd_per_usd
        self.lines: dict[float, Tangent] = {}
        """by what a dollar of budget is worth"""

    def climb(self, budgets: Sequence[float], close_frac: float, until: float = np.inf) -> list[Tangent]:
        """Lines that come so near to the best of all scales at every one of these budgets, if there is time."""
        for worth in (0.0, self.worth) if budgets else ():
            self._try(worth)
        while len(self.lines) < MOST_TRIED and time.monotonic() < until:
            hopes = [self._hope(budget) for budget in budgets]
            frac, worth = max(hopes, default=(0.0, 0.0))
            if frac <= close_frac:
                break
            self._try(worth)
        return list(self.lines.values())

    def _try(self, worth: float) -> None:
        duals = scaled(self.duals, (1 + worth) / (1 + self.worth), self.generation.fleet.months)
        self.lines[worth] = self.generation.tangent_at(duals)

    def _hope(self, budget: float) -> tuple[float, float]:
        """How much more some scale may prove at a budget, as a share, and what a dollar is worth there."""
        worth = sorted(self.lines)
        usd = [self.lines[w].within(budget) for w in worth]
        best = int(np.argmax(usd))
        if best == len(worth) - 1:
            more = max(worth[-1], 1.0) * FIRST_STEP
            return (np.inf, more) if more <= MOST_WORTH else (0.0, worth[-1])
        most, where = max(_peak(worth, usd, k) for k in (best - 1, best) if k >= 0)
        return ((most - usd[best]) / max(abs(usd[best]), 1e-9), where)


def _peak(worth: list[float], usd: list[float], k: int) -> tuple[float, float]:
    """Between the k-th point and the next: how high a concave function may be at most, and where."""
    left, right = worth[k], worth[k + 1]
    rise = (usd[k] - usd[k - 1]) / (left - worth[k - 1]) if k > 0 else np.inf
    fall = (usd[k + 2] - usd[k + 1]) / (worth[k + 2] - right) if k + 2 < len(worth) else -np.inf
    if np.isinf(rise) or np.isinf(fall):
        where = (left * right) ** 0.5 if left > 0 else right / FIRST_STEP
    else:
        where = (usd[k + 1] - usd[k] + rise * left - fall * right) / max(rise - fall, 1e-12)
        where = min(max(where, left), right)
    return (min(usd[k] + rise * (where - left), usd[k + 1] - fall * (right - where)), where)
