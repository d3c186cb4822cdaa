"""The notebook runs from its first cell to its last, and no cell was saved with what it printed once."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from tests.support.places import ROOT

CELLS = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]


def test_every_cell_runs_and_its_last_line_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    shown = []
    for cell in (c for c in CELLS if c["cell_type"] == "code"):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "tour.ipynb", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "tour.ipynb", "eval"), names)
            shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
    assert all(shown)
    assert names["plan"].gap_frac <= 0.001
    swept = names["swept"].frame("what_if")
    assert list(swept["run"]) == ["base", "demand x 0.5", "demand x 1.5", "without api"]
    assert names["charts"] > 0


def test_outputs_are_not_stored() -> None:
    assert [c["id"] for c in CELLS if c["cell_type"] == "code" and (c["outputs"] or c["execution_count"])] == []
