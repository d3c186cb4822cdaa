"""How functions are compiled by numba.

Python calls what takes long for a part of its work at a time, and looks at the clock in between. Machine code is kept:
only what serves a plan for the first time on a machine compiles it, for 15 seconds and more.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from numba import njit
from numba.core.event import Event, Listener, install_listener

compiled = njit(cache=True)
inlined = njit(cache=True, inline="always")
"""for those that compiled ones call in every step"""


class NotCompiled(Exception):
    """A function has no machine code on this machine yet."""


class _Refusal(Listener):
    def on_start(self, event: Event) -> None:
        raise NotCompiled

    def on_end(self, event: Event) -> None: ...


def as_compiled_before() -> AbstractContextManager[object]:
    """Raise NotCompiled in this block where something would be compiled."""
    found: AbstractContextManager[object] = install_listener("numba:compile", _Refusal())
    return found
