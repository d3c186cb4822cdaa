"""The two things that a lower room asks of a higher one: `planner/__init__.py` knows which, and imports it on use.

A result shows itself as the reports do, and a case is changed as what-if changes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd


class Shows(Protocol):
    """How a result becomes a line, tables, a fragment of a notebook, and files."""

    def line_of(self, result: Any, /) -> str: ...

    def tables_of(self, result: Any, /) -> Iterable[str]: ...

    def frame_of(self, result: Any, name: str, /) -> pd.DataFrame: ...

    def fragment_of(self, result: Any, /) -> str: ...

    def save(self, result: Any, path: Path, /) -> Path: ...


class Changes(Protocol):
    """How a case is changed by the paths of its demand file."""

    def changed_case(self, case: Any, changes: Mapping[str, object], /) -> Any: ...


def reports() -> Shows:
    shows: Shows = _root().higher("reports")
    return shows


def changes() -> Changes:
    changed: Changes = _root().higher("changes")
    return changed


def _root() -> Any:
    return sys.modules[__name__.split(".")[0]]
