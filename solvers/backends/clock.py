"""Limits on the wall clock, and wishes to stop: work looks at both where it can end, and nothing strikes in between.

`check` raises Stopped where the time of a block is up, or where somebody wants all of it to end. It is called where
work may be given up: between rounds, cases and candidates, and while a solver is waited for. No signal raises anything.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from mmap import mmap
from types import FrameType

INTERRUPTED, OUT_OF_TIME = "interrupted", "the time limit was reached"
ASKED, STOPPABLE, FINISHING = range(3)
"""what `_flags` counts: wishes to stop, blocks that heed them, blocks that must not be given up"""


class Stopped(KeyboardInterrupt):
    """Work was given up where it looked: as somebody wishes, unless it says otherwise.

    It is a KeyboardInterrupt for those who call us from Python; a KeyboardInterrupt that is none is not ours.
    """


class TimeIsUp(Stopped):
    """Work was given up at its deadline."""

    def __init__(self, deadline: float) -> None:
        super().__init__(OUT_OF_TIME)
        self.deadline = deadline


def why_stopped(stop: Stopped) -> str:
    """What a stop says; one without words came from somebody."""
    return str(stop) or INTERRUPTED


@dataclass(frozen=True)
class Limit:
    """What a block of code is limited to."""

    deadline: float
    """[monotonic clock]"""

    @classmethod
    def of(cls, seconds: float | None) -> Limit:
        """So many seconds from now on; None: no limit."""
        return cls(float("inf") if seconds is None else time.monotonic() + max(0.0, seconds))

    @property
    def left_s(self) -> float:
        return self.deadline - time.monotonic()

    def ended(self, stop: BaseException) -> bool:
        """Whether this limit itself stopped the work, and not that of a larger task around it."""
        return isinstance(stop, TimeIsUp) and stop.deadline >= self.deadline


_NEVER = -1.0
"""the deadline of what is not given up"""
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))
_flags: bytearray | mmap = bytearray(3)


@contextmanager
def limited_to(seconds: float | None) -> Iterator[Limit]:
    """Past so many seconds `check` raises TimeIsUp in the block. Limits nest: the earliest deadline counts."""
    limit = Limit.of(seconds)
    before = _deadline.set(min(limit.deadline, _deadline.get()))
    try:
        yield limit
    finally:
        _deadline.reset(before)


def check() -> None:
    """Raise Stopped if this work is to end here: somebody wants that, or its time is up."""
    deadline = _deadline.get()
    if deadline == _NEVER:
        return
    if _flags[ASKED]:
        raise Stopped(INTERRUPTED)
    if time.monotonic() >= deadline:
        raise TimeIsUp(deadline)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Nothing in this block is given up: for what makes a result whole, or writes it."""
    before = _deadline.set(_NEVER)
    _flags[FINISHING] += 1
    try:
        yield
    finally:
        _flags[FINISHING] -= 1
        _deadline.reset(before)


def stop_is_asked() -> bool:
    """Whether somebody wants the work to end, as far as it heeds that."""
    return bool(_flags[ASKED])


def ask_to_stop(number: int = 0, frame: FrameType | None = None) -> None:
    """Let the next `check` end the work of this process. It can be the handler of a signal."""
    _flags[ASKED] = 1


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C asks to stop in this block, where it would raise KeyboardInterrupt anywhere.

    An application that handles Ctrl-C itself is left alone, and so are threads, which hear no signals.
    """
    here = threading.current_thread() is threading.main_thread()
    mine = here and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if mine:
        signal.signal(signal.SIGINT, ask_to_stop)
    _flags[STOPPABLE] += 1
    try:
        yield
    finally:
        _flags[STOPPABLE] -= 1
        if mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _flags[ASKED] = 0


def watched_through(flags: mmap) -> None:
    """Count what is asked, heeded and finished in memory that the process which watches this one shares."""
    global _flags
    _flags = flags
