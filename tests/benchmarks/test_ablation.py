"""Each device that the ablation switches off is still switched off by its edits: none matches nothing, or too much."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from tests.support.places import ROOT
from tests.support.rows import for_each


def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ablation", ROOT / "benchmarks" / "ablation.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ABLATION = benchmark()


@for_each("device", ABLATION.WITHOUT)
def test_every_edit_matches_once_and_leaves_a_program(device: str) -> None:
    for file, source in ABLATION.edited(device).items():
        compile(source, file, "exec")
        assert source != (ROOT / file).read_text(encoding="utf-8"), f"{file} is as before"


def test_an_edit_that_matches_nothing_is_named_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ABLATION.WITHOUT, "gone", ((ABLATION.SEARCH, "no such text", ""),))
    with pytest.raises(SystemExit, match=r"solvers/search/search\.py does not hold 'no such text' once.*gone"):
        ABLATION.edited("gone")
