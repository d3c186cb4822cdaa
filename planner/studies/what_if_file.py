"""A what-if file: named changes, and inputs whose values are combined.

runs:
  - name: no-spot-expensive-h100
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

from pydantic import model_validator

from planner.io.errors import shown
from planner.io.strict_yaml import read_yaml
from planner.io.validation import FieldProblem, FieldProblems, Strict, validate
from planner.studies.overrides import Override, Scenario, flow, options_of

BASE = "base"
"""the name of the case as it is"""
Mapping = dict[str, Any] | None
List = tuple[Any, ...] | None
"""either may be left empty"""


class RunSpec(Strict):
    """Changes that are made together."""

    name: str
    """Name of the run, such as expensive-gpus."""
    set: Mapping = None
    scale: Mapping = None
    only: Mapping = None
    without: List = None

    @model_validator(mode="after")
    def _is_named_and_changes_something(self) -> RunSpec:
        problems = []
        if not self.name.strip() or self.name == BASE:
            problems.append(FieldProblem(("name",), "each run needs a name of its own", "Write name: expensive-gpus"))
        if not (self.set or self.scale or self.only or self.without):
            problems.append(FieldProblem((), "changes nothing", "Write set, scale, without or only"))
        if problems:
            raise FieldProblems(problems)
        return self

    @property
    def scenario(self) -> Scenario:
        changes = [Override("set", key, flow(v)) for key, v in (self.set or {}).items()]
        for key, v in (self.scale or {}).items():
            changes += options_of("scale", f"{key}={flow(v)}")[:1]
        changes += [Override("only", key, ", ".join(_flows(v))) for key, v in (self.only or {}).items()]
        changes += [Override("without", flow(v), "yes") for v in self.without or ()]
        return Scenario(tuple(changes), self.name)


class WhatIfSpec(Strict):
    """A what-if file as it is written."""

    runs: tuple[RunSpec, ...] | None = None
    grid: Mapping = None
    budgets: List = None

    @model_validator(mode="after")
    def _names_differ(self) -> WhatIfSpec:
        names = [run.name for run in self.runs or ()]
        again = [
            FieldProblem(("runs", k, "name"), f"{shown(name)} was given before", "Choose another name")
            for k, name in enumerate(names)
            if name in names[:k]
        ]
        if again:
            raise FieldProblems(again)
        return self


@dataclass(frozen=True)
class WhatIfFile:
    runs: tuple[Scenario, ...] = ()
    grid: tuple[tuple[Override, ...], ...] = ()
    budgets: tuple[str, ...] = ()


def read_what_if(path: Path | str) -> WhatIfFile:
    """Raises InputError with everything that is wrong with the file's own keys."""
    spec = validate(WhatIfSpec, read_yaml(path))
    grid = tuple(
        tuple(Override("set", key, value) for value in _flows(values)) for key, values in (spec.grid or {}).items()
    )
    return WhatIfFile(tuple(run.scenario for run in spec.runs or ()), grid, tuple(flow(b) for b in spec.budgets or ()))


def _flows(value: Any) -> list[str]:
    """Every value of a list, or the one that is given."""
    return [flow(v) for v in value] if isinstance(value, list) else [flow(value)]
