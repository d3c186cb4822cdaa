"""What a user sees: the headline first, every figure of the plan, and nothing a name can smuggle in."""

from __future__ import annotations

import re

import pytest

import planner
from planner.plan import Plan
from planner.reports.progress import closed_frac, describe
from planner.reports.terminal import render
from planner.reports.text import columns, percent, span, sparkline, tokens, usd
from solvers.fleet_solver import Progress

HOSTILE = "\x1b[31m[bold]x[/bold]<script>alert(1)</script>=cmd()"


def small_plan(name: str = "chat", extra: str = "") -> Plan:
    quoted = '"' + name.replace("\x1b", "\\e") + '"'
    return planner.plan_fleet(
        planner.case_from_text(
            f"workloads:\n  - name: {quoted}\n    models: [llama-3.1-8b]\n    forecast: {{requests_per_day: 300k}}\n"
            f"menu: {{gpus: [l40s, l4]}}\nbaseline: openai/gpt-4o-mini\n{extra}"
        )
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_plan()


def test_the_answer_comes_first(plan: Plan) -> None:
    lines = render(plan, seconds=1.234).splitlines()
    assert "proved optimal in 1.2 s" in lines[0]
    assert lines[1].split()[0] == usd(plan.cost_usd_per_month)
    assert f"saves {percent(plan.baseline.savings_frac)}" in lines[1]
    assert usd(plan.baseline.cost_usd_per_month) in lines[1]


def test_one_option_is_ticked_and_every_default_is_listed(plan: Plan) -> None:
    text = render(plan, verbose=True)
    assert text.count("✓") == 1
    assert all(f"{a.key.removeprefix('workloads.chat.')} " in text and a.why in text for a in plan.assumptions)
    assert all(o.offer in text for o in plan.options if o.offer)


def test_a_dearer_plan_does_not_claim_a_saving() -> None:
    plan = small_plan(extra="policy: {engineers: {count: 3, usd_per_year: 200k}}\n").as_json()
    plan["baseline"]["savings_usd_per_month"], plan["baseline"]["savings_frac"] = -120.0, -0.25
    assert "costs 25% more ($120 / month)" in render(Plan.model_validate_json(__import__("json").dumps(plan)))


@pytest.mark.parametrize("status", ["interrupted", "feasible"])
def test_an_unproved_plan_says_so(plan: Plan, status: str) -> None:
    first = render(plan.model_copy(update={"status": status, "gap_frac": 0.031})).splitlines()[0]
    assert "3.10%" in first
    assert "optimal" not in first.replace("optimum", "")


def test_names_cannot_reach_the_terminal() -> None:
    text = render(small_plan(HOSTILE), verbose=True)
    assert "\x1b" not in text
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text) is None
    assert "[bold]" in text


def test_small_formats() -> None:
    assert [usd(x) for x in (12345.6, 9.5, -20, 0)] == ["$12,346", "$9.50", "-$20", "$0.00"]
    assert [percent(x) for x in (0.5, 0.0042, 0.9999, 0.0001, 0, 1)] == ["50%", "0.4%", "100.0%", "<0.1%", "0%", "100%"]
    assert [tokens(x) for x in (950, 12_300, 4.4e9)] == ["950", "12.3k", "4.4B"]
    assert (span([3, 3]), span([0, 7])) == ("3", "0-7")
    assert sparkline([0, 1, 2, 4]) == "▁▂▄█"
    assert columns([("a", "1"), ("bb", "22")], right="b") == ["  a    1", "  bb  22"]


def test_progress_says_best_bound_and_gap() -> None:
    progress = Progress("solving", 2000.0, 1900.0)
    assert describe(progress) == "solving  best $2,000/month  bound $1,900  gap 5.00%"
    assert closed_frac(progress) == pytest.approx(0.95)
    assert closed_frac(Progress("pricing", None, 0.0)) == 0.0
