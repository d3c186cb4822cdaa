"""Which rows about boxes beyond commitments an LP solution breaks (problems/beyond_commitments.py).

In one offer and slot an LP solution says how often each workload uses how many GPUs. A mixture of whole plans with the
same shares buys at least so many boxes beyond the commitments; the cheapest mixture is a small LP, whose dual is the
row that says so.
"""

from __future__ import annotations

import numpy as np

from problems.beyond_commitments import Counts, boxes_beyond, made_valid_beyond
from problems.model import Model
from solvers.solve import solve_lp

MOST_STATES = 20_000
"""sums of GPUs times ways to add to them, over all workloads, up to which the LP is solved"""
SURE = 0.98
"""share of one count of GPUs, or remainder of a box, from which on a workload is taken to have that one"""
SOME = 1e-5
"""share of a count or remainder from which on it is there"""


def counts_beyond(shares: Counts, can: Counts, box: int, held: int) -> Counts:
    """The counts of boxes that add up to most at these shares [GPUs]; none where too much is undecided."""
    sure = {w: int(share.argmax()) for w, share in shares.items() if share.max() >= SURE}
    unsure = {w: share for w, share in shares.items() if w not in sure}
    found = _most(unsure, sum(sure.values()), box, held)
    if found is None:
        return {}
    for w, gpus in sure.items():
        found[w] = np.where(np.arange(len(shares[w])) == gpus, 0.0, -np.inf)
    either = {w: can[w] | (found[w] > -np.inf) for w in shares}
    return made_valid_beyond({w: found[w] for w in shares}, either, box, held)


def surely_enough(shares: Counts, box: int, held: int) -> float:
    """What is bought beyond commitments if every workload decides by itself: no less than the cheapest mixture."""
    together = np.ones(1)
    for share in shares.values():
        together = np.convolve(together, share)
    return float(together @ boxes_beyond(box, held, len(together) - 1))


def _most(shares: Counts, sure: int, box: int, held: int) -> Counts | None:
    """Counts of the GPUs that workloads use in the LP.

    max sum_w,n shares[w][n] count[w][n]  with  together[k][s] >= together[k-1][s-n] + count[k][n]  for all k, n, s
    and together[last][s] no more than the boxes that s GPUs, and those that are sure, begin beyond the commitments.
    """
    if not shares:
        return {}
    used = [np.flatnonzero(share > SOME) for share in shares.values()]
    sums = [np.zeros(1, dtype=int)]
    for own in used:
        sums.append(np.unique(sums[-1][:, None] + own[None, :]))
    if sum(len(before) * len(own) for before, own in zip(sums, used, strict=False)) > MOST_STATES:
        return None
    beyond = boxes_beyond(box, held, sure + int(sums[-1].max()))
    count, together, n = [], [], 0
    for own, after in zip(used, sums[1:], strict=True):
        count.append(n + np.arange(len(own)))
        together.append(n + len(own) + np.arange(len(after)))
        n += len(own) + len(after)
    cost, upper = np.zeros(n), np.full(n, beyond.max() + 1.0)
    upper[together[-1]] = beyond[sure + sums[-1]]
    columns, values, lengths = [], [], []
    for k, (own, share) in enumerate(zip(used, shares.values(), strict=True)):
        cost[count[k]] = -share[own]
        for at, gpus in zip(count[k].tolist(), own.tolist(), strict=True):
            to = together[k][np.searchsorted(sums[k + 1], sums[k] + gpus)]
            terms = [to, np.full(len(to), at)] if k == 0 else [to, np.full(len(to), at), together[k - 1]]
            columns.append(np.stack(terms, axis=1).ravel())
            values.append(np.tile([1.0, -1.0, -1.0][: len(terms)], len(to)))
            lengths += [len(terms)] * len(to)
    model = Model(
        cost=cost,
        lower=np.full(n, -beyond.max() - 1.0),
        upper=upper,
        integer=np.zeros(n, dtype=bool),
        starts=np.r_[0, np.cumsum(lengths)],
        indices=np.concatenate(columns),
        values=np.concatenate(values),
        row_lower=np.zeros(len(lengths)),
        row_upper=np.full(len(lengths), np.inf),
        column_keys=tuple(("column", k) for k in range(n)),
        row_keys=tuple(("row", k) for k in range(len(lengths))),
    )
    lp = solve_lp(model)
    if lp.x is None:
        return None
    found: Counts = {}
    for (w, share), own, columns_of in zip(shares.items(), used, count, strict=True):
        found[w] = np.full(len(share), -np.inf)
        found[w][own] = lp.x[columns_of]
    return found
