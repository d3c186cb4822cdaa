"""Writing an exported folder: nothing that somebody else put there is changed or removed."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from planner.io.errors import input_error
from planner.io.files import make_folder, write_whole

LIST = ".fleetplan-export"
"""names the target, and each file with a digest of what was written; kubectl does not read it"""
FORMAT = "fleetplan-export/1"
OURS = re.compile(r"([A-Za-z0-9-]+/){0,3}[A-Za-z0-9_-]+\.(yaml|md|py|json)")
ELSEWHERE = "Choose another folder"


def write_folder(folder: Path, target: str, files: dict[str, str], force: bool) -> list[str]:
    """Write the files; returns remarks. With `force`, those of an earlier export to the same target give way.

    A file of that export that is no longer written is removed, unless somebody has edited it.
    """
    before = _check(folder, target, files, force)
    remarks = []
    for name, digest in sorted(before.items()):
        if name not in files and (folder / name).is_file():
            if _digest((folder / name).read_bytes()) == digest:
                (folder / name).unlink()
            else:
                remarks.append(f"kept {folder / name}: it is no longer part of the plan, but it was edited")
    for name, text in files.items():
        make_folder((folder / name).parent)
        write_whole(folder / name, text)
    digests = {name: _digest(text.encode()) for name, text in files.items()}
    listed = {"format": FORMAT, "target": target, "files": digests}
    write_whole(folder / LIST, json.dumps(listed, indent=1, sort_keys=True) + "\n")
    return remarks


def _check(folder: Path, target: str, files: dict[str, str], force: bool) -> dict[str, str]:
    """What an earlier export wrote there; refuses a folder that holds anything else under these names."""
    if folder.exists() and not folder.is_dir():
        raise input_error(folder, "is a file", "Name a folder for the export")
    if not folder.exists() or not any(folder.iterdir()):
        return {}
    if not force:
        raise input_error(folder, "is not empty", "Choose another folder, or give --force to replace an earlier export")
    before = _earlier(folder, target)
    for name in files:
        path = folder / name
        outside = not _inside(folder, name)
        if outside or (path.exists() and name not in before):
            raise input_error(path, "was not written by an export, and is kept", ELSEWHERE)
    return before


def _earlier(folder: Path, target: str) -> dict[str, str]:
    try:
        found = json.loads((folder / LIST).read_text(encoding="utf-8"))
        names = {str(name): str(digest) for name, digest in found["files"].items()}
        before = str(found["target"]) if found["format"] == FORMAT else ""
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise input_error(folder / LIST, "is not a list of exported files", ELSEWHERE) from None
    if before != target:
        raise input_error(folder, f"holds an export to {before[:20] or 'something else'}", ELSEWHERE)
    return {name: digest for name, digest in names.items() if OURS.fullmatch(name) and _inside(folder, name)}


def _inside(folder: Path, name: str) -> bool:
    """Whether neither the file nor a folder on the way to it is a link to somewhere else."""
    path = folder / name
    return not any(
        step.is_symlink() for step in (path, *path.parents) if step.is_relative_to(folder) and step != folder
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
