"""A what-if file: named changes, and inputs whose values are combined.

runs:
  - name: no-spot-dearer-h100
    set: {prices.h100.on_demand: +20%}
    without: [spot]
grid:
  workloads.support-chat.slo.ttft_p95: [1s, 2s, 4s]
budgets: [40k, "20k:120k:12"]
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.io.errors import InputError, did_you_mean, shown
from planner.io.strict_yaml import Document, read_yaml
from planner.studies.overrides import Override, Scenario, options_of

KEYS = ("runs", "grid", "budgets")
RUN_KEYS = ("name", "set", "scale", "without", "only")


@dataclass(frozen=True)
class WhatIfFile:
    runs: tuple[Scenario, ...] = ()
    grid: tuple[tuple[Override, ...], ...] = ()
    budgets: tuple[str, ...] = ()


def read_what_if(path: Path | str) -> WhatIfFile:
    """Raises InputError with everything that is wrong with the file's own keys."""
    document = read_yaml(path)
    _check(document, (), document.data, dict, "a mapping", "Write runs:, grid: or budgets:")
    _known(document, (), document.data, KEYS)
    data: dict[str, Any] = document.data
    runs, names = [], set()
    for k, entry in enumerate(_list(document, ("runs",), data.get("runs"))):
        run = _run(document, k, entry)
        if run.name in names:
            raise _wrong(document, ("runs", k, "name"), f"{shown(run.name)} was given before", "Choose another name")
        names.add(run.name)
        runs.append(run)
    grid = []
    for key, values in _map(document, ("grid",), data.get("grid")).items():
        listed = values if isinstance(values, list) else [values]
        grid.append(tuple(Override("set", key, flow(v)) for v in listed))
    budgets = tuple(flow(b) for b in _list(document, ("budgets",), data.get("budgets")))
    return WhatIfFile(tuple(runs), tuple(grid), budgets)


def _run(document: Document, k: int, entry: Any) -> Scenario:
    at = ("runs", k)
    _check(document, at, entry, dict, "a mapping", "Write {name: dearer, set: {prices.h100.on_demand: +20%}}")
    _known(document, at, entry, RUN_KEYS)
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip() or name == "base":
        raise _wrong(document, (*at, "name"), "each run needs a name of its own", "Write name: dearer-gpus")
    changes = [Override("set", key, flow(v)) for key, v in _map(document, (*at, "set"), entry.get("set")).items()]
    for key, v in _map(document, (*at, "scale"), entry.get("scale")).items():
        changes += options_of("scale", f"{key}={flow(v)}")[:1]
    for key, v in _map(document, (*at, "only"), entry.get("only")).items():
        changes.append(Override("only", key, flow(v).removeprefix("[").removesuffix("]")))
    changes += [Override("without", flow(v), "yes") for v in _list(document, (*at, "without"), entry.get("without"))]
    if not changes:
        raise _wrong(document, at, "changes nothing", "Write set, scale, without or only")
    return Scenario(tuple(changes), name)


def flow(value: Any) -> str:
    """A value as it would be written on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ", ".join(flow(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {flow(v)}" for k, v in value.items()) + "}"
    return str(value)


def _map(document: Document, at: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    _check(document, at, {} if value is None else value, dict, "a mapping", "Write path: value")
    return value or {}


def _list(document: Document, at: tuple[str | int, ...], value: Any) -> list[Any]:
    _check(document, at, [] if value is None else value, list, "a list", "Write [a, b]")
    return value or []


def _known(document: Document, at: tuple[str | int, ...], data: dict[str, Any], known: tuple[str, ...]) -> None:
    unknown = [key for key in data if key not in known]
    if unknown:
        raise InputError(
            document.diagnostic((*at, k), f"unknown key {shown(k)}", did_you_mean(k, known), at_key=True)
            for k in unknown
        )


def _check(document: Document, at: tuple[str | int, ...], value: Any, kind: type, what: str, remedy: str) -> None:
    if not isinstance(value, kind):
        raise _wrong(document, at, f"expected {what}, got {shown(value)}", remedy)


def _wrong(document: Document, at: tuple[str | int, ...], message: str, remedy: str) -> InputError:
    return InputError([document.diagnostic(at, message, remedy)])
