"""The page of a horizon in a real browser: nothing complains, nothing is fetched, everything is drawn and fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.reports.horizon import horizon_document
from planner.reports.page import as_page
from tests.support.browser import CHROMIUM, TWICE, WIDTHS, Page, figures_drawn, is_whole_and_quiet
from tests.support.horizon_plans import horizon_plan
from tests.support.rows import for_each

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: install chromium (apt-get install chromium) to test how reports look"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("horizon-page") / "h.html"
    target.write_text(as_page(horizon_document(horizon_plan())), encoding="utf-8")
    return target


@for_each("width", WIDTHS)
def test_it_is_whole_and_quiet(page: Page, file: Path, width: int) -> None:
    is_whole_and_quiet(page, file, width, dark=False)
    assert figures_drawn(page) == {"curve", "regret", "fan", "ladder"}
    assert page.js(TWICE) == 0


def test_the_first_screen_says_what_to_sign(page: Page, file: Path) -> None:
    page.open(file, 1400)
    first = page.js("document.querySelector('.hero').innerText")
    assert "Sign now: 2 x aws/g6e.xlarge@us-east-1 reserved-1y" in first
    assert page.js("document.querySelectorAll('#sign-now tbody tr').length") == 1
    folded = page.js("[...document.querySelectorAll('#quarters details')].map(d => d.open)")
    assert folded == [True, False, False]
