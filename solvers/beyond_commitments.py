"""Which rows about boxes beyond commitments an LP solution breaks (problems/beyond_commitments.py).

In one offer and slot an LP solution says how often each workload uses how many GPUs. A mixture of whole plans with the
same shares buys at least so many boxes beyond the commitments.
"""

from __future__ import annotations

import numpy as np

from problems.beyond_commitments import Counts, boxes_beyond, made_valid_beyond
from solvers.mixtures import SURE, Shares, cheapest_mixture


def counts_beyond(shares: Shares, can: Shares, box: int, held: int, enough: float = -np.inf) -> Counts:
    """The counts of boxes that add up to most at these shares [GPUs]; none where so many are enough for a mixture, or
    too much is undecided.
    """
    sure = {w: int(share.argmax()) for w, share in shares.items() if share.max() >= SURE}
    unsure = {w: share for w, share in shares.items() if w not in sure}
    counts = {w: np.where(np.arange(len(shares[w])) == gpus, 0.0, -np.inf) for w, gpus in sure.items()}
    if unsure:
        needs = boxes_beyond(box, held, sum(sure.values()) + sum(map(len, unsure.values())))[None, :]
        mixture = cheapest_mixture(unsure, sum(sure.values()), np.add, needs, np.zeros(1))
        if mixture is None or mixture.short <= enough:
            return {}
        counts |= mixture.prices
    either = {w: can[w] | (counts[w] > -np.inf) for w in shares}
    return made_valid_beyond({w: counts[w] for w in shares}, either, box, held)


def surely_enough(shares: Shares, box: int, held: int) -> float:
    """What is bought beyond commitments if every workload decides by itself: no less than the cheapest mixture."""
    together = np.ones(1)
    for share in shares.values():
        together = np.convolve(together, share)
    return float(together @ boxes_beyond(box, held, len(together) - 1))
