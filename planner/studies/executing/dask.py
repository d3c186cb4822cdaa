"""Jobs on a Dask cluster that is running somewhere: `dask scheduler`, and `dask worker` as often as one likes.

Each thread of each worker has one job at a time, and the rest wait here: when a worker is lost, Dask gives the
job it had to another one, and no other job is blamed for the loss.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from planner.io.errors import Diagnostic, InputError, input_error
from planner.studies.executing.jobs import RETRIES, Executor, Job, Result, Work, lost, not_run, outcome_of
from solvers.backends.clock import check

CONNECT_S = 10.0
LOOK_EVERY_S = 1.0
WITHOUT_WORKERS_S = 60.0
"""how long a sweep waits for workers once all of them are gone: whoever restarts them takes a while"""
SAME_VERSIONS = ("fleetplan", "distributed", "highspy", "pulp", "numpy")
"""packages that decide what a job comes to, or whether it can be sent at all"""


@contextmanager
def connected(address: str) -> Iterator[Executor]:
    """A client of the scheduler there, once it has workers like us."""
    distributed = _distributed()
    with _quiet():
        try:
            client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError):
            port = address.rpartition(":")[2]
            raise input_error(
                "--executor",
                f"no Dask scheduler answers at {address}",
                f"Start one there with: dask scheduler --port {port}",
            ) from None
        except ImportError as error:
            raise input_error(
                "--executor",
                f"the scheduler at {address} cannot be understood: {error}",
                "Use the same dask on both sides",
            ) from None
        with client:
            cluster = Cluster(client, address)
            if not cluster.threads():
                raise input_error(
                    "--executor",
                    f"the scheduler at {address} has no workers",
                    f"Start one with: dask worker {address} --nthreads 1",
                )
            yield cluster


class Cluster:
    def __init__(self, client: Any, address: str) -> None:
        self.client, self.address = client, address
        self.checked: set[str] = set()

    def results(self, work: Work, jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        waiting, running = deque(jobs), dict[Any, Job]()
        finished: SimpleQueue[Any] = SimpleQueue()
        empty_since: float | None = None
        try:
            while waiting or running:
                threads = self.threads()
                while waiting and len(running) < threads:
                    job = waiting.popleft()
                    named = (work.__module__, work.__name__)
                    future = self.client.submit(_outcome, *named, json.dumps(job.payload), pure=False)
                    running[future] = job
                    future.add_done_callback(finished.put)
                empty_since = None if threads else empty_since or time.monotonic()
                if empty_since is not None and time.monotonic() - empty_since > WITHOUT_WORKERS_S:
                    remedy = f"Start some with: dask worker {self.address} --nthreads 1. A journal resumes the sweep"
                    raise input_error("--executor", f"all workers of the scheduler at {self.address} are gone", remedy)
                check()
                for future in _next(finished):
                    job, result = running.pop(future), self.outcome(future)
                    # What somebody still holds is run again when the worker that has it is lost.
                    future.release()
                    yield job, result
        finally:
            if running and self.client.status == "running":
                self.client.cancel(list(running), force=True)

    def outcome(self, future: Any) -> Result:
        """Jobs do not raise, so an error here is one of the cluster. A result that was lost since is waited for."""
        try:
            return future.result()
        except (CancelledError, OSError, TimeoutError):
            self.gone()
        except Exception as error:
            return lost(RETRIES + 1) if type(error).__name__ == "KilledWorker" else not_run(error)

    def threads(self) -> int:
        """Count the threads of all workers; new workers must have our versions."""
        try:
            nthreads = self.client.nthreads()
            self.check_versions(nthreads.keys() - self.checked)
        except (OSError, TimeoutError):
            self.gone()
        return sum(nthreads.values())

    def check_versions(self, workers: Iterable[str]) -> None:
        new = sorted(workers)
        if not new:
            return
        differing: dict[str, list[str]] = {}
        for name in SAME_VERSIONS:
            here = _ours(name)
            for worker, theirs in self.ask(version, name, workers=new).items():
                if theirs != here:
                    text = f"{name} {theirs}, but {here} here" if theirs else f"no {name}, but {here} here"
                    differing.setdefault(text, []).append(worker)
        for worker, python in self.ask(platform.python_version, workers=new).items():
            if _minor(python) != _minor(platform.python_version()):
                text = f"Python {python}, but {platform.python_version()} here"
                differing.setdefault(text, []).append(worker)
        if differing:
            remedy = f"Install the same everywhere: pip install 'fleetplan[dask]=={_ours('fleetplan')}'"
            diagnostics = [f"{_counted(having)} {text}" for text, having in differing.items()]
            raise InputError([Diagnostic("--executor", None, None, "", text, remedy) for text in diagnostics])
        self.checked |= set(new)

    def ask(self, question: Any, *arguments: str, workers: list[str]) -> dict[str, str | None]:
        """What each of the workers answers; those that are gone by now say nothing."""
        answers = self.client.run(question, *arguments, workers=workers, on_error="return")
        return {
            worker: None if isinstance(answer, PackageNotFoundError) else str(answer)
            for worker, answer in answers.items()
            if not isinstance(answer, OSError)
        }

    def gone(self) -> NoReturn:
        remedy = "Make sure that it runs, and run this again: a journal resumes the sweep"
        raise input_error("--executor", f"the scheduler at {self.address} no longer answers", remedy)


def _outcome(module: str, name: str, payload: str) -> Result:
    """On a worker. By name and as text: a function that a worker cannot import would end it before it has begun, and
    Dask looks through every list and mapping that it is given for futures."""
    try:
        work: Work = getattr(import_module(module), name)
    except Exception as error:
        return not_run(error)
    return outcome_of(work, json.loads(payload))


def _next(finished: SimpleQueue[Any]) -> Iterator[Any]:
    """What has finished, all of it; nothing where that takes longer than we may look away."""
    try:
        yield finished.get(timeout=LOOK_EVERY_S)
        while True:
            yield finished.get_nowait()
    except Empty:
        return


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise input_error(
            "--executor", "Dask is not installed", "Install it with: pip install 'fleetplan[dask]'"
        ) from None
    return distributed


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask logs a page for each connection that is lost; what matters of it is said by us."""
    logs = [logging.getLogger(n) for n in logging.root.manager.loggerDict if n.partition(".")[0] == "distributed"]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)


def _ours(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _counted(workers: list[str]) -> str:
    return f"the worker {workers[0]} has" if len(workers) == 1 else f"{len(workers)} workers, {workers[0]} first, have"


def _minor(python: str | None) -> list[str]:
    return (python or "").split(".")[:2]
