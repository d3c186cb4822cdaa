"""Executors by name, as a user writes them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from planner.io.errors import did_you_mean, input_error, shown
from planner.studies.executing.jobs import Executor, Job, Result, Work, outcome_of
from solvers.backends.scratch import prepare

EXAMPLES = ("in-process", "processes", "processes:4", "dask://127.0.0.1:8786")
MOST_PROCESSES = 512
_ADDRESS = re.compile(r"dask://(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")


class InProcess:
    """One after the other, here."""

    def results(self, work: Work, jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        prepare()
        for job in jobs:
            yield job, outcome_of(work, job.payload)


def executor_from(text: str) -> AbstractContextManager[Executor]:
    """ "in-process", "processes" (one for each core), "processes:4", or "dask://host:port".

    A wrong text is refused at once; workers are started, or connected to, where the context is entered.
    """
    name, _, rest = text.partition(":")
    if text == "in-process":
        return nullcontext(InProcess())
    if name == "processes":
        from planner.studies.executing.processes import Processes

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
