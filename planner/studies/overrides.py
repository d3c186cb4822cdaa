"""Changes to a case as people write them, applied to the demand file before it is read: every rule of reading holds.

--set PATH=VALUE[,VALUE...]     a value as in the file; +20% and -20% scale what the file has there
--scale demand=0.5:4:8          from:to:count, evenly on a logarithmic scale, or single multiples 0.5,1,2; also a
                                workload's, or gpu-prices, api-prices, ttft or tpot of all of them
--without spot                  a way to buy, a GPU, a kind of cache, api, sharing, deferral
--only gpus=l4,a100-80gb        a list of the menu
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path as FilePath
from typing import Any, get_args

from planner.case.case import CACHE_KINDS, Case
from planner.case.changes import (
    Change,
    multiplied,
    with_api_prices,
    with_gpu_prices,
    with_targets,
    with_workload,
)
from planner.case.demand.future.edits import clashes, edits_of, put
from planner.case.demand.load import DEFAULT_PURCHASE, case_of_document
from planner.case.demand.schema import MenuSpec, PurchaseName
from planner.catalog.entries import find, names_of
from planner.io.errors import InputError, Path, did_you_mean, dotted, input_error, shown
from planner.io.named_files import NamedFiles
from planner.io.strict_yaml import parse_yaml, read_yaml
from planner.io.units import parse_positive_count
from planner.levers import SWITCHES

MOST_VALUES, MOST_RUNS = 1000, 10_000
SCALES: dict[str, Callable[[float], Change]] = {
    "demand": multiplied,
    "gpu-prices": with_gpu_prices,
    "api-prices": with_api_prices,
    "ttft": partial(with_targets, "ttft"),
    "tpot": partial(with_targets, "tpot"),
}
"""what of a whole case can be multiplied"""
LISTS = ("gpus", "quantizations", "purchase", "providers", "regions", "apis", "caching", "parallelism", "speculation")
PURCHASES = get_args(PurchaseName)


@dataclass(frozen=True)
class Override:
    """One value of one input."""

    kind: str
    """set, scale, without, only or shed"""
    key: str
    """the input: its path, as it was written"""
    text: str
    """the value, as it was written"""

    @property
    def option(self) -> str:
        if self.kind in ("without", "shed"):
            return f"--{self.kind} {self.key if self.kind == 'without' else self.text}"
        return f"--{self.kind} {self.key}={self.text}"

    @property
    def column(self) -> str:
        """Header of its column in the table."""
        return {"without": f"without {self.key}", "only": f"only {self.key}", "scale": f"scale {self.key}"}.get(
            self.kind, self.key
        )


@dataclass(frozen=True)
class Scenario:
    """A case with some changes; its name is what it changes where nobody gave it one."""

    changes: tuple[Override, ...] = ()
    name: str = ""

    @property
    def label(self) -> str:
        return self.name or ", ".join(_said(c) for c in self.changes) or "base"


def _said(c: Override) -> str:
    if c.kind == "scale":
        return f"{c.key} x {c.text}"
    return f"without {c.key}" if c.kind == "without" else f"{c.column}={c.text}"


class Source:
    """A demand file that is read once and changed many times."""

    def __init__(self, file: FilePath | str | Case, files: NamedFiles | None = None) -> None:
        """Also of a case that was read from a demand file, and is still what that file says."""
        if isinstance(file, Case):
            self.document, self.stem, self.files = file.origin.document, file.origin.default_name, file.origin.files
        else:
            self.files = files or NamedFiles()
            self.files.check_given(file)
            self.document = read_yaml(file)
            self.stem = FilePath(file).stem
        self.case = case_of_document(self.document, self.stem, self.files)
        if isinstance(file, Case) and file != self.case:
            message = "no longer matches its demand file, so changes by path would be lost"
            raise input_error(file.name, message, "Make all changes in one step, or to the file")

    def changed(self, run: Scenario) -> Case:
        """The case of a run; what is wrong with a change is said with the option that made it."""
        if not run.changes:
            return self.case
        data = copy.deepcopy(self.document.data)
        places: list[tuple[Path, Override]] = []
        for change in sorted((c for c in run.changes if c.kind != "scale"), key=lambda c: (c.kind, c.key, c.text)):
            for path, value in self._edits(change, data):
                both_leave_out = change.kind == "without" and all(c.kind == "without" for p, c in places if p == path)
                if not both_leave_out and clashes(path, [p for p, _ in places]):
                    raise input_error(change.option, f"{dotted(path)} is changed twice", "Keep one of the two")
                put(data, path, value)
                places.append((path, change))
        try:
            case = case_of_document(replace(self.document, data=data), self.stem, self.files)
        except InputError as error:
            raise InputError([_attributed(c, places) for c in error.diagnostics]) from None
        for change in run.changes:
            if change.kind == "scale":
                case = self._scaled(case, change)
        return case

    def _edits(self, change: Override, data: Any) -> list[tuple[Path, Any]]:
        if change.kind == "without":
            return [self._without(change, data)]
        if change.kind == "only":
            return [_only(change)]
        if change.kind == "shed":
            may = [k for k, w in enumerate(data["workloads"]) if "shed" not in w]
            return [(("workloads", k, "shed"), {"priority": change.text}) for k in may]
        value = parsed_value(change.text, change.option)
        return edits_of(change.key, value, data, self.case.gpus, self.case.offers, change.option)

    def _without(self, change: Override, data: Any) -> tuple[Path, Any]:
        menu, name = data.get("menu") or {}, change.key
        if name in SWITCHES:
            return ("menu", SWITCHES[name].key), SWITCHES[name].value
        if name in PURCHASES:
            given = list(menu.get("purchase") or DEFAULT_PURCHASE)
            return ("menu", "purchase"), _less(given, [name], name, change)
        if name in CACHE_KINDS:
            return ("menu", "caching"), [c for c in (menu.get("caching") or CACHE_KINDS) if c != name]
        for key in ("gpus", "quantizations", "providers", "regions"):
            entries = getattr(self.case, key, None) or sorted(
                {getattr(o, key[:-1]) for o in self.case.offers.values()} if key in ("providers", "regions") else ()
            )
            found = find(name, entries) if isinstance(entries, dict) else name if name in entries else None
            if found is not None:
                left = [find(n, entries) if isinstance(entries, dict) else n for n in menu.get(key) or entries]
                return ("menu", key), _less([n for n in left if n], [found], name, change)
        known = [*PURCHASES, *SWITCHES, *CACHE_KINDS, *names_of(self.case.gpus), *self.case.quantizations]
        raise input_error(
            "--without",
            f"{shown(name)} is not something to leave out",
            did_you_mean(name, known) or "Try spot, api or a GPU",
        )

    def _scaled(self, case: Case, change: Override) -> Case:
        factor = parse_positive_count(change.text)
        if change.key in SCALES:
            return SCALES[change.key](factor)(case)
        name = change.key.removeprefix("workloads.")
        workload = next((w for w in case.workloads if w.name == name), None)
        if workload is None:
            known = [*SCALES, *(w.name for w in case.workloads)]
            remedy = did_you_mean(name, known) or f"Scale {', '.join(SCALES)}, or a workload by its name"
            raise input_error(change.option, f"there is nothing called {shown(name)} to scale", remedy)
        rates = {d: tuple(factor * r for r in getattr(workload, d)) for d in ("weekday_rps", "weekend_rps")}
        return with_workload(name, **rates)(case)


def changed_case(case: Case, changes: Mapping[str, object]) -> Case:
    """A case with other values of inputs; each is text as after `--set PATH=`, or a value as in the file."""
    overrides = [_one_value(path, value) for path, value in changes.items()]
    return Source(case).changed(Scenario(tuple(overrides)))


def _one_value(path: str, value: object) -> Override:
    values = options_of("set", f"{path}={flow(value)}")
    if len(values) != 1:
        remedy = "Give one; planner.what_if(case, changes=...) plans several"
        raise input_error(f"--set {path}", f"{shown(value)} stands for {len(values)} values", remedy)
    return values[0]


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


def _less(given: list[str], gone: Sequence[str], name: str, change: Override) -> list[str]:
    left = [x for x in given if x not in gone]
    if len(left) == len(given):
        raise input_error(change.option, f"{shown(name)} is not on the menu", f"The menu has {', '.join(given)}")
    if not left:
        raise input_error(
            change.option, f"would leave nothing: {shown(name)} is the only entry", "Leave something else out"
        )
    return left


def _only(change: Override) -> tuple[Path, Any]:
    if change.key not in LISTS:
        raise input_error(
            change.option, f"the menu has no list {shown(change.key)}", did_you_mean(change.key, LISTS) or LISTS[0]
        )
    assert change.key in MenuSpec.model_fields
    return ("menu", change.key), [part for part in pieces(change.text) if part]


def parsed_value(text: str, option: str) -> Any:
    """A value as YAML reads it, with its complaints."""
    if not text.strip():
        raise input_error(option, "the value is missing", "Write path=value, such as policy.min_replicas=3")
    if "\n" in text or "\r" in text:
        raise input_error(option, "the value has more than one line", "Write lists as [a, b]")
    try:
        return parse_yaml(text, option).data
    except InputError as error:
        raise InputError([replace(c, file=option, line=None, column=None) for c in error.diagnostics]) from None


def _attributed(diagnostic: Any, places: list[tuple[Path, Override]]) -> Any:
    for path, change in places:
        said = dotted(path)
        if diagnostic.where.startswith(said) or said.startswith(diagnostic.where or "?"):
            return replace(diagnostic, file=change.option, line=None, column=None)
    options = "; ".join(change.option for _, change in places)
    return replace(diagnostic, file=options, line=None, column=None)


def pieces(text: str) -> list[str]:
    """Values between commas; brackets, braces and quotes keep theirs."""
    parts, depth, quote, start = [], 0, "", 0
    for k, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "[{":
            depth += 1
        elif c in "]}":
            depth -= 1
        elif c == "," and depth <= 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()]


def steps(text: str, option: str, log: bool) -> list[float]:
    """`from:to:count`, evenly on a logarithmic or a linear scale, or one number."""
    parts = text.split(":")
    if len(parts) not in (1, 3):
        raise input_error(option, f"expected a number or from:to:count, got {shown(text)}", "Write 20k:120k:12")
    try:
        low = parse_positive_count(parts[0].strip().removeprefix("$"))
        if len(parts) == 1:
            return [low]
        high, count = parse_positive_count(parts[1].strip().removeprefix("$")), parse_positive_count(parts[2].strip())
    except ValueError as error:
        raise input_error(option, str(error).rstrip(".")) from None
    if high <= low or count != int(count) or not 2 <= count <= MOST_VALUES:
        message = f"{shown(text)} is not a range: it needs from < to, and 2 to {MOST_VALUES} steps"
        raise input_error(option, message, "Write 20k:120k:12")
    shares = [k / (int(count) - 1) for k in range(int(count))]
    between = [low * (high / low) ** s if log else low + (high - low) * s for s in shares]
    return [float(f"{x:.6g}") for x in between[:-1]] + [high]


def options_of(kind: str, text: str) -> list[Override]:
    """The values that one option on the command line stands for."""
    option = f"--{kind} {text}"
    if kind == "without":
        return [Override(kind, text.strip(), "yes")]
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        examples = {"set": "policy.min_replicas=3", "scale": "demand=0.5:4:8", "only": "gpus=l4,a100-80gb"}
        raise input_error(option, "expected name=value", f"Write --{kind} {examples[kind]}")
    key = key.strip()
    if kind == "only":
        return [Override(kind, key, values.strip())]
    if kind == "scale":
        factors = [f for part in pieces(values) for f in steps(part, option, log=True)]
        return [Override(kind, key, f"{f:g}") for f in factors]
    found = [Override(kind, key, part) for part in pieces(values)]
    if len(found) > MOST_VALUES:
        raise input_error(option[:60], f"stands for more than {MOST_VALUES} values", "Give fewer")
    return found


def grid(
    inputs: Sequence[Sequence[Override]], one_at_a_time: bool = False, named: Sequence[Scenario] = ()
) -> list[Scenario]:
    """The case as it is, then every combination of the inputs' values, or each value by itself."""
    if one_at_a_time:
        runs = [Scenario((change,)) for values in inputs for change in values]
    else:
        total = 1
        for values in inputs:
            total *= len(values)
        if total > MOST_RUNS:
            raise input_error("what-if", f"the grid has {total:,} runs, more than {MOST_RUNS:,}", "Give fewer values")
        runs = [Scenario(combination) for combination in product(*inputs)] if inputs else []
    if named:
        crossed = [Scenario((*n.changes, *r.changes), f"{n.name}: {r.label}") for n in named for r in runs]
        runs = [*named, *runs, *crossed] if runs and not one_at_a_time else [*named, *runs]
    return [Scenario(), *runs]
