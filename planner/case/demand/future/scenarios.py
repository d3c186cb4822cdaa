"""Scenarios of a demand file: each is the file with some changes, whose demand is compared with it month by month.

What else they change begins after the first quarter: planner/case/demand/future/amendments.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from planner.case.case import Scenario, Workload
from planner.case.demand.diagnostics import Diagnostics
from planner.case.demand.future.forecast_scenarios import Factors, forecast_scenarios
from planner.case.demand.future.month_factors import check_size, check_steps, month_factors
from planner.case.demand.future.scenario_edits import RATE_KEYS, ScenarioEdits, is_volume
from planner.case.demand.future_schema import ForecastScenarios, ScenarioSpec
from planner.case.demand.schema import DemandFile
from planner.case.demand.usage import LoggedHours
from planner.case.demand.workload_schema import WorkloadSpec
from planner.case.horizon import MONTHS_OF_A_QUARTER
from planner.catalog.entries import Gpu, Offer
from planner.io.errors import InputError
from planner.io.validation import validate

AS_FORECAST = "as forecast"
"""the one scenario of a file that has none"""

ReadWorkload = Callable[[WorkloadSpec, int, Diagnostics], Workload]


class ScenarioReader:
    def __init__(
        self,
        spec: DemandFile,
        workloads: tuple[Workload, ...],
        logged: Mapping[str, LoggedHours],
        menu: tuple[Mapping[str, Gpu], dict[str, Offer], dict[str, Offer]],
        read: ReadWorkload,
        found: Diagnostics,
    ) -> None:
        """`logged` is what logs have of workloads, `menu` its GPUs and offers, and all offers of the catalog."""
        self.spec, self.workloads, self.logged, self.menu = spec, workloads, logged, menu
        self.read, self.found = read, found
        self.months = MONTHS_OF_A_QUARTER * (spec.horizon or 1)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Scenarios in the order of the file, or the one that the file is; mistakes go to the diagnostics.

        They have the volume of their demand; what else they change is still to come.
        """
        given = self.spec.listed_scenarios
        base = {w.name: self._factors(w, k, 1.0, self.found) for k, w in enumerate(self.spec.workloads)}
        if isinstance(self.spec.scenarios, ForecastScenarios):
            return self._from_forecast(base)
        if not given:
            return (Scenario(name=AS_FORECAST, probability_frac=1.0, month_factors=base),)
        return tuple(s for k, each in enumerate(given) if (s := self._scenario(each, k, base)) is not None)

    def _scenario(self, given: ScenarioSpec, k: int, base: Factors) -> Scenario | None:
        before = len(self.found.diagnostics)
        edits = self.edits(given, k)
        data, places = edits.laid_over(is_volume)
        if len(self.found.diagnostics) > before:
            return None
        try:
            spec = validate(DemandFile, replace(self.found.document, data=data))
        except InputError as error:
            edits.complain(error.diagnostics, places)
            return None
        changed = {}
        for i in sorted({path[1] for path in places if isinstance(path[1], int)}):
            w, noted = spec.workloads[i], Diagnostics(self.found.document)
            rates = any(path[:3] == ("workloads", i, "forecast") and path[3] in RATE_KEYS for path in places)
            changed[w.name] = self._factors(w, i, self._scale(w, i, noted) if rates else 1.0, noted)
            edits.complain(noted.diagnostics, places)
        return Scenario(name=given.name, probability_frac=given.probability, month_factors=base | changed)

    def _from_forecast(self, base: Factors) -> tuple[Scenario, ...]:
        assert self.spec.starts is not None
        found = forecast_scenarios(self.spec, base, self.logged, self.found)
        for s in found:
            for k, w in enumerate(self.spec.workloads):
                factors, path = s.month_factors[w.name], ("workloads", k)
                check_size(w, self.workloads[k], factors, path, self.spec.starts, self.found)
        return found

    def edits(self, given: ScenarioSpec, k: int) -> ScenarioEdits:
        return ScenarioEdits(given, ("scenarios", k), *self.menu, self.found)

    def _factors(self, w: WorkloadSpec, k: int, scale: float, found: Diagnostics) -> tuple[float, ...]:
        """Factors of a workload over the rates that the file itself has."""
        assert self.spec.starts is not None
        factors = month_factors(w, self.spec.starts, self.months, scale)
        check_steps(w, ("workloads", k), self.spec.starts, found)
        check_size(w, self.workloads[k], factors, ("workloads", k), self.spec.starts, found)
        return factors

    def _scale(self, w: WorkloadSpec, k: int, found: Diagnostics) -> float:
        """Requests of a changed workload over those of the file, which come at the same hours."""
        changed, base = (hours_of(x) for x in (self.read(w, k, found), self.workloads[k]))
        scale = float(changed.sum() / base.sum())
        if not np.allclose(changed, scale * base, rtol=1e-9, atol=1e-12 * scale * base.max()):
            path = ("workloads", k, "forecast", "hourly")
            message = "changes at which hours requests come, not only how many"
            found.complain(path, message, "Give the same numbers, all times one factor")
        return scale


def hours_of(w: Workload) -> np.ndarray:
    return np.array([*w.weekday_rps, *w.weekend_rps])
