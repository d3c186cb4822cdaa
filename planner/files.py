"""Writing files: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from planner.complaints import Complaint, InputError


def check_writable(path: Path | str) -> None:
    """Complain before long work, not after it, where its result could not be written."""
    target = Path(path)
    if target.is_dir():
        _refuse(path, "is a directory")
    try:
        with tempfile.TemporaryFile(dir=target.parent or Path()):
            pass
    except OSError as error:
        _refuse(path, error.strerror or str(error))


def _refuse(path: Path | str, reason: str) -> None:
    remedy = "Choose a folder that exists and that you may write to"
    raise InputError([Complaint(str(path), None, None, "", f"cannot be written: {reason}", remedy)])


def write_whole(path: Path | str, text: str) -> None:
    """Write a text file atomically: readers see the old file or the new one, never a part."""
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent or Path(), prefix=f".{target.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        _refuse(path, error.strerror or str(error))
