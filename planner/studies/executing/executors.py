"""Executors by name, as a user writes them; and jobs in processes of this machine, where one that dies is replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from planner.io.errors import did_you_mean, input_error, shown
from planner.studies.executing.jobs import RETRIES, Executor, Job, Result, Work, lost, not_run, outcome_of
from solvers.backends.clock import Stopped, ask_to_stop, check, undisturbed
from solvers.backends.parent import end_this_process
from solvers.backends.python_child import safe_spawn
from solvers.backends.scratch import prepare

EXAMPLES = ("in-process", "processes", "processes:4", "dask://127.0.0.1:8786")
MOST_PROCESSES = 512
_ADDRESS = re.compile(r"dask://(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")
READY = "ready"
LOOK_EVERY_S = 0.1
"""at the clock, while workers work"""
TO_WIND_DOWN_S = 5.0
"""in which a worker that is told to stop ends the solver it runs"""


class InProcess:
    """One after the other, here."""

    def results(self, work: Work, jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        prepare()
        for job in jobs:
            check()
            yield job, outcome_of(work, job.payload)


def executor_from(text: str) -> AbstractContextManager[Executor]:
    """ "in-process", "processes" (one for each core), "processes:4", or "dask://host:port".

    A wrong text is refused at once; workers are started, or connected to, where the context is entered.
    """
    name, _, rest = text.partition(":")
    if text == "in-process":
        return nullcontext(InProcess())
    if name == "processes":
        from planner.studies.executing.executors import Processes

        return nullcontext(Processes(_count(rest) if rest or text != name else _cores()))
    if name == "dask":
        from planner.studies.executing.dask import connected

        return connected(_address(text))
    raise input_error("--executor", f"there is no executor {shown(text)}", did_you_mean(text, EXAMPLES))


def _count(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,3}", text) or int(text) > MOST_PROCESSES:
        raise input_error(
            "--executor", f"expected 1 to {MOST_PROCESSES} processes, got {shown(text)}", "Write processes:4"
        )
    return int(text)


def _address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise input_error(
            "--executor", f"expected the address of a Dask scheduler, got {shown(text)}", f"Write {EXAMPLES[-1]}"
        )
    return f"tcp://{match['host']}:{match['port']}"


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    ready: bool = False
    job: Job | None = None


class Processes:
    def __init__(self, count: int) -> None:
        self.count = count

    def results(self, work: Work, jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        prepare()
        waiting, losses = deque(jobs), Counter[str]()
        workers: list[_Worker] = []
        starts_left = RETRIES
        try:
            while waiting or any(w.job for w in workers):
                self._hand_out(work, waiting, workers)
                check()
                heard = wait([w.pipe for w in workers], LOOK_EVERY_S)
                for worker in [w for w in workers if w.pipe in heard]:
                    job, answer = worker.job, _answer_of(worker)
                    worker.job = None
                    if answer == READY:
                        worker.ready, starts_left = True, RETRIES
                    elif answer is not None and job is not None:
                        yield job, answer
                    elif answer is None:
                        workers.remove(worker)
                        _stop([worker])
                        starts_left -= not worker.ready
                        if starts_left < 0:
                            _cannot_start(worker.process.exitcode)
                        if job is not None:
                            losses[job.key] += 1
                            if losses[job.key] > RETRIES:
                                yield job, lost(losses[job.key])
                            else:
                                waiting.append(job)
        finally:
            _stop(workers)

    def _hand_out(self, work: Work, waiting: deque[Job], workers: list[_Worker]) -> None:
        busy = sum(w.job is not None for w in workers)
        while len(workers) < min(self.count, busy + len(waiting)):
            workers.append(_started())
        for worker in workers:
            if worker.ready and worker.job is None and waiting:
                worker.job = waiting.popleft()
                # One that has just died is noticed where its answer is awaited.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    worker.pipe.send((work, worker.job.payload))


def _started() -> _Worker:
    """Spawned, not forked: nothing of this process, its threads and its solvers is copied."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True, name="fleetplan-worker")
    with safe_spawn():
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _answer_of(worker: _Worker) -> Any:
    """None where it is no more."""
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        return None


def _stop(workers: Sequence[_Worker]) -> None:
    with undisturbed():
        for worker in workers:
            worker.pipe.close()
            if worker.process.is_alive():
                worker.process.terminate()
        for worker in workers:
            worker.process.join(TO_WIND_DOWN_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def _cannot_start(exitcode: int | None) -> None:
    message = f"the worker processes end before they begin (exit code {exitcode})"
    remedy = "In a script of your own, call it under: if __name__ == '__main__'"
    raise input_error("--executor", message, remedy)


def _serve(pipe: Connection) -> None:
    """A worker: jobs in, results out, until the pipe is closed."""
    # A terminal's Ctrl-C is for the parent, which then asks us to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, ask_to_stop)
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # as many workers as cores, not their square
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError, Stopped):
        pipe.send(READY)
        while True:
            while not pipe.poll(LOOK_EVERY_S):
                check()
            pipe.send(_answer(pipe))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    end_this_process()


def _answer(pipe: Connection) -> Result:
    try:
        work, payload = pipe.recv()
    except (EOFError, OSError):
        raise
    except Exception as error:  # the function cannot be imported here
        return not_run(error)
    return outcome_of(work, payload)
