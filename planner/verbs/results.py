"""Results of verbs that answer from what is known, and of those that make a file of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.io.result import Result

if TYPE_CHECKING:
    from planner.reports.document import Document


@dataclass(frozen=True, repr=False)
class Answer(Result):
    """What is known of something."""

    name: str
    """what it is about"""
    document: Document

    def as_json(self) -> Any:
        return json.loads(self.document.json())


@dataclass(frozen=True, repr=False)
class Made(Answer):
    """A file that was made, and what it holds; `save` with a name in .yaml writes it."""

    text: str
    """of the file"""
