"""Relax and fix: fix the plan of one slot after the other, by what the relaxed LP over all later slots costs then.

Work that may wait ties slots together, so a plan that is cheap for its slot may leave too little room for what waits.
With new prices after every decision, later slots find plans for the work left. Plans with room for all that the LP does
in a slot are always tried: at the end of a window, nothing else is feasible.
"""

from __future__ import annotations

import time

import numpy as np

from solvers.heuristics.slot_lp import SlotLp

TRIED, TRIED_WITH_ROOM = 4, 4
"""plans of a slot: those that the LP has most of, or all where there are no more, and the cheapest with room"""
DECIDED, NOTHING = 0.999, 1e-6
"""shares of a plan that the LP has decided on, and has not at all"""
AHEAD = 4
"""slots that have new plans before one is decided"""


def one_for_each_slot(together: SlotLp, until: float) -> list[int] | None:
    """The number of a plan for each slot, as the LP is left; None if time is up or limits forbid what is left.

    Where time is short, less is tried.
    """
    lp, began, slots = together.lp, time.monotonic(), len(together.slots)
    chosen: list[int] = []
    for s in range(slots):
        now = time.monotonic()
        short = s > 0 and (now - began) / s > (until - now) / (slots - s)
        x = lp.solve()
        if x is not None and together.add_what_pays(range(s, min(s + (1 if short else AHEAD), slots))):
            x = lp.solve()
        if x is None or now >= until:
            return None
        shares = together.shares(s, x)
        numbers = np.array(together.plans_of[s])
        decided = shares.max() >= DECIDED
        most = np.argsort(-shares, kind="stable")[: 1 if decided or short else TRIED]
        tried = numbers[most[(shares[most] > NOTHING) | (len(numbers) <= TRIED)]].tolist()
        if not decided:
            tried += [n for n in together.with_room(s, shares, 1 if short else TRIED_WITH_ROOM) if n not in tried]
        costs: dict[int, float] = {}
        for n in tried if len(tried) > 1 else ():
            together.decide(s, n)
            if lp.solve() is not None:
                costs[n] = lp.objective
        if len(tried) > 1 and not costs:
            return None
        chosen.append(min(costs, key=lambda n: costs[n]) if costs else tried[0])
        together.decide(s, chosen[s])
    return chosen if lp.solve() is not None else None
