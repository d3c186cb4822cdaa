"""Folders for temporary files of solvers and engines for logs, removed afterwards, at the latest by the next process.

A folder's name says whose it is: the machine, the process, and when that process began, so that another process with
the same number is not taken for it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from solvers.backends.trouble import MachineTrouble

_NAME = re.compile(r"fleetplan-(?:cbc|highs|logs)-(?P<machine>[0-9a-f]{8})-(?P<pid>[0-9]+)-(?P<began>[0-9]+)-\w+")


@contextmanager
def scratch_folder(user: str, within: Path | None = None) -> Iterator[Path]:
    """An empty folder of this process, gone at the end; where temporary files go, or within another folder."""
    prefix = f"fleetplan-{user}-{_owner()}-"
    with writing(within):
        folder = tempfile.TemporaryDirectory(prefix=prefix, dir=within, ignore_cleanup_errors=True)
    with folder as path:
        yield Path(path)


@contextmanager
def writing(within: Path | None = None) -> Iterator[None]:
    """Turn a disk that is full while files are written into MachineTrouble, with a sentence for the user."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise MachineTrouble(
            f"temporary files cannot be written to {within or _where()}: {reason}. Free some space there, or "
            f"{'name another folder' if within else 'set TMPDIR to a folder'} with room that you may write to."
        ) from error


@cache
def prepare() -> None:
    """Once in a process, before long work: see that folders can be made, and remove those of dead processes."""
    with scratch_folder("cbc") as folder:
        remove_stale(folder.parent)


def clear() -> None:
    """Remove folders of dead processes from where temporary files go, if that is known."""
    with suppress(OSError):
        remove_stale(Path(tempfile.gettempdir()))


def remove_stale(place: Path) -> None:
    """Remove folders of dead processes."""
    for entry in os.scandir(place):
        if is_stale(entry.path):
            shutil.rmtree(entry.path, ignore_errors=True)


def is_stale(path: str) -> bool:
    """Whether it is a folder that a process of this user left behind on this machine; never one behind a link."""
    match = _NAME.fullmatch(os.path.basename(path))
    if match is None or match["machine"] != _machine():
        return False
    try:
        status = os.lstat(path)
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        return False
    return not _is_alive(int(match["pid"]), int(match["began"]))


def _is_alive(pid: int, began: int) -> bool:
    if Path("/proc/self/stat").exists():
        return _began(pid) == began
    if os.name != "posix":
        return True  # there is no way to ask that does not end it
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def _owner() -> str:
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid()) or 0}"


def _began(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine did; None if there is none, or no way to know."""
    with suppress(OSError, IndexError, ValueError):
        after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(after_name[19])
    return None


@cache
def _machine() -> str:
    """The machine and the container: processes of another one cannot be seen from here."""
    space = 0
    with suppress(OSError):
        space = os.stat("/proc/self/ns/pid").st_ino
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _where() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "any folder for temporary files"
