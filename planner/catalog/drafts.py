"""What is known of drafts for a model, by method: the head that makes them, and how many of them were accepted.

A head of EAGLE-3 has one layer, which sees the embedding and the state of a token side by side, and an output matrix of
its own over the words that it drafts. A module of MTP is one more layer of the model, which shares its output matrix.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Literal

from pydantic import Field

from planner.catalog.entries import Sourced, shipped_entries
from planner.io.validation import Strict

Domain = Literal["chat", "coding", "math", "questions", "reasoning", "translation"]
"""kinds of prompts: how much is accepted depends on them more than on anything else"""
NGRAM, MTP, EAGLE3, OTHER_MODEL = "ngram", "mtp", "eagle3", "draft:"
METHODS = (MTP, EAGLE3, NGRAM)
"""besides draft:MODEL"""


class Head(Strict):
    """The shape of an EAGLE-3 head."""

    hidden: int = Field(gt=0)
    ffn: int = Field(gt=0)
    query_heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    vocab: int = Field(gt=0)
    """Words that it drafts."""


class Draft(Sourced):
    """One method for one model."""

    checkpoint: str | None = None
    """Id of the head on the Hugging Face Hub; None: in the model's own weights, or not known."""
    head: Head | None = None
    accepted: dict[Domain, dict[int, float]] = {}
    """Mean tokens that a step brings, the one that any step gives included, by draft length."""


@cache
def known_drafts() -> dict[str, dict[str, Draft]]:
    """By model and method."""
    entries = shipped_entries("drafts")
    return {
        model: {method: Draft.model_validate_json(json.dumps(entry)) for method, entry in methods.items()}
        for model, methods in entries.items()
    }


def known_draft(model: str, method: str) -> Draft | None:
    return known_drafts().get(model, {}).get(method)
