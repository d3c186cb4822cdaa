"""Reading files that others wrote: within a bound, and nothing that is no file."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

from planner.io.errors import input_error

MOST_JSON_BYTES = 500_000_000
"""of a saved plan, an explanation or a review; a plan of 500 workloads takes a tenth of it"""


def open_input(path: Path | str) -> BinaryIO:
    """Open a regular file, a pipe or stdin; a device could have no end, or act on being opened."""
    with contextlib.suppress(OSError, ValueError):
        if not _has_an_end(os.stat(path)):
            raise input_error(path, "is not a regular file", "Name a file")
    return open(path, "rb")


def _has_an_end(info: os.stat_result) -> bool:
    kinds = (stat.S_ISREG, stat.S_ISFIFO, stat.S_ISDIR)  # a directory is refused by open(), in its own words
    if any(is_kind(info.st_mode) for is_kind in kinds):
        return True
    with contextlib.suppress(OSError):
        return os.path.samestat(info, os.fstat(0))
    return False


def read_input(path: Path | str, most_bytes: int, remedy: str = "") -> bytes:
    """Read a whole file of at most so many bytes."""
    with open_input(path) as stream:
        return _bounded(stream.read(most_bytes + 1), path, most_bytes, remedy)


def read_unpacked(path: Path | str, most_bytes: int, remedy: str = "") -> bytes:
    """Read a file, plain or gzipped, of at most so many bytes once unpacked."""
    raw = read_input(path, most_bytes, remedy)
    if raw[:2] != b"\x1f\x8b":
        return raw
    return _bounded(gzip.GzipFile(fileobj=io.BytesIO(raw)).read(most_bytes + 1), path, most_bytes, remedy)


def read_json_text(path: Path | str) -> str:
    """Read the text of a JSON file that fleetplan wrote; raises InputError where it cannot be read."""
    try:
        return read_input(path, MOST_JSON_BYTES, "Give a file that fleetplan wrote").decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise input_error(path, f"cannot be read: {reason}") from None


def _bounded(raw: bytes, path: Path | str, most_bytes: int, remedy: str) -> bytes:
    if len(raw) > most_bytes:
        raise input_error(path, f"is larger than {most_bytes // 1_000_000} MB", remedy)
    return raw
