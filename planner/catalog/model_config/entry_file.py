"""A catalog entry as lines of YAML, in a file of its own or added to one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from planner.catalog.entries import KINDS
from planner.catalog.model_config.entry import ModelEntry
from planner.io.errors import InputError, input_error, shown
from planner.io.strict_yaml import parse_yaml, read_yaml

LAST = ("source", "date", "notes")


def entry_text(entry: ModelEntry) -> str:
    """The entry as lines under `models:`."""
    dumped = entry.model.model_dump(mode="json", exclude_none=True)
    dumped |= {key: dumped.pop(key) for key in LAST if key in dumped}
    data = {key: value for key, value in dumped.items() if value != []}
    text = yaml.safe_dump({entry.key: data}, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return "".join(f"  {line}\n" for line in text.splitlines())


def file_text(entry: ModelEntry, out: Path | None, replace: bool = False) -> str:
    """A file with the entry, added to what stands in `out` already; comments there stay."""
    added = entry_text(entry)
    if out is None or not out.is_file():
        return f"# Models of your own: name this file at `catalog:` of a demand file.\nmodels:\n{added}"
    document = read_yaml(out)
    stranger = next((kind for kind in document.data if kind not in KINDS), None)
    if stranger is not None:
        raise input_error(out, f"is no catalog file: it has the key {shown(stranger)}", "Choose another name for --out")
    before = out.read_text(encoding="utf-8-sig")
    models = document.data.get("models") or {}
    if entry.key in models:
        if not replace:
            raise input_error(
                out, f"has an entry {shown(entry.key)} already", "Add --replace, or choose another --name"
            )
        before = _without(before, document.key_marks, entry.key)
    text = _inserted(before, added)
    wanted = document.data | {"models": models | parse_yaml(f"models:\n{added}").data["models"]}
    try:
        if parse_yaml(text).data == wanted:
            return text
    except InputError:
        pass
    remedy = "Write to a new file with --out, and copy the entry from there"
    raise input_error(out, "is laid out so that an entry cannot be added to it", remedy)


def _inserted(text: str, entry: str) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    at = next((k for k, line in enumerate(lines) if re.match(r"models:\s*(#.*)?$", line)), None)
    if at is None:
        return "".join([*lines, "models:\n", entry])
    return "".join([*lines[: at + 1], entry, *lines[at + 1 :]])


def _without(text: str, key_marks: dict[Any, Any], key: str) -> str:
    """The text without the lines of one model."""
    start = key_marks["models", key].line
    later = sorted(mark.line for path, mark in key_marks.items() if len(path) <= 2 and mark.line > start)
    lines = text.splitlines(keepends=True)
    end = later[0] - 1 if later else len(lines)
    return "".join([*lines[: start - 1], *lines[end:]])
