"""A job, its result, and what runs jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from solvers.backends.trouble import MachineTrouble

Result = dict[str, Any]
Work = Callable[[dict[str, Any]], Result]
"""an importable top-level function, from and to what JSON can say"""

RETRIES = 3
"""times that a job is run again after the worker it ran on was lost"""


@dataclass(frozen=True)
class Job:
    """One run. The key is stable: the same inputs have the same key."""

    key: str
    payload: dict[str, Any]


class Executor(Protocol):
    def results(self, work: Work, jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        """Each job with its result, as they finish; closing the iterator cancels the rest."""
        ...


def outcome_of(work: Work, payload: dict[str, Any]) -> Result:
    """What one job comes to, wherever it runs. One that fails by itself is a result too, and fails again elsewhere.

    Both ways go through JSON, so that no executor and no journal gives another result than the rest.
    """
    try:
        return json.loads(json.dumps(work(json.loads(json.dumps(payload))), allow_nan=False))
    except (MachineTrouble, MemoryError) as error:
        return not_run(error)
    except (Exception, SystemExit) as error:
        return error_of(error)


def error_of(error: BaseException) -> Result:
    return {"status": "error", "error": f"{type(error).__name__}: {error}"}


def lost(times: int) -> Result:
    """For a job that took its worker with it each time: memory, mostly. It is tried again when the sweep is resumed."""
    return {"status": "error", "error": f"its worker was lost {times} times", "lost": True}


def not_run(error: BaseException) -> Result:
    """For a job that its worker could not run, as where it cannot import the function or its disk is full.

    It is tried again as well.
    """
    return error_of(error) | {"lost": True}


def failed(result: Result) -> bool:
    return result.get("status") == "error" and "error" in result
