"""Imports point one way: planner to solvers to problems; and nothing names where it was developed."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.places import ROOT
from tests.support.rows import for_each

FORBIDDEN = {
    "problems": {"planner", "solvers", "pulp", "highspy", "yaml", "pandas", "pydantic", "typer"},
    "solvers": {"planner", "yaml", "pandas"},
    "planner": {"pulp", "highspy"},
}
FILES = [path for package in FORBIDDEN for path in sorted((ROOT / package).rglob("*.py"))]


def imported(source: str) -> set[str]:
    """The top-level packages that a file imports, wherever in the file it does so."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_imports_are_seen_wherever_they_are() -> None:
    source = "import a.b as c\nfrom d.e import f\nfrom . import g\ndef h():\n    import i\n    from j import k\n"
    assert imported(source) == {"a", "d", "i", "j"}


def test_every_package_has_files() -> None:
    for package in FORBIDDEN:
        assert len([path for path in FILES if path.is_relative_to(ROOT / package)]) >= 5


@for_each("path", FILES)
def test_imports_point_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert not imported(path.read_text()) & FORBIDDEN[package]


@for_each("path", FILES)
def test_no_file_names_the_place_where_it_was_written(path: Path) -> None:
    text = path.read_text()
    for place in ("/" + "work/", "shared" + "/data"):
        assert place not in text
