"""One page to be signed: its figures are those of the plan, and it fits on one page when it is printed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shutil import which

import pytest

from planner.io.formatting import usd
from planner.plan.horizon.horizon_view import expected_baseline_usd
from planner.reports.document import Document
from planner.reports.formats import as_html, as_markdown
from planner.reports.horizon import horizon_document
from planner.reports.plan import plan_document
from planner.reports.summary import horizon_summary, plan_summary
from tests.planner.plan.test_held_costs import TWO, planned
from tests.support.command_line import Command
from tests.support.horizon_plans import horizon_plan

CHROMIUM = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)


def cells(text: str, row: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {row}"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_months_quarters_and_years_of_a_plan_with_what_is_held() -> None:
    plan = planned(TWO)
    text = as_markdown(plan_summary(plan))
    held, there = plan.held_usd_per_month, plan.baseline.cost_usd_per_month
    for row, amount in (
        ("this plan, all of it", held),
        ("of which new", 0.0),
        ("the same requests at", there),
        ("the plan costs more by", held - there),
        ("all of it at the API now", held + there),
    ):
        assert cells(text, row) == [f"{months * amount:,.0f}" for months in (1, 3, 12)], row
    assert text.index("Risks and assumptions") < text.index("Signatures") and "finance" in text
    assert len(re.findall(r"^- ", text.split("## Risks and assumptions")[1].split("##")[0], re.MULTILINE)) <= 3


def test_a_horizon_is_summed_up_over_its_months() -> None:
    horizon = horizon_plan()
    text, there = as_markdown(horizon_summary(horizon)), expected_baseline_usd(horizon)
    assert there is not None
    expected = horizon.expected_cost_usd
    assert cells(text, "this plan, expected") == [f"{x:,.0f}" for x in (expected / 6, expected / 2, expected)]
    assert cells(text, "the plan costs less by")[-1] == f"{there - expected:,.0f}"
    assert usd(horizon.held_usd).removeprefix("$") in cells(text, "of which what was held before")
    assert "STOP" in text


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.process
@pytest.mark.parametrize("of", ["plan", "horizon"])
def test_it_prints_on_one_page(of: str, tmp_path: Path) -> None:
    whole = plan_document(planned(TWO)) if of == "plan" else horizon_document(horizon_plan())
    assert whole.summary is not None
    document: Document = whole.summary()
    page, pdf = tmp_path / "summary.html", tmp_path / "summary.pdf"
    page.write_text(as_html(document), encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={pdf}")
    subprocess.run([str(CHROMIUM), *flags, page.as_uri()], check=True, capture_output=True)
    assert len(re.findall(rb"/Type /Page\b", pdf.read_bytes())) == 1


def test_the_command_writes_it_by_the_ending_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plan, fleetplan = planned(TWO), Command(monkeypatch, capsys)
    Path("plan.json").write_text(plan.to_json(), encoding="utf-8")
    for name, made in (("s.html", as_html), ("s.md", as_markdown)):
        assert fleetplan("report", "plan.json", "--summary", name).err == f"wrote {name}\n"
        assert Path(name).read_text(encoding="utf-8") == made(plan_summary(plan))
    refused = fleetplan("report", "plan.json", "--summary", "s.pdf")
    assert (refused.code, refused.err) == (2, "--summary: is a page or Markdown. End its name in .html or .md.\n")
