"""The separation LP: the cheapest mixture of integer plans with given shares, and the dual value of each share.

In one offer and slot an LP solution says how often each workload uses what. A plan is one choice for every workload;
what it needs depends on the sum of the choices alone. So mixtures are flows: from each sum of the first workloads to
those with one more, in all as much over a choice as its share. The prices of shares say what every whole plan needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from problems.model import Model
from solvers.backends.highs import solve_lp

SURE = 0.98
"""share of one choice from which on a workload is taken to have that one"""
SOME = 1e-5
"""share of a choice from which on it is there"""
MOST_WAYS = 20_000
"""sums times choices to add to them, over all workloads, up to which the LP is solved"""
FAR = 1e4
"""more boxes than anybody is short of"""

Shares = Mapping[str, np.ndarray]
"""by workload [choice]"""
Plus = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Mixture:
    """What the cheapest mixture needs."""

    short: float
    """beyond what there is, of whatever it lacks most"""
    weights: np.ndarray
    """how much each need counts in that; together one [need]"""
    prices: dict[str, np.ndarray]
    """what each share adds to the needs so weighed; -inf where nothing is said [choice]"""


def cheapest_mixture(shares: Shares, start: int, plus: Plus, needs: np.ndarray, has: np.ndarray) -> Mixture | None:
    """Choices are numbers that are added up, from a start; needs are by sum [need, sum]. None: there are too many ways.

    min short  with  short >= sum_s needs[k,s] flow to s - has[k]  for all needs k
    """
    shares = _few_sums_first(shares, start, plus)
    used = [np.flatnonzero(share > SOME) for share in shares.values()]
    sums = [np.array([start])]
    ways = 0
    for own in used:
        ways += len(sums[-1]) * len(own)
        if ways > MOST_WAYS:
            return None
        sums.append(_different(plus(sums[-1][:, None], own[None, :])))
    share_rows, sum_rows, need_rows = _numbered([used, sums[1:-1], [np.arange(len(needs))]])
    program = _Program()
    program.enter(need_rows[0], np.zeros(1, dtype=int), np.ones(1))
    columns = 1
    for k, own in enumerate(used):
        flows = columns + np.arange(len(sums[k]) * len(own)).reshape(len(sums[k]), len(own))
        columns += flows.size
        program.enter(share_rows[k][None, :], flows, np.ones(1))
        if k:
            program.enter(sum_rows[k - 1][:, None], flows, -np.ones(1))
        to = plus(sums[k][:, None], own[None, :])
        if k < len(used) - 1:
            program.enter(sum_rows[k][np.searchsorted(sums[k + 1], to)], flows, np.ones(1))
        else:
            for row, need in zip(need_rows[0], needs, strict=True):
                program.enter(np.array([row]), flows, -need[to])
    exactly = np.concatenate([share[own] / share[own].sum() for share, own in zip(shares.values(), used, strict=True)])
    kept = np.zeros(sum(map(len, sum_rows)))
    lower, upper = np.r_[exactly, kept, -has], np.r_[exactly, kept, np.full(len(has), np.inf)]
    lp = solve_lp(program.model(columns, lower, upper), presolve=False)  # so small that it takes longer with it
    if lp.objective is None or lp.row_duals is None:
        return None
    prices = {w: np.full(len(share), -np.inf) for w, share in shares.items()}
    for own, rows, price in zip(used, share_rows, prices.values(), strict=True):
        price[own] = lp.row_duals[rows]
    return Mixture(lp.objective, np.clip(lp.row_duals[need_rows[0]], 0.0, 1.0), prices)


def _few_sums_first(shares: Shares, start: int, plus: Plus) -> Shares:
    """The shares in an order that keeps the number of sums small as long as possible: it decides the size of the LP."""
    sums, left = np.array([start]), {w: np.flatnonzero(share > SOME) for w, share in shares.items()}
    order: list[str] = []
    while left:
        fewest, first = np.array([]), ""
        for w in sorted(left, key=lambda w: len(left[w])):
            if first and len(left[w]) >= len(fewest):
                break  # there are no fewer sums than choices
            then = _different(plus(sums[:, None], left[w][None, :]))
            if not first or len(then) < len(fewest):
                fewest, first = then, w
        order.append(first)
        sums = fewest
        del left[first]
    return {w: shares[w] for w in order}


def _different(numbers: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.bincount(numbers.ravel()))


def _numbered(families: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """Row numbers for each of some things, one family after the other."""
    numbers: list[list[np.ndarray]] = []
    n = 0
    for family in families:
        numbers.append([])
        for things in family:
            numbers[-1].append(n + np.arange(len(things)))
            n += len(things)
    return numbers


class _Program:
    """Entries of a program whose first column is what is short; the others are flows."""

    def __init__(self) -> None:
        self.entries: list[list[np.ndarray]] = []

    def enter(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
        self.entries.append([part.ravel() for part in np.broadcast_arrays(rows, columns, values)])

    def model(self, columns: int, lower: np.ndarray, upper: np.ndarray) -> Model:
        row, column, value = (np.concatenate(part) for part in zip(*self.entries, strict=True))
        order, first = np.argsort(row, kind="stable"), np.arange(columns) == 0
        return Model(
            cost=first.astype(float),
            lower=np.where(first, -FAR, 0.0),
            upper=np.where(first, FAR, 1.0),
            integer=np.zeros(columns, dtype=bool),
            starts=np.searchsorted(row[order], np.arange(len(lower) + 1)),
            indices=column[order],
            values=value[order],
            row_lower=lower,
            row_upper=upper,
            column_keys=tuple(("column", k) for k in range(columns)),
            row_keys=tuple(("row", k) for k in range(len(lower))),
        )
