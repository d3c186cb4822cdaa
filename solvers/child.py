"""Run a solver in a child process that cannot outlive its limit, its parent's Ctrl-C or an error."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def grace_s(time_limit_s: float) -> float:
    """How long past its own limit a solver may take to wind down before it is killed."""
    return max(2.0, 0.1 * time_limit_s)


def run_child(argv: Sequence[str], time_limit_s: float | None, on_line: Callable[[str], None]) -> tuple[int, bool]:
    """Feed each output line to `on_line`; return the exit code and whether the watchdog had to kill it."""
    killed = threading.Event()

    def expire() -> None:
        killed.set()
        _kill(process)

    watchdog = None
    with _signals_wait() as raise_pending:
        process = _started(argv)
        try:
            raise_pending()
        except BaseException:
            _kill(process)
            process.wait()
            raise
    try:
        if time_limit_s is not None:
            watchdog = threading.Timer(time_limit_s + grace_s(time_limit_s), expire)
            watchdog.daemon = True
            watchdog.start()
        assert process.stdout is not None
        for line in process.stdout:
            on_line(line.rstrip("\n"))
        returncode = process.wait()
    finally:
        if watchdog is not None:
            watchdog.cancel()
        _kill(process)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return returncode, killed.is_set()


def _started(argv: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # Its own session: a terminal's Ctrl-C reaches only us, and one signal ends all of it.
        start_new_session=True,
    )


@contextmanager
def _signals_wait() -> Iterator[Callable[[], None]]:
    """Hold SIGINT and SIGTERM back while a process starts: one that struck inside Popen would leave it running."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    pending: list[int] = []
    held = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def raise_pending() -> None:
        for number, handler in held.items():
            signal.signal(number, handler)
        for number in pending:
            signal.raise_signal(number)
        pending.clear()

    for number in held:
        signal.signal(number, lambda received, frame: pending.append(received))
    try:
        yield raise_pending
    finally:
        raise_pending()


def _kill(process: subprocess.Popen[Any]) -> None:
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
    else:
        process.kill()
