"""Changes to the data of a demand file before it is read, so that every rule of reading holds for them too.

A path is `workloads.support-chat.slo.ttft_p95` or `prices.h100.on_demand`: a workload is addressed by its name. Keys
with dots in them, such as aws/p5.48xlarge, are taken whole where the file has them, and where a mapping of any names
ends with a known key or a value: `prices.aws/p5.48xlarge.on_demand`; else quote them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from planner.case.demand.future_schema import ScenarioSpec
from planner.case.demand.notes import Notes
from planner.case.demand.overrides import offers_called
from planner.case.demand.schema import DemandFile
from planner.catalog.entries import Gpu, Offer, find
from planner.io.errors import Diagnostic, InputError, Path, close_match, did_you_mean, dotted, input_error, shown

_PART = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^.'\"]+)")
_RELATIVE = re.compile(r"([+-])([0-9.]+) ?%")
_SCALABLE = re.compile(r"(\$ ?|[uU][sS][dD] ?)?([0-9][0-9_,]*(?:\.[0-9]+)?)( ?[^%]*)")

PRICED = ("on_demand", "spot", "reserved_1y", "reserved_3y")
"""prices of an hour"""
RATE_KEYS = ("requests_per_day", "hourly")
FORECAST_KEYS = (*RATE_KEYS, "growth_per_month", "growth")
DATE_KEYS = ("from", "until", "steps")
TOPS = ("workloads", "menu", "prices", "policy", "catalog")
"""where what a scenario may change is; all else is the same in every scenario"""
SHARED = {
    "have": "what is held is the same in all scenarios",
    "starts": "all scenarios have the same months",
    "horizon": "all scenarios have the same months",
    "unused_after_horizon": "what is signed now must be weighed in one way",
    "scenarios": "each has its own probability",
}


def split(text: str, option: str) -> list[str]:
    """The parts of a path; quotes keep dots together."""
    parts, at = [], 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or not (match[1] or match[2] or match[3]):
            raise input_error(
                option, f"{shown(text)} is not a path", "Write names with dots between: policy.min_replicas"
            )
        parts.append(next(g for g in match.groups() if g is not None))
        at = match.end()
        if at < len(text) and (text[at] != "." or at + 1 == len(text)):
            raise input_error(
                option, f"{shown(text)} is not a path", "Write names with dots between: policy.min_replicas"
            )
        at += 1
    if not parts:
        raise input_error(option, "the path is empty", "Write path=value, such as policy.min_replicas=3")
    return parts


def resolved(text: str, data: Any, option: str) -> Path:
    """The path in the file's data; raises InputError with the keys that exist where it goes astray."""
    parts = split(text, option)
    path: Path = ()
    prefix: list[str] = []
    spec: Any = DemandFile
    here = data
    while parts:
        if isinstance(here, list):
            k, rest = _entry(here, parts, prefix, option)
            prefix.append(".".join(parts[: len(parts) - len(rest)]))
            path, here, spec, parts = (*path, k), here[k], _inside(spec), rest
            continue
        if here is not None and not isinstance(here, dict):
            raise input_error(
                option, f"{shown('.'.join(prefix), 80)} is {shown(here)}: there is nothing below it", "Shorten the path"
            )
        key, parts, spec = _key(here or {}, parts, prefix, spec, option)
        prefix.append(key)
        path, here = (*path, key), (here or {}).get(key)
    return path


def _entry(here: list[Any], parts: list[str], prefix: list[str], option: str) -> tuple[int, list[str]]:
    """A list's entry by its name, or by its place from 1."""
    names = [str(e["name"]) if isinstance(e, dict) and "name" in e else str(k + 1) for k, e in enumerate(here)]
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in names:
            return names.index(".".join(parts[:length])), parts[length:]
    where = ".".join(prefix)
    raise input_error(option, f"{where} has no {shown(parts[0])}", did_you_mean(parts[0], names) or _listed(names))


def _key(
    here: dict[str, Any], parts: list[str], prefix: list[str], spec: Any, option: str
) -> tuple[str, list[str], Any]:
    fields = {f.alias or name: f for name, f in spec.model_fields.items()} if _is_model(spec) else None
    for length in range(len(parts), 0, -1):
        joined = ".".join(parts[:length])
        if joined in here or (fields is not None and joined in fields):
            below = fields[joined].annotation if fields is not None and joined in fields else _inside(spec)
            return joined, parts[length:], _model_in(below) or below
    if fields is None:
        length = _length_of_name(parts, spec)
        return ".".join(parts[:length]), parts[length:], _inside(spec)
    known = list(dict.fromkeys([*here, *fields]))
    where = ".".join(prefix) or "the demand file"
    match, keys = close_match(parts[0], known), _listed(known)
    remedy = keys if match is None else f"did you mean {shown(match)}? {keys}"
    raise input_error(option, f"there is no key {shown(parts[0])} in {where}", remedy)


def _length_of_name(parts: list[str], spec: Any) -> int:
    """How many parts are one key of a mapping of any names: up to a key of what it holds, or all before a value."""
    inside, value_type = _inside(spec), (getattr(spec, "__args__", None) or (None,))[-1]
    if _is_model(inside):
        known = {f.alias or name for name, f in inside.model_fields.items()}
        mistyped = len(parts) > 1 and close_match(parts[-1], sorted(known)) is not None
        return next((k for k in range(1, len(parts)) if parts[k] in known), len(parts) - mistyped)
    is_mapping = getattr(spec, "__origin__", None) is dict
    return (
        len(parts)
        if is_mapping and value_type is not Any and getattr(value_type, "__origin__", None) is not dict
        else 1
    )


