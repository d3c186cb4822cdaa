"""Writing files: whole or not at all, and only where nothing that is to be kept stands."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from planner.io.errors import input_error
from solvers.backends.clock import undisturbed

CHOOSE = "Choose a folder that exists and that you may write to"


def check_writable(path: Path | str) -> None:
    """Complain before long work, not after it, where its result could not be written."""
    try:
        _check_replaceable(path)
        if not _is_stream(path):
            with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
                pass
    except (OSError, ValueError) as error:
        raise input_error(path, f"cannot be written: {_reason(error)}", CHOOSE) from None


def check_targets(
    targets: Mapping[str, Path | None],
    inputs: Iterable[Path | str],
    into_folders: Mapping[str, Iterable[Path]] | None = None,
) -> None:
    """Complain before any work where its results cannot be written, or would overwrite an input or each other.

    Targets are files by the option that names them, and those that an option writes into its folder. What is no
    regular file, such as /dev/null, takes anything.
    """
    taken: list[tuple[str, Path | str]] = [(f"the input {file}", file) for file in inputs]
    named = [(option, file) for option, file in targets.items() if file is not None]
    named += [(option, file) for option, files in (into_folders or {}).items() for file in files]
    for option, target in named:
        if not _is_stream(target):
            for holder, file in taken:
                if _same_file(target, file):
                    raise input_error(target, f"{option} would overwrite {holder}", "Choose another name")
            taken.append((f"what {option} writes", target))
        if targets.get(option) is not None:
            check_writable(target)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remedy = "Name a folder that exists, or one that can be created"
        raise input_error(folder, f"cannot be created: {_reason(error)}", remedy) from None


def write_whole(path: Path | str, content: str | bytes) -> None:
    """Write a file atomically: readers see the old file or the new one, never a part.

    A link is followed, an existing file keeps its mode, and a device or pipe is written to, not replaced.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        with undisturbed():
            _check_replaceable(path)
            if _is_stream(path):
                _write_through(path, data)
            else:
                _replace(os.path.realpath(path), data)
    except (OSError, ValueError) as error:
        raise input_error(path, f"cannot be written: {_reason(error)}", CHOOSE) from None


def _write_through(path: Path | str, data: bytes) -> None:
    info = os.stat(path)
    # /dev/stdout and its like are this process's own: a second opening of the same file would start at its beginning.
    own = next((fd for fd in (1, 2) if os.path.samestat(info, os.fstat(fd))), None)
    with open(path if own is None else os.dup(own), "wb") as stream:
        stream.write(data)


def _replace(target: str, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".fleetplan-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        _keep_owner_and_mode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _keep_owner_and_mode(target: str, temporary: str) -> None:
    try:
        old = os.stat(target)
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        return
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


def _is_stream(path: Path | str) -> bool:
    """Whether it is written to rather than replaced: devices, pipes, and what /dev and /proc call the process's own."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    if stat.S_ISREG(mode):
        return os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/"))
    return not stat.S_ISDIR(mode)


def _check_replaceable(path: Path | str) -> None:
    """By the mode bits, since the superuser may write to everything."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise input_error(path, "cannot be written: it is a directory", CHOOSE)
    if not stat.S_IMODE(mode) & 0o222 or not os.access(path, os.W_OK):
        raise input_error(
            path, "cannot be written: it is read-only", "Choose another name, or allow writing with chmod u+w"
        )


def _same_file(one: Path | str, other: Path | str) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
