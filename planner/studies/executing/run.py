"""All jobs of a sweep, those that a journal has already left out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from pathlib import Path

from planner.studies.executing.jobs import Executor, Job, Result, Work
from planner.studies.executing.journal import Journal

OnDone = Callable[[Job, Result, int, int], None]
"""a job, its result, and how many of how many are done"""


def run_jobs(
    work: Work,
    jobs: Sequence[Job],
    executor: Executor,
    journal: Path | None = None,
    on_done: OnDone = lambda job, result, done, total: None,
) -> dict[str, Result]:
    """The results by key, in the order of the jobs; what the journal has is not run again.

    An interruption leaves the journal with all that was done by then. Failed jobs are results with an error.
    """
    if len({job.key for job in jobs}) != len(jobs):
        raise ValueError("two jobs have the same key")
    with Journal(journal, work, jobs) if journal is not None else nullcontext() as kept:
        found = dict(kept.results) if kept is not None else {}
        left = [job for job in jobs if job.key not in found]
        results = executor.results(work, left) if left else iter(())
        try:
            for job, result in results:
                if kept is not None:
                    kept.add(job, result)
                found[job.key] = result
                on_done(job, result, len(found), len(jobs))
        finally:
            if isinstance(results, Generator):
                results.close()
    return {job.key: found[job.key] for job in jobs}
