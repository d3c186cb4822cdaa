"""Changes to the data of a demand file before it is read, so that every rule of reading holds for them too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from planner.case.demand.future.paths import resolved
from planner.case.demand.overrides import offers_called
from planner.catalog.entries import Gpu, Offer, find
from planner.io.errors import Path, did_you_mean, input_error, shown

_RELATIVE = re.compile(r"([+-])([0-9.]+) ?%")
_SCALABLE = re.compile(r"(\$ ?|[uU][sS][dD] ?)?([0-9][0-9_,]*(?:\.[0-9]+)?)( ?[^%]*)")


def edits_of(
    key: str,
    value: Any,
    data: Any,
    gpus: Mapping[str, Gpu],
    offers: dict[str, Offer],
    where: str,
    may_join: dict[str, Offer] | None = None,
) -> list[tuple[Path, Any]]:
    """The places in a file's data that a change by path is about, and what they become.

    `may_join` are offers that another change may put on the menu.
    """
    path = resolved(key, data, where)
    if path[:1] == ("prices",) and len(path) >= 2 and not offers_called(str(path[1]), may_join or {}):
        return _priced(path, value, data, gpus, offers, where)
    return [(path, relative(value_at(data, path), value))]


def _priced(
    path: Path, value: Any, data: Any, gpus: Mapping[str, Gpu], offers: dict[str, Offer], where: str
) -> list[tuple[Path, Any]]:
    """A price by the instance's name, or of all instances on the menu with a GPU."""
    gpu = find(str(path[1]), gpus)
    if gpu is None and not offers_called(str(path[1]), offers):
        known = [*gpus, *dict.fromkeys(key.split("@")[0] for key in offers)]
        remedy = did_you_mean(str(path[1]), known) or f"The menu has {', '.join(known)}"
        raise input_error(where, f"no instance or GPU on the menu is called {shown(path[1])}", remedy)
    if gpu is None or str(path[1]) in (data.get("prices") or {}):
        return [(path, relative(value_at(data, path), value))]
    own = data.get("prices") or {}
    edits: list[tuple[Path, Any]] = []
    for key in (key for key, offer in offers.items() if offer.gpu == gpu):
        name = key if key in own else key.split("@")[0] if key.split("@")[0] in own else key
        place: Path = ("prices", name, *path[2:])
        edits.append((place, relative(value_at(data, place), value)))
    return list({place: (place, v) for place, v in edits}.values())


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
