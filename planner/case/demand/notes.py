"""What reading a demand file brings up: mistakes, each at its place, and values that nobody gave."""

from __future__ import annotations

from collections.abc import Iterable

from planner.case.case import Assumption
from planner.io.errors import Diagnostic, Path, did_you_mean, shown
from planner.io.strict_yaml import Document


class Notes:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.mistakes: list[Diagnostic] = []
        self.assumptions: list[Assumption] = []

    def assume(self, key: str, value: str, why: str) -> None:
        self.assumptions.append(Assumption(key=key, value=value, why=why))

    def complain(self, path: Path, message: str, remedy: str = "") -> None:
        self.mistakes.append(self.document.diagnostic(path, message, remedy))

    def unknown(self, path: Path, what: str, name: str, known: Iterable[str], remedy: str | None = None) -> None:
        remedy = did_you_mean(name, known) if remedy is None else remedy
        self.complain(path, f"there is no {what} {shown(name, 60)} in the catalog", remedy)
