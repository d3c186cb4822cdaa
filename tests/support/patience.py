"""How long tests wait for what must happen: so long that no machine is too busy for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 600.0
Seen = TypeVar("Seen")


def wait_until(condition: Callable[[], Seen]) -> Seen:
    """What the condition gives once it is true."""
    until = time.monotonic() + PATIENCE_S
    while not (seen := condition()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
    return seen
