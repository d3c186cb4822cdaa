"""A worker process that runs the heuristics while this one goes on with prices and bounds.

A hard search has two halves that hardly need each other: better plans, and better bounds. If the machine has a second
core, the worker (worker_main.py) looks for plans there: it gets the current LP from time to time and returns every
better plan. It ends with this process, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import threading
from types import TracebackType

from solvers.backends.python_child import piped_module
from solvers.heuristics.incumbent import Incumbent
from solvers.search.worker_main import Task

TO_WIND_DOWN_S = 3.0


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """The worker process; it starts with its first task."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._received: queue.SimpleQueue[Incumbent] = queue.SimpleQueue()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        threading.Thread(target=_wind_down, args=(process,), daemon=True).start()  # nobody has to wait for that

    def look(self, task: Task) -> None:
        """Tell it what to look among from now on."""
        if self._process is None:
            self._process = piped_module("solvers.search.worker_main")
            threading.Thread(target=self._hear, args=(self._process,), daemon=True).start()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(task, self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()

    def received(self) -> list[Incumbent]:
        """Plans that have arrived since the last call."""
        plans: list[Incumbent] = []
        with contextlib.suppress(queue.Empty):
            while True:
                plans.append(self._received.get_nowait())
        return plans

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self._received.put(pickle.load(process.stdout))


def _wind_down(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(TO_WIND_DOWN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
