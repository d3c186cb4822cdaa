"""Rolling windows: choose the plans of a few consecutive slots again by a mixed-integer program; the others stay fixed.

Relax and fix (solvers/heuristics/relax_and_fix.py) may leave work waiting for which later slots have room in another
box only. A program over a window of slots sees both, and its LP is tight because its columns are integer plans of
slots. At the prices of the slot LP, a chosen plan costs more than the best plan of its slot. The window with the
largest excess comes first, and again once its slots have changed. Narrow windows are solved quickly and soon find
nothing; wider ones follow, and may run out of time.
"""

from __future__ import annotations

import time
from itertools import cycle

import numpy as np

from solvers.backends.highs import solve_part
from solvers.heuristics.slot_lp import SlotLp

WIDTHS = (4, 8, 16)
"""slots of a window"""
IN_VAIN = 2
"""windows of one width in a row without success, after which the next width follows"""
WINDOW_S = 0.5
"""time limit of a window"""
NEAR_FRAC = 1e-3
"""share of the cost above the LP up to which nothing is chosen again"""


def chosen_in_windows(together: SlotLp, chosen: list[int], until: float) -> list[int]:
    """The number of a plan for each slot, together no more expensive than those chosen; the LP is left that way."""
    chosen, more = list(chosen), set[int]()
    windows = {width: _windows(len(chosen), width) for width in WIDTHS}
    left = {width: set(range(len(windows[width]))) for width in WIDTHS}
    widths = cycle(WIDTHS)
    while any(left.values()):
        width, in_vain = next(widths), 0
        while left[width] and in_vain < IN_VAIN:
            beyond = together.beyond_the_best(chosen)
            now = max(left[width], key=lambda k: float(beyond[windows[width][k]].sum()))
            some = windows[width][now]
            together.add_cheapest([s for s in some if s not in more])
            more.update(some)
            for s in some:
                together.decide(s, chosen[s])
            x, left_s = together.lp.solve(), until - time.monotonic()
            if x is None or left_s <= 0 or together.lp.objective <= (1 + NEAR_FRAC) * together.usd:
                return chosen
            then = solve_part(together.program(), together.plans_outside(some), x, min(WINDOW_S, left_s))
            most_of = {s: int(np.argmax(together.shares(s, then))) for s in some} if then is not None else {}
            changed = {s for s, n in most_of.items() if together.plans_of[s][n] != chosen[s]}
            for s in changed:
                chosen[s] = together.plans_of[s][most_of[s]]
                together.decide(s, chosen[s])
            in_vain = 0 if changed else in_vain + 1
            for other in WIDTHS:
                left[other] |= {k for k, own in enumerate(windows[other]) if not changed.isdisjoint(own)}
            left[width].discard(now)
    return chosen


def _windows(slots: int, width: int) -> list[list[int]]:
    return [[s % slots for s in range(first, first + min(width, slots))] for first in range(0, slots, width // 2)]
