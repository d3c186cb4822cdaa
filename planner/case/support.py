"""Whether the engine of a case runs a deployment, as far as anybody knows."""

from __future__ import annotations

from planner.case.case import Case
from planner.catalog.engine_support import Support, known_support


def support_of(case: Case, model: str, quantization: str, gpu: str) -> Support:
    """What the user has measured runs; for the rest, what sources say."""
    if any((p.model, p.quantization, p.gpu) == (model, quantization, gpu) for p in case.profiles):
        return Support("runs")
    return known_support(case.engine_name, model, case.models[model], quantization, case.gpus[gpu])


def is_unproven(case: Case, model: str, quantization: str, gpu: str) -> bool:
    return support_of(case, model, quantization, gpu).verdict == "unproven"
