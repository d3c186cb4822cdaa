"""All jobs of a sweep, those that its journal has left out.

A journal is JSON lines, one for each job that is done, on disk before the next is awaited. The first line says of which
sweep it is. A last line that was cut off by a crash is dropped; its job runs again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Self

from planner.io.errors import input_error
from planner.studies.executing.jobs import Executor, Job, Result, Work

JOURNAL_FORMAT = "fleetplan-journal/1"
MOST_BYTES = 1_000_000_000
ANOTHER = "Name another file, or delete this one"
OnDone = Callable[[Job, Result, int, int], None]
"""a job, its result, and how many of how many are done"""


class Journal:
    """Open while a sweep runs; `results` are those that it had already, by key."""

    def __init__(self, path: Path, work: Work, jobs: Sequence[Job]) -> None:
        self.path = path
        self.keys = {job.key for job in jobs}
        self.header = _line({"format": JOURNAL_FORMAT, "fingerprint": fingerprint(work, jobs), "jobs": len(jobs)})
        self.results: dict[str, Result] = {}

    def __enter__(self) -> Self:
        try:
            if self.path.exists() and not self.path.is_file() and not self.path.is_dir():
                raise input_error(self.path, "is not a regular file", ANOTHER)
            self.file: BinaryIO = open(self.path, "a+b")
        except OSError as error:
            raise input_error(
                self.path,
                f"cannot be written: {error.strerror}",
                "Choose a folder that exists and that you may write to",
            ) from None
        try:
            self._lock()
            self.file.seek(0)
            self._resume(self._content())
        except BaseException:
            self.file.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def add(self, job: Job, result: Result) -> None:
        self._write(_line({"key": job.key, "result": result}))

    def _write(self, line: bytes) -> None:
        try:
            self.file.write(line)
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            # What did not reach the disk now must not be tried again by close().
            with contextlib.suppress(OSError):
                self.file.close()
            raise input_error(
                self.path,
                f"cannot be written: {error.strerror}",
                "Finished runs are kept: free some space and run this again",
            ) from None

    def _lock(self) -> None:
        """Two sweeps into one journal would both run everything."""
        try:
            import fcntl
        except ImportError:  # not on this system
            return
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise input_error(self.path, "another run is writing to it", "Wait for it, or name another file") from None

    def _content(self) -> bytes:
        content = self.file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise input_error(self.path, f"is larger than {MOST_BYTES // 1_000_000} MB", ANOTHER)
        return content

    def _resume(self, content: bytes) -> None:
        whole, _, torn = content.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        if not lines:
            if not self.header.startswith(torn):
                raise input_error(self.path, "is not a journal", ANOTHER)
            self.file.truncate(0)
            self._write(self.header)
            return
        self._check_header(lines[0])
        if torn:
            self.file.truncate(len(whole) + 1)
        for number, line in enumerate(lines[1:], start=2):
            key, result = self._entry(number, line)
            self.results.pop(key, None)
            if not result.get("lost"):
                self.results[key] = result

    def _check_header(self, line: bytes) -> None:
        parsed = _parsed(line)
        if not isinstance(parsed, dict) or not str(parsed.get("format", "")).startswith("fleetplan-journal/"):
            raise input_error(self.path, "is not a journal", ANOTHER)
        if parsed["format"] != JOURNAL_FORMAT:
            raise input_error(self.path, f"is a journal of another format than '{JOURNAL_FORMAT}'", ANOTHER)
        if parsed.get("fingerprint") != _parsed(self.header)["fingerprint"]:
            raise input_error(
                self.path, "is the journal of a sweep with other inputs or another version of fleetplan", ANOTHER
            )

    def _entry(self, number: int, line: bytes) -> tuple[str, Result]:
        parsed = _parsed(line)
        key, result = (parsed.get("key"), parsed.get("result")) if isinstance(parsed, dict) else (None, None)
        if key not in self.keys or not isinstance(result, dict):
            raise input_error(
                self.path,
                "this line is not one of this sweep's results",
                "Delete the line; its job is run again",
                number,
            )
        return key, result


def fingerprint(work: Work, jobs: Sequence[Job]) -> str:
    """Hash what a sweep runs, by which version and on which inputs, in whatever order."""
    from importlib.metadata import version

    total = hashlib.sha256(f"{work.__module__}.{work.__qualname__} {version('fleetplan')}\n".encode())
    for job in sorted(jobs, key=lambda job: job.key):
        total.update(_line({"key": job.key, "payload": job.payload}, sort_keys=True))
    return "sha256:" + total.hexdigest()


def _line(data: dict[str, Any], sort_keys: bool = False) -> bytes:
    return json.dumps(data, sort_keys=sort_keys, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


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
        results = dict(kept.results) if kept is not None else {}
        left = [job for job in jobs if job.key not in results]
        stream = executor.results(work, left) if left else iter(())
        try:
            for job, result in stream:
                if kept is not None:
                    kept.add(job, result)
                results[job.key] = result
                on_done(job, result, len(results), len(jobs))
        finally:
            if isinstance(stream, Generator):
                stream.close()
    return {job.key: results[job.key] for job in jobs}
