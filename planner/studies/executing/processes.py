"""Jobs in processes of this machine. One that dies is replaced, and its job is given to another."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from planner.io.errors import input_error
from planner.studies.executing.jobs import RETRIES, Job, Result, Work, lost, not_run, outcome_of
from solvers.backends.parent import end_this_process
from solvers.backends.python_child import safe_spawn
from solvers.backends.scratch import prepare

READY = "ready"
TO_WIND_DOWN_S = 5.0
"""in which a worker that is told to stop ends the solver it runs"""


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
                heard = wait([w.pipe for w in workers])
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
    # A terminal's Ctrl-C is for the parent, which then ends us in a way that lets solvers be ended too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # as many workers as cores, not their square
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pipe.send(READY)
        while True:
            pipe.send(_answer(pipe))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    end_this_process(signal.SIGTERM)


def _answer(pipe: Connection) -> Result:
    try:
        work, payload = pipe.recv()
    except (EOFError, OSError):
        raise
    except Exception as error:  # the function cannot be imported here
        return not_run(error)
    return outcome_of(work, payload)