def _listed(names: list[str]) -> str:
    return "Known names: " + ", ".join(shown(n)[1:-1] for n in names[:20]) + ("..." if len(names) > 20 else "")


def _is_model(spec: Any) -> bool:
    return isinstance(spec, type) and issubclass(spec, BaseModel)


def _model_in(annotation: Any) -> Any:
    """The one model that an annotation is about, where there is one."""
    if _is_model(annotation):
        return annotation
    args = getattr(annotation, "__args__", ())
    if getattr(annotation, "__origin__", None) in (dict, tuple, list):
        return None
    models = [m for m in (_model_in(a) for a in args) if m is not None]
    return models[0] if len(models) == 1 else None


def _inside(annotation: Any) -> Any:
    """What the values of a mapping or a list are."""
    args = [a for a in getattr(annotation, "__args__", ()) if a not in (Ellipsis, str, type(None))]
    models = [m for m in (_model_in(a) for a in args) if m is not None]
    return models[0] if models else None


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
            f"{value} would leave nothing of {shown(before)}"
            if before is not None
            else f"{value} would leave nothing of the price",
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


@dataclass(frozen=True, eq=False)
class ScenarioEdits:
    """The changes of one scenario."""

    given: ScenarioSpec
    here: Path
    """where the scenario is written"""
    gpus: Mapping[str, Gpu]
    offers: dict[str, Offer]
    """on the menu"""
    catalog: dict[str, Offer]
    """all that a scenario may put there"""
    notes: Notes

    def laid_over(self, wanted: Callable[[Path], bool]) -> tuple[Any, dict[Path, Path]]:
        """The file's data with some of the changes, and where each changed value is written.

        Paths that no scenario may change go to the notes.
        """
        document = self.notes.document
        data, places = copy.deepcopy(document.data), dict[Path, Path]()
        data.pop("scenarios", None)
        for key, value in self.given.changes.items():
            at = (*self.here, "changes", key)
            try:
                check_top(key, document.file)
                edits = edits_of(key, value, data, self.gpus, self.offers, document.file, self.catalog)
                for path, _ in edits:
                    check_path(path, places)
            except InputError as error:
                wrong = [document.diagnostic(at, d.message, d.remedy, at_key=True) for d in error.diagnostics]
                self.notes.mistakes += [d for d in wrong if d not in self.notes.mistakes]
                continue
            for path, changed in edits:
                if wanted(path):
                    put(data, path, changed)
                    places[path] = at
        return data, places

    def complain(self, wrong: Iterable[Diagnostic], places: dict[Path, Path]) -> None:
        """Name mistakes where the change is written that makes them: of this value, else of this workload."""
        self.notes.mistakes += [self._attributed(d, places) for d in wrong]

    def _attributed(self, diagnostic: Diagnostic, places: dict[Path, Path]) -> Diagnostic:
        document, where, message = self.notes.document, diagnostic.where, diagnostic.message
        for path, written in places.items():
            changed = dotted(path)
            if where.startswith(changed) or changed.startswith(where or "?"):
                return document.diagnostic(written, message, diagnostic.remedy)
        at = next((written for path, written in places.items() if where.startswith(dotted(path[:2]))), self.here)
        return document.diagnostic(at, f"{where} {message}", diagnostic.remedy)


def is_volume(path: Path) -> bool:
    """Whether it says how many requests come, and from when to when: what may differ from the first month on."""
    inside = path[2:]
    of_forecast = len(inside) >= 2 and inside[0] == "forecast" and inside[1] in FORECAST_KEYS
    return path[0] == "workloads" and (of_forecast or (len(inside) >= 1 and inside[0] in DATE_KEYS))


def is_other(path: Path) -> bool:
    """Whether it is anything else, which may differ after the first quarter."""
    return not is_volume(path)


def check_top(key: str, where: str) -> None:
    """Raise InputError where a path begins with a key of the file that no scenario may change."""
    top = split(key, where)[0]
    if top in {f.alias or name for name, f in DemandFile.model_fields.items()} - {*TOPS}:
        why = SHARED.get(top, "it must be the same in all scenarios")
        raise input_error(where, f"cannot differ between scenarios: {why}", "Compare with what-if, or leave it out")


def check_path(path: Path, others: Iterable[Path]) -> None:
    """Raise InputError where a scenario may not change what is there."""
    where = dotted(path)
    if clashes(path, others):
        raise input_error(where, f"{where} is changed twice", "Keep one of the two")
    if path in (("policy", "max_liability"), ("policy", "risk"), ("policy", "budget")):
        message = "cannot differ between scenarios: it applies to all of them"
        raise input_error(where, message, "Write it under 'policy' itself, or compare with what-if")
    if len(path) == 1 or (path[0] == "workloads" and (len(path) == 2 or path[2:] == ("forecast",))):
        raise input_error(where, "is more than one value", f"Write a longer path, such as {_longer(path)}")
    if path[0] == "workloads" and path[2] == "name":
        raise input_error(where, "identifies workloads across scenarios", "Leave it out")
    if path[0] == "workloads" and path[2] == "forecast" and path[3] in ("shape", "csv", "columns"):
        message = "changes the hours at which requests come, not only their number"
        raise input_error(where, message, "Change requests_per_day, growth_per_month or steps")


def _longer(path: Path) -> str:
    if path[0] == "workloads":
        return "workloads.chat.forecast.requests_per_day"
    return {"menu": "menu.purchase", "prices": "prices.h100.on_demand", "policy": "policy.min_replicas"}.get(
        str(path[0]), "catalog.apis"
    )
