"""The page of a horizon in a real browser: nothing complains, nothing is fetched, everything is drawn and fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.reports.horizon import horizon_document
from planner.reports.page import as_page
from tests.support.browser import CHROMIUM, Page
from tests.support.horizon_plans import horizon_plan

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: install chromium (apt-get install chromium) to test how reports look"
)
OUTSIDE = """[...document.querySelectorAll('main *, header *')].filter(e => {
  const r = e.getBoundingClientRect();
  return r.width && r.right > document.documentElement.clientWidth + 1 && !e.closest('.box, pre, #tip');
}).map(e => e.outerHTML.slice(0, 120))"""
SIZES = """[...document.querySelectorAll('figure')].map(f => {
  const r = [...f.querySelectorAll('svg, table')].map(e => e.getBoundingClientRect())[0];
  return [f.id, r.width, r.height] })"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("horizon-page") / "h.html"
    target.write_text(as_page(horizon_document(horizon_plan())), encoding="utf-8")
    return target


@pytest.mark.parametrize("width", [400, 1400])
def test_it_is_whole_and_quiet(page: Page, file: Path, width: int) -> None:
    page.open(file, width)
    assert page.diagnostics() == []
    assert page.requests() == [file.resolve().as_uri()]
    assert page.js("document.documentElement.scrollWidth") == width
    assert page.js(OUTSIDE) == []
    drawn = page.js(SIZES)
    assert {id_ for id_, *_ in drawn} == {"curve", "regret", "fan", "ladder"}
    assert all(min(sizes) > 40 for _, *sizes in drawn), drawn
    ids = page.js("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_the_first_screen_says_what_to_sign(page: Page, file: Path) -> None:
    page.open(file, 1400)
    first = page.js("document.querySelector('.hero').innerText")
    assert "Sign now: 2 x aws/g6e.xlarge@us-east-1 reserved-1y" in first
    assert page.js("document.querySelectorAll('#sign-now tbody tr').length") == 1
    folded = page.js("[...document.querySelectorAll('#quarters details')].map(d => d.open)")
    assert folded == [True, False, False]
