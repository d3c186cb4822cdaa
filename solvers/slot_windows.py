"""One plan for each slot, chosen better: a few slots in a row at a time, among many plans of each, the others stay.

Slots that are decided one after the other (solvers/slot_choice.py) leave work waiting for which later ones have room in
another box only. A mixed-integer program over a window of slots sees both, and as its columns are whole plans of slots,
its LP says well what they cost. At the prices of the LP over plans of all slots a chosen plan costs something more than
the best of its slot. The window where that is most comes first, and again once slots of it have changed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from solvers.solve import solve_part

if TYPE_CHECKING:
    from solvers.slots_together import SlotsTogether

WIDTHS = (4, 8, 16)
"""slots of a window; the wider ones when others find nothing more"""
WINDOW_S = 0.5
"""for one of them"""
NEAR_FRAC = 1e-3
"""of the cost, above the LP, up to which nothing is chosen again"""


def chosen_in_windows(together: SlotsTogether, chosen: list[int], until: float) -> list[int]:
    """The number of a plan for each slot, which are no dearer than those chosen; so is the LP left."""
    chosen, more = list(chosen), set[int]()
    for width in WIDTHS:
        windows = _windows(len(chosen), width)
        left = set(range(len(windows)))
        while left:
            beyond = together.beyond_the_best(chosen)
            now = max(left, key=lambda k: float(beyond[windows[k]].sum()))
            some = windows[now]
            together.add_cheapest([s for s in some if s not in more])
            more.update(some)
            for s in some:
                together.decide(s, chosen[s])
            x, left_s = together.lp.solve(), until - time.monotonic()
            if x is None or left_s <= 0 or together.lp.objective <= (1 + NEAR_FRAC) * together.usd:
                return chosen
            left.remove(now)
            then = solve_part(together.program(), together.plans_outside(some), x, min(WINDOW_S, left_s))
            if then is None:
                continue
            changed = set()
            for s in some:
                number = together.plans_of[s][int(np.argmax(together.shares(s, then)))]
                if number != chosen[s]:
                    changed.add(s)
                    chosen[s] = number
                    together.decide(s, number)
            left |= {k for k, window in enumerate(windows) if k != now and not changed.isdisjoint(window)}
    return chosen


def _windows(slots: int, width: int) -> list[list[int]]:
    return [[s % slots for s in range(first, first + min(width, slots))] for first in range(0, slots, width // 2)]
