"""docs/evidence/rules-of-thumb.md says what the tool plans."""

from __future__ import annotations

import re

import pytest

from tests.support import rules_of_thumb
from tests.support.rows import for_each
from tests.support.rules_of_thumb import PAGE, TABLE, TABLES


@for_each("name", TABLES)
def test_the_page_says_what_is_planned(name: str) -> None:
    """After a wanted change: python tests/refresh.py"""
    tables = {m[2]: m[3] for m in TABLE.finditer(PAGE.read_text(encoding="utf-8"))}
    assert tables[name] == TABLES[name]()


def test_every_table_of_the_page_is_known_and_every_verdict_clear() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(m[2] for m in TABLE.finditer(text)) == sorted(TABLES)
    verdicts = [row.split("|")[-2].strip() for row in text.splitlines() if row.count("|") == 4 and "---" not in row]
    verdicts = [v for v in verdicts if v != "verdict"]
    assert len(verdicts) >= 18
    assert all(re.match("confirmed|refuted|depends on|nearly", v) for v in verdicts), verdicts


def test_the_verdict_follows_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the A100 at the price of an H100, it is no longer the cheapest."""
    monkeypatch.setitem(rules_of_thumb.ARTICLE_USD_PER_H, "a100-80gb", 4.50)
    rule = next(rules_of_thumb.small_models())
    assert rule.verdict.startswith("refuted")
