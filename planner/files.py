"""Writing files: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from planner.complaints import Complaint, InputError


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
        remedy = "Choose a folder that exists and that you may write to"
        raise InputError(
            [Complaint(str(path), None, None, "", f"cannot be written: {error.strerror}", remedy)]
        ) from None
