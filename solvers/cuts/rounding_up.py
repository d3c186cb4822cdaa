"""Separation of cuts about boxes that several workloads share (problems/rounding_up.py).

In one offer and slot an LP solution says how often each workload leaves which remainders of a box, of its GPUs in use
and of the firm ones. A mixture of whole plans with the same shares begins at least so many boxes of both kinds.
"""

from __future__ import annotations

import numpy as np

from problems.rounding_up import Parts, boxes_begun, differences, made_valid, weighed
from solvers.cuts.mixtures import SURE, Shares, cheapest_mixture

MOST_UNDECIDED = 24
"""workloads with several remainders in an offer and slot; where more share boxes they fill them anyway"""
WEIGHTS = 1e-4
"""weights of boxes that are not spot are whole multiples of this"""


def parts_begun(
    shares: Shares, can: Shares, box: int, spare: np.ndarray, short_of: float
) -> tuple[Parts, float] | None:
    """The parts that the LP violates most, and the weight of boxes that are not spot; None if it breaks none by more.

    Shares are by remainder in use x box + firm remainder. `spare` are the boxes that are bought beyond those that GPUs
    fill, all of them and those that are not spot. Workloads that leave one remainder for sure only shift the sum; what
    else they may leave is filled in afterwards.
    """
    none = np.zeros(box)
    begun = np.stack([weighed(boxes_begun(box), none, 0.0).ravel(), weighed(none, boxes_begun(box), 1.0).ravel()])
    if (begun @ each_by_itself(shares, box) <= spare + short_of).all():
        return None
    sure = {w: int(share.argmax()) for w, share in shares.items() if share.max() >= SURE}
    unsure = {w: share for w, share in shares.items() if w not in sure}
    if len(unsure) > MOST_UNDECIDED:
        return None

    def plus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        remainders: np.ndarray = (a // box + b // box) % box * box + (a + b) % box
        return remainders

    start = 0
    for remainders in sure.values():
        start = int(plus(np.array(start), np.array(remainders)))
    beyond = {w: np.where(np.arange(box**2) == at, 0.0, -np.inf) for w, at in sure.items()}
    short = begun[:, start] - spare
    weight = float(short[1] > short[0])
    if unsure:
        mixture = cheapest_mixture(unsure, start, plus, begun, spare)
        if mixture is None or mixture.short <= short_of:
            return None
        weight = round(float(mixture.weights[1]) / WEIGHTS) * WEIGHTS
        beyond |= mixture.prices
    linear = weighed(np.arange(box) / box, np.arange(box) / box, weight)
    either = {w: can[w] | (beyond[w] > -np.inf) for w in shares}
    parts = made_valid({w: beyond[w].reshape(box, box) + linear for w in shares}, either, box, weight)
    reached = sum(float(share @ (parts[w] - linear).ravel()) for w, share in shares.items())
    return (parts, weight) if reached > (1 - weight) * spare[0] + weight * spare[1] + short_of else None


def each_by_itself(shares: Shares, box: int) -> np.ndarray:
    """How often remainders have which sum if every workload decides by itself: a mixture, but not the cheapest."""
    sums = np.where(np.arange(box**2) == 0, 1.0, 0.0)
    for share in shares.values():
        sums = sums[differences(box)] @ share
    return sums
