"""Dual scaling: bounds at every budget from one LP, with its duals scaled to what a dollar of budget may be worth.

A tight budget raises the value of a dollar, and little else: most prices rise in proportion. So the scaled prices of an
LP at one budget are close to those of an LP at any other, without solving it. What a scale proves at a budget is
concave in the value of a dollar of budget. So the chords between scales already tried, extended, bound what a scale
between two of them can prove, and say where.

Mixes that are not written down are most of the work of a bound, and change little of it. So scales are looked for
without them, and only what a line then promises beyond what is known is proved with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from solvers.backends.clock import check
from solvers.pricing.budget_bounds import BudgetBound, budget_bound_of, scaled
from solvers.pricing.column_generation import ColumnGeneration
from solvers.pricing.dual_bound import Duals

FIRST_STEP = 4.0
"""between what a dollar may be worth in scales that are tried first"""
MOST_WORTH = 1e4
MOST_TRIED = 100


class DualScaling:
    """Scales of the best prices of a column generation, and their lines."""

    def __init__(self, generation: ColumnGeneration) -> None:
        assert generation.model is not None
        self.generation, self.duals = generation, generation.anchor
        self.worth = -budget_bound_of(generation.model, self.duals, 0.0, generation.fleet.weight_of_month).usd_per_usd
        self.lines: dict[float, BudgetBound] = {}
        """by what a dollar of budget is worth; the best that can be proved there"""
        self.proved: dict[float, BudgetBound] = {}
        """bounds that hold for all plans"""

    def climb(
        self,
        budgets: Sequence[float],
        close_frac: float,
        until: float = np.inf,
        known: Callable[[float], float] = lambda budget: -np.inf,
    ) -> list[BudgetBound]:
        """Lines that come so near to the best of all scales at every one of these budgets, if there is time.

        `known` is what is proved at a budget anyway: lines that are hardly better there are of no use.
        """
        for worth in (0.0, self.worth) if budgets else ():
            self._try(worth)
        while self.lines and time.monotonic() < until:
            check()
            frac, worth = max(self._hope(budget, known(budget)) for budget in budgets)
            if frac > close_frac and len(self.lines) < MOST_TRIED:
                self._try(worth)
                continue
            promising = {self._best_at(b) for b in budgets if self._gain_frac(b, known(b)) > close_frac}
            if promising <= self.proved.keys():
                break
            for worth in sorted(promising - self.proved.keys()):
                self._prove(worth)
        return list(self.proved.values())

    def _try(self, worth: float) -> None:
        self.lines[worth] = self.generation.tangent_at(self._scaled(worth), with_mixes=False)
        if not self.generation.mixes.pools:
            self.proved[worth] = self.lines[worth]

    def _prove(self, worth: float) -> None:
        self.lines[worth] = self.proved[worth] = self.generation.tangent_at(self._scaled(worth))

    def _scaled(self, worth: float) -> Duals:
        return scaled(self.duals, (1 + worth) / (1 + self.worth), self.generation.fleet.months)

    def _best_at(self, budget: float) -> float:
        return max(self.lines, key=lambda worth: (self.lines[worth].within(budget), worth))

    def _gain_frac(self, budget: float, known_usd: float) -> float:
        """How much more than is known the best line promises at a budget, as a share."""
        return _more_frac(self.lines[self._best_at(budget)].within(budget), known_usd)

    def _hope(self, budget: float, known_usd: float) -> tuple[float, float]:
        """How much more some scale may prove at a budget, as a share, and what a dollar is worth there."""
        worth = sorted(self.lines)
        usd = [self.lines[w].within(budget) for w in worth]
        best = int(np.argmax(usd))
        if best == len(worth) - 1:
            more = max(worth[-1], 1.0) * FIRST_STEP
            return (np.inf, more) if more <= MOST_WORTH else (0.0, worth[-1])
        most, where = max(_peak(worth, usd, k) for k in (best - 1, best) if k >= 0)
        return (_more_frac(most, max(usd[best], known_usd)), where)


def _more_frac(usd: float, than_usd: float) -> float:
    return (usd - than_usd) / max(abs(than_usd), 1e-9) if np.isfinite(than_usd) else np.inf


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
