"""Tutorials run as they stand: files are saved, commands are typed, and what is shown must come out.

A block after `<!-- file: NAME -->` is saved, and a block of bash is typed in one shell. Each line of a block of text
after `<!-- output -->` must be among the lines of the last commands, in this order; "..." stands for lines left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"(?:<!-- (file: (\S+)|output) -->\n)?^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LEFT_OUT = "..."


def missing_lines(page: Path, folder: Path) -> list[str]:
    """Lines that the page shows and the commands do not print, when it is followed in an empty folder."""
    missing: list[str] = []
    printed: list[str] = []
    for kind, name, text in _steps(page.read_text(encoding="utf-8")):
        if kind == "file":
            (folder / name).write_text(text, encoding="utf-8")
        elif kind == "type":
            printed = _typed(text, folder).splitlines()
        else:
            missing += _not_in_order(text.splitlines(), printed)
    return missing


def _steps(page: str) -> Iterator[tuple[str, str, str]]:
    for mark, name, language, text in BLOCK.findall(page):
        if name:
            yield "file", name, text
        elif mark == "output":
            yield "show", "", text
        elif language == "bash":
            yield "type", "", text


def _typed(commands: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(
        shell, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{commands}\n{done.stderr}"
    return done.stdout


def _not_in_order(shown: list[str], printed: list[str]) -> list[str]:
    lines, missing = iter(line.rstrip() for line in printed), []
    rest = list(lines)
    for line in (line.rstrip() for line in shown if line.strip() not in ("", LEFT_OUT)):
        if line in rest:
            rest = rest[rest.index(line) + 1 :]
        else:
            missing.append(line)
    return missing
