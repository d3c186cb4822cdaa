"""Whether the engine of a case runs a deployment, as far as anybody knows."""

from __future__ import annotations

from dataclasses import replace

from planner.case.case import Case
from planner.catalog.engine_support import Support, known_support
from planner.catalog.variant import Variant


def support_of(case: Case, variant: Variant) -> Support:
    """What the user has measured runs, on however many GPUs; for the rest, what sources say."""
    of_any_size = replace(variant, gpus_per_replica=0, boxes=1)
    if any(replace(p.variant, gpus_per_replica=0) == of_any_size for p in case.profiles):
        return Support("runs")
    return known_support(case.engine_name, variant, case.models[variant.model], case.gpus[variant.gpu])


def is_unproven(case: Case, variant: Variant) -> bool:
    return support_of(case, variant).verdict == "unproven"
