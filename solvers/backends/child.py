"""Run a solver in a child process that cannot outlive its limit, its parent's Ctrl-C or an error."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from solvers.backends.deadline import interruptions_deferred
from solvers.backends.parent import killed_with_parent
from solvers.backends.trouble import SolverMissing


def grace_s(time_limit_s: float) -> float:
    """How long past its own limit a solver may take to wind down before it is killed."""
    return max(2.0, 0.1 * time_limit_s)


def run_child(
    argv: Sequence[str],
    time_limit_s: float | None,
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> tuple[int, bool]:
    """Feed each output line to `on_line`; return the exit code and whether the watchdog had to kill it."""
    killed = threading.Event()

    def expire() -> None:
        killed.set()
        _kill(process)

    watchdog = None
    with interruptions_deferred() as held:
        process = _started(argv, environment)
        try:
            held.take_effect()
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
