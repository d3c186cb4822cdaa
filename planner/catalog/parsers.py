"""How an engine reads tool calls and reasoning out of a model's answers."""

from __future__ import annotations

import json
from functools import cache

from planner.catalog.entries import Model, Sourced, shipped_entries

EXAMPLES = "/vllm-workspace/examples"
"""of vLLM's image: chat templates that tool calls need"""


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
def entries() -> tuple[ParserEntry, ...]:
    return tuple(ParserEntry.model_validate_json(json.dumps(entry)) for entry in shipped_entries("parsers"))


def parser_flags(model: Model) -> tuple[str, ...]:
    """Of `vllm serve`, for clients that call tools or read the reasoning apart; none where no source has them."""
    fits = (entry for entry in entries() if (model.checkpoint or "").startswith(entry.models))
    return next((entry.flags for entry in fits), ())
