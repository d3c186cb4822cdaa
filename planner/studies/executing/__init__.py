"""Many runs of one function: here, in processes of this machine, or on a Dask cluster.

    with executor_from("processes:4") as executor:
        results = run_jobs(work, jobs, executor, journal=Path("sweep.jsonl"))

Every executor gives the same results. They are written to the journal as they come, so that a sweep that was
interrupted goes on where it stopped.
"""

from __future__ import annotations

from planner.studies.executing.executors import executor_from
from planner.studies.executing.jobs import Executor, Job, Result, Work, failed
from planner.studies.executing.run import run_jobs

__all__ = ["Executor", "Job", "Result", "Work", "executor_from", "failed", "run_jobs"]
