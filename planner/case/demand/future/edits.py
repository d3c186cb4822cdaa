"""Changes to the data of a demand file before it is read, so that every rule of reading holds for them too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from planner.io.errors import Path

_RELATIVE = re.compile(r"([+-])([0-9.]+) ?%")
_SCALABLE = re.compile(r"(\$ ?|[uU][sS][dD] ?)?([0-9][0-9_,]*(?:\.[0-9]+)?)( ?[^%]*)")


def relative(before: Any, value: Any) -> Any:
    """+20% and -20% scale an amount that the file has; on anything else they are a value like any other."""
    match = _RELATIVE.fullmatch(value) if isinstance(value, str) else None
    if match is None or before is None or isinstance(before, bool | list | dict):
        return value
    factor = 1 + float(match[1] + match[2]) / 100
    if isinstance(before, int | float):
        return _plain(before * factor)
    amount = _SCALABLE.fullmatch(before) if len(before) <= 64 else None
    if amount is None:
        return value
    number = float(re.sub("[,_]", "", amount[2])) * factor
    return f"{amount[1] or ''}{_plain(number)}{amount[3]}"


def _plain(number: float) -> int | float:
    short = float(f"{number:.12g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def value_at(data: Any, path: Path) -> Any:
    """What the data have there; None where there is nothing."""
    for part in path:
        inside = part < len(data) if isinstance(data, list) and isinstance(part, int) else False
        if not inside and not (isinstance(data, dict) and part in data):
            return None
        data = data[part]
    return data


def put(data: Any, path: Path, value: Any) -> None:
    for part in path[:-1]:
        if isinstance(data, dict):
            if data.get(part) is None:
                data[part] = {}
            data = data[part]
        else:
            data = data[part]
    data[path[-1]] = value


def clashes(path: Path, places: Iterable[Path]) -> bool:
    """One value inside another would make the order of changes matter."""
    return any(p[: len(path)] == path or path[: len(p)] == p for p in places)
