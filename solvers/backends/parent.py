"""Processes that end with the one that started them, however that one ends."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

TO_WIND_DOWN_S = 2.0
"""for an interrupted process to end the solver that it runs and to clear its files"""
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


def end_this_process(number: signal.Signals = signal.SIGINT) -> None:
    """Interrupt the main thread from another one, and exit if it does not end by itself.

    `number` is a signal that raises KeyboardInterrupt here.
    """
    if hasattr(signal, "pthread_kill"):
        # Unlike interrupt_main, it wakes the thread from whatever it waits for.
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(number)
    time.sleep(TO_WIND_DOWN_S)
    os._exit(1)


def exit_with(parent: int) -> None:
    """Exit soon after the parent has; for a process with nothing to clear."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
