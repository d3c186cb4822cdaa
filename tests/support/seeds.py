"""Random cases in turn: a run takes a part of them, another part every day, so that none is left out for long."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from typing import TypeVar

T = TypeVar("T")
ALL = "all"
TURN = os.environ.setdefault("FLEETPLAN_SEEDS", str(date.today().toordinal()))
"""a number, which other processes of the same run inherit, or `all`"""


def in_turn(cases: Sequence[T], parts: int = 3) -> list[T]:
    """One of so many parts of some seeds or cases, each spread over all of them."""
    return list(cases) if TURN == ALL else list(cases[int(TURN) % parts :: parts])
