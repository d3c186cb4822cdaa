"""Standard streams that take whatever is written to them."""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """Replace what a stream's encoding cannot express, and give closed streams a place.

    A file opened while stdout is closed would become stdout, and what solvers print would end up in it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # For reading only where somebody waits for what stdout says: a write fails, and the command says so.
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if number:
                setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
        stream = getattr(sys, name)
        if number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
