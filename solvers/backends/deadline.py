"""A limit on the wall clock that holds whatever is going on: at the deadline the main thread is interrupted.

Searches end by themselves when their time is up; this is for everything that cannot look at a clock, and for machines
that are too busy for any forecast. Signals reach the main thread alone: in other threads a limit is left to the search.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

AT_ONCE_S, AGAIN_S = 1e-3, 0.05
INTERRUPTED, OUT_OF_TIME = "interrupted", "the time limit was reached"


class TimeIsUp(KeyboardInterrupt):
    """An interruption by the clock: whatever cleans up after Ctrl-C cleans up after this."""

    def __init__(self, deadline: float) -> None:
        super().__init__(OUT_OF_TIME)
        self.deadline = deadline


def why_stopped(stop: KeyboardInterrupt) -> str:
    """What the interruption says, as that of the clock does; one without words came from somebody."""
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
        """Whether an interruption is this limit's own, and not that of a larger task around it."""
        return isinstance(stop, TimeIsUp) and stop.deadline >= self.deadline


def can_interrupt() -> bool:
    """Whether a limit can end what does not look at a clock: in the main thread, where there are signals."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def limited_to(seconds: float | None) -> Iterator[Limit]:
    """Raise TimeIsUp in the block after so many seconds. Limits nest: the earliest deadline counts."""
    limit = Limit.of(seconds)
    if limit.deadline == float("inf") or not can_interrupt():
        yield limit
        return
    around = signal.getsignal(signal.SIGALRM)
    outer = around.deadline if isinstance(around, _Alarm) else float("inf")
    alarm = _Alarm(min(limit.deadline, outer))
    signal.signal(signal.SIGALRM, alarm)
    alarm.set()
    delivered = False
    try:
        yield limit
    except TimeIsUp as stop:
        delivered = stop.deadline >= outer
        raise
    finally:
        alarm.over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, around)
        if isinstance(around, _Alarm) and not delivered:
            around.set()


class _Alarm:
    """The handler of the signal, which knows its deadline."""

    def __init__(self, deadline: float) -> None:
        self.deadline, self.over = deadline, False

    def set(self) -> None:
        if not self.over:
            signal.setitimer(signal.ITIMER_REAL, max(AT_ONCE_S, self.deadline - time.monotonic()))

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.over:
            raise TimeIsUp(self.deadline)


def repeat_what_is_swallowed() -> None:
    """Let interruptions strike again that Python swallows: those in a weakref's callback or in `__del__`.

    An import runs such callbacks, so a Ctrl-C or the clock would be lost now and then.
    """
    if not isinstance(sys.unraisablehook, _Repeating):
        sys.unraisablehook = _Repeating(sys.unraisablehook)


class _Repeating:
    """What is called for an exception that nobody can catch."""

    def __init__(self, usual: Callable[[sys.UnraisableHookArgs], Any]) -> None:
        self.usual = usual

    def __call__(self, unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self.usual(unraisable)
        elif isinstance(unraisable.exc_value, TimeIsUp):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:  # from another thread, since what is raised here is swallowed as well
            repeated = threading.Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
            repeated.daemon = True
            repeated.start()


class Held:
    """Interruptions that wait, and how to let them in for a while."""

    def __init__(self) -> None:
        self.came: list[KeyboardInterrupt] = []
        """while they were held or attempted, the first first"""
        self._numbers: list[int] = []
        here = threading.current_thread() is threading.main_thread()
        handlers = {int(s): signal.getsignal(s) for s in _INTERRUPTIONS} if here else {}
        self._before = {s: handler for s, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}

    def hold(self) -> None:
        for s in self._before:
            signal.signal(s, self._keep)

    def release(self) -> None:
        for s, handler in self._before.items():
            signal.signal(s, handler)

    def take_effect(self) -> None:
        """Release them, and do now what they would have done."""
        self.release()
        numbers, self._numbers = self._numbers, []
        for number in numbers:
            signal.raise_signal(number)

    @contextmanager
    def let_in(self) -> Iterator[None]:
        """Interruptions take effect at once in this block."""
        try:
            self.release()
            yield
        finally:
            self.hold()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Interruptions end this block at once, and what follows it goes on."""
        try:
            with self.let_in():
                yield
        except KeyboardInterrupt as stop:
            self.came.append(stop)

    @property
    def by_somebody(self) -> bool:
        """Whether a person or another process interrupted, not the clock."""
        return any(not isinstance(stop, TimeIsUp) for stop in self.came)

    def _keep(self, number: int, frame: FrameType | None) -> None:
        before = self._before[number]
        self._numbers.append(number)
        self.came.append(TimeIsUp(before.deadline) if isinstance(before, _Alarm) else KeyboardInterrupt())


@contextmanager
def interruptions_held() -> Iterator[Held]:
    """Hold Ctrl-C, SIGTERM and the clock until the block is done; then they are dropped, except in `came`."""
    held = Held()
    held.hold()
    try:
        yield held
    finally:
        held.release()


@contextmanager
def interruptions_deferred() -> Iterator[Held]:
    """Hold interruptions until the block is done, or until they are let in.

    One that struck inside Popen would leave a process running; inside the import of an extension it would look like an
    error of that import.
    """
    held = Held()
    held.hold()
    try:
        yield held
    finally:
        held.take_effect()


_INTERRUPTIONS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name))
