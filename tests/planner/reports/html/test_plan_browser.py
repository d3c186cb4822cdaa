"""The page in a real browser: nothing complains, nothing is fetched, everything is drawn and fits its window."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.io.formatting import usd
from planner.reports.html import html_report
from tests.support.browser import (
    CHROMIUM,
    CUT_OFF,
    OVERLAPS,
    WIDTHS,
    Page,
    figures_drawn,
    fits_on_paper,
    is_whole_and_quiet,
    names_are_text,
)
from tests.support.lever_plans import lever_plan
from tests.support.report_plans import HOSTILE, hostile_plan, studied
from tests.support.rows import for_each

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: install chromium (apt-get install chromium) to test how reports look"
)
PAGES = ("together", "waiting", "shedding", "hostile")
TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for name in PAGES:
        plan = hostile_plan() if name == "hostile" else lever_plan(name)
        found[name] = folder / f"{name}.html"
        found[name].write_text(html_report(studied(plan)), encoding="utf-8")
    return found


@for_each("dark", [False, True])
@for_each("width", WIDTHS)
@for_each("name", PAGES)
def test_it_is_whole_and_quiet(name: str, width: int, dark: bool, page: Page, files: dict[str, Path]) -> None:
    is_whole_and_quiet(page, files[name], width, dark)
    assert figures_drawn(page) >= {"capacity", "demand", "costs", "waterfall", "break-even", "headroom", "ranges"}


def test_labels_on_each_other_and_hidden_scrolling_would_be_seen(page: Page, files: dict[str, Path]) -> None:
    """What the test above looks for is there once the page is spoiled."""
    page.open(files["together"], 400)
    page.js("document.querySelector('.big').style.marginBottom = '-60px'")
    page.js("document.querySelectorAll('#capacity svg text')[0].setAttribute('y', 40)")
    page.js("document.querySelectorAll('.box').forEach(e => { e.style.backgroundImage = 'none' })")
    page.js("document.querySelector('#fleet-table table').style.width = '900px'")
    assert len(page.js(OVERLAPS)) > 0
    assert len(page.js(CUT_OFF)) > 0


def test_dark_is_dark_and_paper_is_light(page: Page, files: dict[str, Path]) -> None:
    colour = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    page.open(files["together"], 1280)
    assert page.js(colour) > 600
    page.open(files["together"], 1280, dark=True)
    assert page.js(colour) < 150
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.js(colour) > 600
    page.call("Emulation.setEmulatedMedia", media="", features=[])


@for_each("name", PAGES)
def test_it_fits_on_paper(name: str, page: Page, files: dict[str, Path]) -> None:
    fits_on_paper(page, files[name])


@pytest.mark.smoke
def test_names_do_nothing(page: Page, files: dict[str, Path]) -> None:
    page.open(files["hostile"], 1280)
    names_are_text(page, HOSTILE)
    assert page.js("document.title").startswith(HOSTILE[0])


def test_values_are_shown_at_the_pointer(page: Page, files: dict[str, Path]) -> None:
    page.open(files["together"], 1280)
    assert page.js("document.getElementById('tip').hidden") is True
    page.js("document.getElementById('capacity').scrollIntoView(); " + TWO_FRAMES)
    r = page.js("document.querySelectorAll('#capacity .hit')[14].getBoundingClientRect().toJSON()")
    x, y = r["x"] + r["width"] / 2, r["y"] + r["height"] / 2
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert page.js("document.getElementById('tip').hidden") is False
    said = page.js("document.getElementById('tip').textContent")
    plan = lever_plan("together")
    bought = sum(f.instances_by_slot[14] * f.gpus_per_instance for f in plan.fleet)
    assert said.startswith(f"14:00 to 15:00: {bought} GPUs")
    r = page.js("document.getElementById('tip').getBoundingClientRect().toJSON()")
    assert r["left"] >= 0
    assert r["right"] <= 1280
    assert r["top"] >= 0
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert page.js("document.getElementById('tip').hidden") is True
    assert page.diagnostics() == []


def test_the_keyboard_reaches_every_value(page: Page, files: dict[str, Path]) -> None:
    page.open(files["together"], 1280)
    page.js("document.querySelector('#break-even svg').focus()")
    said = []
    for _ in range(3):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
        said.append(page.js("document.getElementById('tip').textContent"))
    assert len(set(said)) == 3
    first = studied(lever_plan("together")).studies.break_even.points[0]  # type: ignore[union-attr]
    assert usd(first.api_usd_per_month) in said[0]
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape")
    assert page.js("document.getElementById('tip').hidden") is True
    unreachable = "[...document.querySelectorAll('svg, .heat')].filter(e => e.tabIndex < 0).length"
    assert page.js(unreachable) == 0


def test_without_script_it_is_whole(page: Page, files: dict[str, Path]) -> None:
    """Browsers show the titles themselves; the tables are there."""
    page.open(files["together"], 1280, script=False)
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert page.js("document.querySelectorAll('svg .m > title').length") > 100
    assert page.js("document.getElementById('tip')") is None
    assert figures_drawn(page)


def test_gpu_kinds_are_switched(page: Page, tmp_path: Path) -> None:
    plan = lever_plan("mixed")
    other = plan.fleet[0].model_copy(update={"gpu": "another"})
    file = tmp_path / "page.html"
    file.write_text(html_report(plan.model_copy(update={"fleet": (*plan.fleet, other)})), encoding="utf-8")
    page.open(file, 1280)
    shown = "[...document.querySelectorAll('#capacity .days')].map(d => d.getBoundingClientRect().height > 0)"
    assert page.js(shown) == [True, False, False]
    page.js("document.querySelectorAll('#capacity input')[1].click()")
    assert page.js(shown) == [False, True, False]
