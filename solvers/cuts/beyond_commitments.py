"""Separation of cuts about boxes beyond commitments, and those that prices need anyway
(problems/beyond_commitments.py).

In one offer and slot an LP solution says how often each workload uses how many GPUs. A mixture of whole plans with the
same shares buys at least so many boxes beyond the commitments.
"""

from __future__ import annotations

import numpy as np

from problems.beyond_commitments import ALWAYS, Beyond, Counts, boxes_beyond, each_alone, made_valid_beyond
from problems.fleet_problem import FleetProblem
from solvers.cuts.mixtures import SURE, Shares, cheapest_mixture

MOST_HELD = 16
"""commitments up to which it is asked what is bought beyond them: of many boxes few more or less are bought anyway"""


def always_beyond(fleet: FleetProblem) -> dict[tuple[str, str, int, int], Beyond]:
    """Rows for all offers with commitments that are decided: beyond them, each workload alone buys boxes by the hour.

    An LP seldom breaks them. But where commitments stand idle GPUs have no price, and without these rows any number of
    GPUs would have none.
    """
    rows: dict[tuple[str, str, int, int], Beyond] = {}
    for g in sorted(fleet.recipes_on):
        fewest, most = fleet.decided_commitments(g)
        held = fewest if most is None else most
        if not 0 < held <= MOST_HELD:
            continue
        box = fleet.offers[g].box  # mixes that are not written down may use more than any recipe that is
        counts = each_alone(box, held, {w: max(2 * n, box * (held + 2)) for w, n in fleet.largest_use[g].items()})
        for kind in ("in-use", "firm") if fleet.offers[g].spot_usd_per_h is not None else ("in-use",):
            for t in range(len(fleet.slot_hours)):
                rows[kind, g, t, ALWAYS] = Beyond(kind, g, t, counts, held, by_hour=most is not None)
    return rows


def counts_beyond(shares: Shares, can: Shares, box: int, held: int, enough: float = -np.inf) -> Counts:
    """The counts of boxes that add up to most at these shares [GPUs]; none if so many are enough for a mixture, or
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
