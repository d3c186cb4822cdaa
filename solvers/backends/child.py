"""Run a solver in a child process that cannot outlive its limit, its parent, a wish to stop or an error."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import IO, Any

from solvers.backends.clock import check
from solvers.backends.parent import killed_with_parent
from solvers.backends.trouble import SolverMissing

LOOK_EVERY_S = 0.1
"""at the clock, while the solver says nothing"""


def grace_s(time_limit_s: float) -> float:
    """How long past its own limit a solver may take to wind down before it is ended."""
    return max(2.0, 0.1 * time_limit_s)


def late_after_s(time_limit_s: float) -> float:
    """How long after its start a solver with this limit has to be ended."""
    return time_limit_s + grace_s(time_limit_s)


def run_child(
    argv: Sequence[str],
    time_limit_s: float | None,
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> tuple[int, bool]:
    """Feed each output line to `on_line`; return the exit code and whether it had to be killed for its limit."""
    latest = float("inf") if time_limit_s is None else time.monotonic() + late_after_s(time_limit_s)
    check()
    process = _started(argv, environment)
    lines: SimpleQueue[str | None] = SimpleQueue()
    assert process.stdout is not None
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    killed = False
    try:
        while True:
            with suppress(Empty):
                line = lines.get(timeout=LOOK_EVERY_S)
                if line is None:
                    break
                on_line(line)
            check()
            if not killed and time.monotonic() >= latest:
                killed = True
                _kill(process)
        return process.wait(), killed
    finally:
        _kill(process)
        process.wait()


def _read(output: IO[str], lines: SimpleQueue[str | None]) -> None:
    """Every line, and None at the end."""
    with output:
        for line in output:
            lines.put(line.rstrip("\n"))
    lines.put(None)


def _started(argv: Sequence[str], environment: Mapping[str, str] | None) -> subprocess.Popen[str]:
    try:
        with warnings.catch_warnings():
            # Newer versions of Python warn of locks that other threads hold: `killed_with_parent` takes none.
            warnings.filterwarnings("ignore", ".*multi-threaded.*", DeprecationWarning)
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                text=True,
                errors="replace",
                # Its own session: a terminal's Ctrl-C reaches only us, and one signal ends all of it.
                start_new_session=True,
                preexec_fn=killed_with_parent(),
            )
    except OSError as error:
        raise SolverMissing(f"{argv[0]} cannot be started on this machine: {error.strerror}.") from error


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
