"""The independent check: are the figures of a plan true, and does it hold? It reads only the plan's JSON.

Figures follow from the case and from what was decided: the account works them out again, and every leaf that differs is
refused. Whether the plan holds is for the rules of this room: rates, staffing, packing, routes, limits and promises, in
plain arithmetic, which share no code with the rules of the optimizer (problems/, solvers/). What a replica can do comes
from the performance model, asked anew, and why something is rejected from the screening of the menu. What nothing can
work out again is listed in remarks.py. An empty list means that the plan holds.
"""

from __future__ import annotations

from typing import Any

from planner.checker.figures import in_words
from planner.checker.horizon import horizon_problems
from planner.checker.one_block import block_problems
from planner.plan.saved import has_quarters


def check_plan(plan: Any, screened: bool = False) -> list[str]:
    """Everything that is wrong with a plan, of one block or of several; whatever is given, never an exception.

    The menu is screened again for the reasons against what cannot serve; who has just done so, or rests nothing on
    them, says `screened`.
    """
    return in_words((horizon_problems if has_quarters(plan) else block_problems)(plan, screened))
