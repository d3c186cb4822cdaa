"""One plan for each slot: slots are decided one after the other, by what the LP over plans of slots costs then.

Work that may wait ties slots together, so a plan that is cheap for its slot may leave too little room for what waits.
With new prices after every decision the slots that follow find plans for what is left to do. Those with room for all
that the LP does in a slot are always tried: where a window ends, nothing else will do. In the end a few slots are
decided again while the others stay.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from solvers.slots_together import SlotsTogether

TRIED, TRIED_WITH_ROOM = 4, 4
"""plans of a slot: those that the LP has most of, or all where there are no more, and the cheapest with room"""
DECIDED, NOTHING = 0.999, 1e-6
"""shares of a plan that the LP has decided on, and has not at all"""
AHEAD = 4
"""slots that have new plans before one is decided"""
AGAIN, IN_VAIN = 8, 2
"""slots that are decided again together, and times that this saved nothing, after which it ends"""
AGAIN_FRAC = 0.5
"""of the time that it took to decide them all, for that"""
NEAR_FRAC = 1e-3
"""of the cost, above the LP, up to which nothing is decided again"""


def one_for_each_slot(together: SlotsTogether, until: float) -> list[int] | None:
    """The number of a plan for each slot, as the LP is left; None where time is up or limits forbid what is left."""
    slots = len(together.slots)
    chosen: dict[int, int] = {}
    began = time.monotonic()
    usd = _decided(together, list(range(slots)), chosen, until)
    if usd == np.inf:
        return None
    now = time.monotonic()
    until = min(until, now + AGAIN_FRAC * (now - began))
    first, in_vain = slots - AGAIN // 2, 0
    while in_vain < IN_VAIN and usd > (1 + NEAR_FRAC) * together.usd and time.monotonic() < until:
        some = list(dict.fromkeys(s % slots for s in range(first, first + AGAIN)))
        before = {s: chosen[s] for s in some}
        for s in some:
            together.lp.decide([together.column(n) for n in together.plans_of[s]], 0.0, 1.0)
        then = _decided(together, some, chosen, until)
        if then < usd * (1 - 1e-9):
            usd, in_vain = then, 0
        else:
            in_vain += 1
            for s, n in before.items():
                _decide(together, s, n)
            chosen |= before
        first = (first - AGAIN) % slots
    return [chosen[s] for s in range(slots)]


def _decided(together: SlotsTogether, slots: list[int], chosen: dict[int, int], until: float) -> float:
    """Decide these slots; what the LP costs then, infinite where time is up or limits forbid what is left.

    Where time is short, less is tried.
    """
    lp, began = together.lp, time.monotonic()
    for k, s in enumerate(slots):
        now = time.monotonic()
        short = k > 0 and (now - began) / k > (until - now) / (len(slots) - k)
        x = lp.solve()
        if x is not None and together.add_what_pays(slots[k : k + (1 if short else AHEAD)]):
            x = lp.solve()
        if x is None or now >= until:
            return np.inf
        shares = together.shares(s, x)
        numbers = np.array(together.plans_of[s])
        decided = shares.max() >= DECIDED
        most = np.argsort(-shares, kind="stable")[: 1 if decided or short else TRIED]
        tried = numbers[most[(shares[most] > NOTHING) | (len(numbers) <= TRIED)]].tolist()
        if not decided:
            tried += [n for n in together.with_room(s, shares, 1 if short else TRIED_WITH_ROOM) if n not in tried]
        costs: dict[int, float] = {}
        for n in tried if len(tried) > 1 else ():
            _decide(together, s, n)
            if lp.solve() is not None:
                costs[n] = lp.objective
        if len(tried) > 1 and not costs:
            return np.inf
        chosen[s] = min(costs, key=lambda n: costs[n]) if costs else tried[0]
        _decide(together, s, chosen[s])
    return lp.objective if lp.solve() is not None else np.inf


def _decide(together: SlotsTogether, s: int, n: int) -> None:
    """A slot has this plan and no other."""
    together.lp.decide([together.column(other) for other in together.plans_of[s]], 0.0, 0.0)
    together.lp.decide([together.column(n)], 1.0, 1.0)
