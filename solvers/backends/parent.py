"""Processes that end with the one that started them, however that one ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from solvers.backends.clock import ask_to_stop

TO_WIND_DOWN_S = 2.0
"""for a process that is asked to stop to end the solver that it runs and to clear its files"""
LOOK_EVERY_S = 0.5
_PR_SET_PDEATHSIG = 1


def _linux_prctl() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        return ctypes.PyDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None


_prctl = _linux_prctl()


def killed_with_parent() -> Callable[[], None] | None:
    """What a new process does before it becomes a solver, so that the kernel kills it when this process is gone.

    None if the system cannot do that: there a solver ends by its own limits.
    """
    if _prctl is None:
        return None
    parent = os.getpid()

    def ask() -> None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # it was gone before the kernel was asked
            os._exit(1)

    return ask


def die_with(parent: int) -> None:
    """Let the kernel kill this process when that one is gone; elsewhere it exits soon after."""
    if _prctl is None:
        exit_with(parent)
        return
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def end_this_process() -> None:
    """Ask the work of this process to stop, from a thread that has nothing else to do, and exit if it goes on."""
    ask_to_stop()
    time.sleep(TO_WIND_DOWN_S)
    os._exit(1)


def exit_with(parent: int) -> None:
    """Exit soon after the parent has; for a process with nothing to clear."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
