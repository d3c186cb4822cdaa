"""What the start of a replica is made of: node, image, engine, weights, compilation, graphs, profiling."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from pydantic import Field

from planner.case.case import Case, LinearTime, StartParts
from planner.case.weights import weights_of
from planner.catalog.entries import Sourced, shipped_entries

WeightsFrom = Literal["hub", "shared-volume", "local-disk", "memory"]
SOURCES: tuple[WeightsFrom, ...] = get_args(WeightsFrom)
MACHINE = ("node", "image")
"""parts before an engine can load weights; they end with the instance's own start"""


class StartFact(Sourced):
    """A figure of planner/data/startup.yaml: seconds, or a rate of loading."""

    fixed_s: float = Field(default=0.0, ge=0)
    per_layer_s: float = Field(default=0.0, ge=0)
    gb_per_s: float | None = Field(default=None, gt=0)

    @property
    def time(self) -> LinearTime:
        return LinearTime(fixed_s=self.fixed_s, per_layer_s=self.per_layer_s)

    @property
    def rate(self) -> float:
        assert self.gb_per_s is not None
        return self.gb_per_s


@cache
def start_facts() -> dict[str, StartFact]:
    return {name: StartFact(**entry) for name, entry in shipped_entries("startup").items()}


def known_parts(node_s: float, image_s: float, cached: bool, asleep: bool) -> StartParts:
    """The parts of the catalog, with those of the machine as they are given."""
    facts, kept = start_facts(), "_cached" if cached else ""
    return StartParts(
        node_s=node_s,
        image_s=image_s,
        framework_s=facts["framework"].fixed_s,
        compile=facts[f"compile{kept}"].time,
        graphs=facts["graphs"].time,
        profiling=facts[f"profiling{kept}"].time,
        wake_gb_per_s=facts["sleep"].rate if asleep else None,
    )


def start_by_parts(case: Case, model: str, quantization: str, weights_s: float | None = None) -> dict[str, float]:
    """Seconds of each part, in their order; `weights_s` where they come from elsewhere than the plan counts on.

    A replica that sleeps has all of it behind it but the way of its weights back to the GPU.
    """
    start, gb = case.start, weights_of(case, model, quantization).gb
    loading = gb / start.weights_gb_per_s if weights_s is None else weights_s
    if start.parts is None:
        return {"instance": start.instance_s, "weights": loading}
    parts, layers = start.parts, case.models[model].layers
    if parts.wake_gb_per_s is not None:
        return {"wake": gb / parts.wake_gb_per_s}
    return {
        "node": parts.node_s,
        "image": parts.image_s,
        "framework": parts.framework_s,
        "weights": loading,
        "compile": parts.compile.of(layers),
        "graphs": parts.graphs.of(layers),
        "profiling": parts.profiling.of(layers),
    }


def start_s(case: Case, model: str, quantization: str) -> float:
    """From the order of an instance to a replica that answers."""
    return sum(start_by_parts(case, model, quantization).values())


def start_within_s(case: Case, model: str, quantization: str) -> float:
    """The same on a machine that runs already."""
    parts = start_by_parts(case, model, quantization)
    return sum(seconds for part, seconds in parts.items() if part not in (*MACHINE, "instance"))
