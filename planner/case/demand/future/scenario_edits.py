"""A scenario's changes laid over the data of its demand file: which paths it may change, and where they are written."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.case.demand.diagnostics import Diagnostics
from planner.case.demand.future.edits import clashes, edits_of, put
from planner.case.demand.future.paths import split
from planner.case.demand.future_schema import ScenarioSpec
from planner.case.demand.schema import DemandFile
from planner.catalog.entries import Gpu, Offer
from planner.io.errors import Diagnostic, InputError, Path, dotted, input_error

RATE_KEYS = ("requests_per_day", "hourly")
FORECAST_KEYS = (*RATE_KEYS, "growth_per_month")
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
    found: Diagnostics

    def laid_over(self, wanted: Callable[[Path], bool]) -> tuple[Any, dict[Path, Path]]:
        """The file's data with some of the changes, and where each changed value is written.

        Paths that no scenario may change go to the diagnostics.
        """
        document = self.found.document
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
                self.found.diagnostics += [d for d in wrong if d not in self.found.diagnostics]
                continue
            for path, changed in edits:
                if wanted(path):
                    put(data, path, changed)
                    places[path] = at
        return data, places

    def complain(self, wrong: Iterable[Diagnostic], places: dict[Path, Path]) -> None:
        """Name mistakes where the change is written that makes them: of this value, else of this workload."""
        self.found.diagnostics += [self._attributed(d, places) for d in wrong]

    def _attributed(self, diagnostic: Diagnostic, places: dict[Path, Path]) -> Diagnostic:
        document, where, message = self.found.document, diagnostic.where, diagnostic.message
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
        why = SHARED.get(top, "it is the same in all scenarios")
        raise input_error(where, f"cannot differ between scenarios: {why}", "Compare with what-if, or leave it out")


def check_path(path: Path, others: Iterable[Path]) -> None:
    """Raise InputError where a scenario may not change what is there."""
    where = dotted(path)
    if clashes(path, others):
        raise input_error(where, f"{where} is changed twice", "Keep one of the two")
    if path in (("policy", "max_liability"), ("policy", "risk")):
        message = "cannot differ between scenarios: it is about all of them"
        raise input_error(where, message, "Write it under 'policy' itself, or compare with what-if")
    if len(path) == 1 or (path[0] == "workloads" and (len(path) == 2 or path[2:] == ("forecast",))):
        raise input_error(where, "is more than one value", f"Write a longer path, such as {_longer(path)}")
    if path[0] == "workloads" and path[2] == "name":
        raise input_error(where, "is how scenarios tell workloads apart", "Leave it out")
    if path[0] == "workloads" and path[2] == "forecast" and path[3] in ("shape", "csv", "columns"):
        message = "changes at which hours requests come, not only how many"
        raise input_error(where, message, "Change requests_per_day, growth_per_month or steps")


def _longer(path: Path) -> str:
    if path[0] == "workloads":
        return "workloads.chat.forecast.requests_per_day"
    return {"menu": "menu.purchase", "prices": "prices.h100.on_demand", "policy": "policy.min_replicas"}.get(
        str(path[0]), "catalog.apis"
    )
