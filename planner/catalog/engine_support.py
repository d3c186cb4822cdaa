"""What engines run: known to, known not to, or never seen to. And where quantized weights are published."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Literal

from planner.catalog.entries import Gpu, Model, Sourced, shipped_entries
from planner.catalog.variant import Parallelism, Variant

Verdict = Literal["runs", "fails", "unproven"]
NOBODY_SAYS = "no source says that it runs"


class SupportEntry(Sourced):
    """An entry of engine_support.yaml; what it leaves out fits everything."""

    engine: str
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    parallelism: tuple[Parallelism, ...] = ()
    verdict: Verdict
    reason: str = ""

    def fits(self, engine: str, variant: Variant, model: Model, gpu: Gpu) -> bool:
        names = (variant.model, model.checkpoint or variant.model)
        return (
            engine.startswith(self.engine)
            and (not self.models or any(name.startswith(self.models) for name in names))
            and (not self.families or model.family in self.families)
            and (not self.quantizations or variant.quantization in self.quantizations)
            and (not self.architectures or gpu.architecture.lower() in self.architectures)
            and (not self.parallelism or variant.parallelism in self.parallelism)
        )


@dataclass(frozen=True)
class Support:
    verdict: Verdict
    reason: str = ""
    """why it fails or is not proven"""


@cache
def entries() -> tuple[SupportEntry, ...]:
    return tuple(SupportEntry.model_validate_json(json.dumps(entry)) for entry in shipped_entries("engine_support"))


def known_support(engine: str, variant: Variant, model: Model, gpu: Gpu) -> Support:
    """What the first entry says that fits."""
    for entry in entries():
        if entry.fits(engine, variant, model, gpu):
            return Support(entry.verdict, entry.reason)
    return Support("unproven", NOBODY_SAYS)


@cache
def _checkpoints() -> dict[str, dict[str, str]]:
    return shipped_entries("checkpoints")


def quantized_checkpoints(model: Model) -> dict[str, str]:
    """Ids of the weights of a model by quantization: those that the catalog knows, and those of its own entry."""
    return _checkpoints().get(model.checkpoint or "", {}) | (model.checkpoints or {})


def quantized_checkpoint(model: Model, quantization: str) -> str | None:
    return quantized_checkpoints(model).get(quantization)


def own_checkpoint(name: str, quantization: str) -> str:
    """How a demand file names quantized weights that the catalog does not know."""
    return f"catalog: {{models: {{{name}: {{checkpoints: {{{quantization}: ID}}}}}}}}"
