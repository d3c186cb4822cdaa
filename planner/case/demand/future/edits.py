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

PRICED = ("on_demand", "spot", "reserved_1y", "reserved_3y")
"""prices of an hour"""


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
    factor, before = _factor(value), value_at(data, path)
    if factor is not None and factor <= 0 and (path[0] == "prices" or relative(before, value) != value):
        raise input_error(
            where,
            f"{value} leaves nothing of {shown(before)}"
            if before is not None
            else f"{value} leaves nothing of the price",
            "Write a change above -100%, such as -50%",
        )
    if path[:1] != ("prices",) or len(path) < 2:
        return [(path, relative(value_at(data, path), value))]
    if offers_called(str(path[1]), may_join or {}):
        return [_price(path, value, data, offers, where)]
    return _priced(path, value, data, gpus, offers, where)


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
        return [_price(path, value, data, offers, where)]
    own = data.get("prices") or {}
    mine = {key: offer for key, offer in offers.items() if offer.gpu == gpu}
    sizes = sorted({offer.gpus for offer in mine.values()})
    if len(sizes) > 1 and len(path) == 3 and _factor(value) is None:
        message = f"is one price for boxes of {', '.join(map(str, sizes[:-1]))} and {sizes[-1]} GPUs"
        example = ".".join(["prices", next(iter(mine)).split("@")[0], str(path[2])])
        raise input_error(where, message, f"Write a change such as -10%, or $/h of one: {example}")
    edits: list[tuple[Path, Any]] = []
    for key in mine:
        name = key if key in own else key.split("@")[0] if key.split("@")[0] in own else key
        edits.append(_price(("prices", name, *path[2:]), value, data, offers, where))
    return list({place: (place, v) for place, v in edits}.values())


def _price(path: Path, value: Any, data: Any, offers: dict[str, Offer], where: str) -> tuple[Path, Any]:
    """A price that becomes another; percentages are on the price that the menu has.

    In a file, they are on the price on demand, or on that of the catalog.
    """
    before, factor = value_at(data, path), _factor(value)
    changed = relative(before, value)
    called = [offers[key] for key in offers_called(str(path[1]), offers)]
    if len(path) != 3 or factor is None or factor <= 0 or changed != value or not called:
        return path, changed
    if path[2] not in PRICED or (path[2] == "on_demand" and before is None):
        return path, value
    prices = {_usd_per_h(offer, str(path[2])) for offer in called}
    usd_per_h = prices.pop()
    if usd_per_h is None or prices:
        message = f"{path[1]} has no price" if usd_per_h is None else f"prices of {path[1]} differ by region"
        raise input_error(where, f"{message} that {value} could be a change of", "Write the price itself, in $/h")
    return path, f"${_plain(usd_per_h * factor)}/h"


def _usd_per_h(offer: Offer, way: str) -> float | None:
    if way == "spot":
        return offer.prices.spot.p50_usd_per_h if offer.prices.spot else None
    price = {
        "on_demand": offer.prices.on_demand,
        "reserved_1y": offer.prices.reserved_1y,
        "reserved_3y": offer.prices.reserved_3y,
    }[way]
    return price.usd_per_h if price else None


def relative(before: Any, value: Any) -> Any:
    """+20% and -20% scale an amount that the file has; on anything else they are a value like any other."""
    factor = _factor(value)
    if factor is None or before is None or isinstance(before, bool | list | dict):
        return value
    if isinstance(before, int | float):
        return _plain(before * factor)
    amount = _SCALABLE.fullmatch(before) if len(before) <= 64 else None
    if amount is None:
        return value
    number = float(re.sub("[,_]", "", amount[2])) * factor
    return f"{amount[1] or ''}{_plain(number)}{amount[3]}"


def _factor(value: Any) -> float | None:
    """1.2 of +20%; None of anything else."""
    match = _RELATIVE.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else 1 + float(match[1] + match[2]) / 100


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
