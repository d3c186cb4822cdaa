"""Scenarios of a demand file: each is the file with some changes, read again, and compared with it month by month."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from planner.case.case import Scenario, Workload
from planner.case.demand.diagnostics import Diagnostics
from planner.case.demand.future.edits import clashes, put, relative, value_at
from planner.case.demand.future.month_factors import check_size, check_steps, month_factors
from planner.case.demand.future.paths import resolved
from planner.case.demand.future_schema import ScenarioSpec
from planner.case.demand.schema import DemandFile
from planner.case.demand.workload_schema import WorkloadSpec
from planner.case.horizon import MONTHS_OF_A_QUARTER
from planner.io.errors import Diagnostic, InputError, Path, dotted
from planner.io.validation import validate

AS_FORECAST = "as forecast"
"""the one scenario of a file that has none"""
RATE_KEYS = ("requests_per_day", "hourly")
FORECAST_KEYS = (*RATE_KEYS, "growth_per_month")
DATE_KEYS = ("from", "until", "steps")

Factors = dict[str, tuple[float, ...]]
ReadWorkload = Callable[[WorkloadSpec, int, Diagnostics], Workload]


class ScenarioReader:
    def __init__(
        self, spec: DemandFile, workloads: tuple[Workload, ...], read: ReadWorkload, found: Diagnostics
    ) -> None:
        self.spec, self.workloads, self.read, self.found = spec, workloads, read, found
        self.months = MONTHS_OF_A_QUARTER * (spec.horizon or 1)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Scenarios in the order of the file, or the one that the file is; mistakes go to the diagnostics."""
        given = self.spec.scenarios
        base = {w.name: self._factors(w, k, 1.0, self.found) for k, w in enumerate(self.spec.workloads)}
        if not given:
            return (Scenario(name=AS_FORECAST, probability_frac=1.0, month_factors=base),)
        return tuple(s for k, each in enumerate(given) if (s := self._scenario(each, k, base)) is not None)

    def _scenario(self, given: ScenarioSpec, k: int, base: Factors) -> Scenario | None:
        here: Path = ("scenarios", k)
        before = len(self.found.diagnostics)
        data, places = self._edited(given, (*here, "changes"))
        if len(self.found.diagnostics) > before:
            return None
        try:
            spec = validate(DemandFile, replace(self.found.document, data=data))
        except InputError as error:
            self.found.diagnostics += [self._attributed(d, places, here) for d in error.diagnostics]
            return None
        changed = {}
        for i in sorted({path[1] for path in places if isinstance(path[1], int)}):
            w, noted = spec.workloads[i], Diagnostics(self.found.document)
            rates = any(path[:3] == ("workloads", i, "forecast") and path[3] in RATE_KEYS for path in places)
            changed[w.name] = self._factors(w, i, self._scale(w, i, noted) if rates else 1.0, noted)
            self.found.diagnostics += [self._attributed(d, places, here) for d in noted.diagnostics]
        return Scenario(name=given.name, probability_frac=given.probability, month_factors=base | changed)

    def _edited(self, given: ScenarioSpec, here: Path) -> tuple[Any, dict[Path, Path]]:
        """The file's data with the changes, and where each changed value is written."""
        document = self.found.document
        data, places = copy.deepcopy(document.data), dict[Path, Path]()
        for key, value in given.changes.items():
            at = (*here, key)
            try:
                path = resolved(key, data, document.file) if key.startswith("workloads.") else (key,)
            except InputError as error:
                wrong = (document.diagnostic(at, d.message, d.remedy, at_key=True) for d in error.diagnostics)
                self.found.diagnostics += wrong
                continue
            if not _is_volume(path):
                remedy = "Change requests_per_day, growth_per_month, from, until or steps of a workload"
                self.found.diagnostics.append(document.diagnostic(at, "is no volume of demand", remedy, at_key=True))
            elif clashes(path, places):
                self.found.diagnostics.append(
                    document.diagnostic(at, f"{dotted(path)} is changed twice", "Keep one of the two", at_key=True)
                )
            else:
                put(data, path, relative(value_at(data, path), value))
                places[path] = at
        return data, places

    def _factors(self, w: WorkloadSpec, k: int, scale: float, found: Diagnostics) -> tuple[float, ...]:
        """Factors of a workload over the rates that the file itself has."""
        assert self.spec.starts is not None
        factors = month_factors(w, self.spec.starts, self.months, scale)
        check_steps(w, ("workloads", k), self.spec.starts, found)
        check_size(w, self.workloads[k], factors, ("workloads", k), self.spec.starts, found)
        return factors

    def _scale(self, w: WorkloadSpec, k: int, found: Diagnostics) -> float:
        """Requests of a changed workload over those of the file, which come at the same hours."""
        changed, base = (_hours(x) for x in (self.read(w, k, found), self.workloads[k]))
        scale = float(changed.sum() / base.sum())
        if not np.allclose(changed, scale * base, rtol=1e-9, atol=1e-12 * scale * base.max()):
            path = ("workloads", k, "forecast", "hourly")
            message = "changes at which hours requests come, not only how many"
            found.complain(path, message, "Give the same numbers, all times one factor")
        return scale

    def _attributed(self, diagnostic: Diagnostic, places: dict[Path, Path], here: Path) -> Diagnostic:
        """A mistake where the change is written that makes it: of this value, else of this workload."""
        document, where, message = self.found.document, diagnostic.where, diagnostic.message
        for path, written in places.items():
            changed = dotted(path)
            if where.startswith(changed) or changed.startswith(where or "?"):
                return document.diagnostic(written, message, diagnostic.remedy)
        at = next((written for path, written in places.items() if where.startswith(dotted(path[:2]))), here)
        return document.diagnostic(at, f"{where} {message}", diagnostic.remedy)


def _is_volume(path: Path) -> bool:
    inside = path[2:]
    of_forecast = len(inside) >= 2 and inside[0] == "forecast" and inside[1] in FORECAST_KEYS
    return path[0] == "workloads" and (of_forecast or (len(inside) >= 1 and inside[0] in DATE_KEYS))


def _hours(w: Workload) -> np.ndarray:
    return np.array([*w.weekday_rps, *w.weekend_rps])
