"""What engines run (known to, known not to, or never seen to), where quantized weights are published, and how an engine
reads tool calls and reasoning out of a model's answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Literal

from planner.catalog.entries import Gpu, Model, Sourced, shipped_entries
from planner.catalog.variant import Parallelism, Variant

Verdict = Literal["runs", "fails", "unproven"]
NOBODY_SAYS = "no source shows that it runs"
EXAMPLES = "/vllm-workspace/examples"
"""of vLLM's image: chat templates that tool calls need"""


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


class ParserEntry(Sourced):
    """An entry of parsers.yaml."""

    models: tuple[str, ...]
    """beginnings of ids of published weights"""
    tools: str | None = None
    reasoning: str | None = None
    chat_template: str | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        tools = ("--enable-auto-tool-choice", "--tool-call-parser", self.tools) if self.tools else ()
        template = ("--chat-template", f"{EXAMPLES}/{self.chat_template}") if self.chat_template else ()
        return (*tools, *template, *(("--reasoning-parser", self.reasoning) if self.reasoning else ()))


@cache
def parser_entries() -> tuple[ParserEntry, ...]:
    return tuple(ParserEntry.model_validate_json(json.dumps(entry)) for entry in shipped_entries("parsers"))


def parser_flags(model: Model) -> tuple[str, ...]:
    """Of `vllm serve`, for clients that call tools or read the reasoning apart; none where no source has them."""
    fits = (entry for entry in parser_entries() if (model.checkpoint or "").startswith(entry.models))
    return next((entry.flags for entry in fits), ())
