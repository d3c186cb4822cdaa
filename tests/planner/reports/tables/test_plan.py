"""A plan for colleagues and machines: its tables, as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.sellers import known_sellers
from planner.io.formatting import usd
from planner.plan.plan import Plan
from planner.plan.sellers import sold_cheaper
from planner.plan.study_records import BreakEven, Crossing, ProviderBill, StepRecord, Studies, VolumePoint, Waterfall
from planner.reports.csv import table_csv, write_tables
from planner.reports.markdown import fenced, inline, markdown, table_markdown
from planner.reports.table import Column, Table
from planner.reports.tables.plan import NAMES, tables_of
from tests.support.command_line import no_control_characters
from tests.support.lever_plans import lever_plan
from tests.support.markdown_pages import cells, html_of, only_our_tags
from tests.support.rows import for_each
from tests.support.shown import plan_markdown, plan_text, unwrapped

HOSTILE = "=cmd()|'/C calc'!A1 <script>alert(1)</script> [bold]`x`[/bold] | @all #1 ***"
PLANS = ("together", "mixed", "waiting", "shedding")


def studied(plan: Plan) -> Plan:
    step = StepRecord(
        key="naive", title="one request at a time", said="", status="optimal", cost_usd_per_month=900.0,
        bound_usd_per_month=890.0, usd_per_1m_tokens=1.5, saves_usd_per_month=None, saves_frac=None, fleet=("3 x a",),
    )  # fmt: skip
    point = VolumePoint(
        multiple=2.0, tokens_per_month=2e9, api_usd_per_month=1000.0, self_hosted_usd_per_month=None,
        self_hosted_bound_usd_per_month=None, mixed_usd_per_month=800.0, mixed_bound_usd_per_month=790.0,
    )  # fmt: skip
    crossing = Crossing(
        multiple=1.5, tokens_per_month=1.5e9, usd_per_month=700.0, between_multiples=(1.4, 1.6),
        cheaper_from_here="self-hosted",
    )  # fmt: skip
    break_even = BreakEven(
        provider="openai", model="gpt-4o", engineers_usd_per_month=0.0, points=(point,), crossings=(crossing,),
        mixed_crossings=(), notes=(),
    )  # fmt: skip
    bill = ProviderBill(
        provider="groq", model="llama-3.1-8b", role="same model", workloads=(plan.workloads[0].name,),
        cost_usd_per_month=1.0, without_discounts_usd_per_month=2.0, usd_per_1m_tokens=0.05, source="a list",
        prices=plan.case.apis[plan.case.baseline],
    )  # fmt: skip
    waterfall = Waterfall(steps=(step,), saves_usd_per_month=None, saves_frac=None, notes=())
    return plan.model_copy(update={"studies": Studies(waterfall=waterfall, break_even=break_even, providers=(bill,))})


def renamed(plan: Plan, name: str, new: str) -> Plan:
    return Plan.model_validate_json(plan.to_json().replace(json.dumps(name), json.dumps(new)))


def by_name(plan: Plan) -> dict[str, Table]:
    return {table.name: table for table in tables_of(plan)}


def column(table: Table, key: str) -> list[object]:
    k = [c.key for c in table.columns].index(key)
    return [row[k] for row in table.rows]


def test_every_table_has_its_columns_in_every_row() -> None:
    for name in PLANS:
        plan = studied(lever_plan(name))
        assert tuple(table.name for table in tables_of(plan)) == NAMES
        for table in tables_of(plan):
            keys = [c.key for c in table.columns]
            assert len(set(keys)) == len(keys), table.name
            assert all(len(row) == len(keys) for row in table.rows), table.name
    assert set(NAMES) - {table.name for table in tables_of(lever_plan("mixed"))} == {
        "waterfall", "volumes", "crossings", "providers",
    }  # fmt: skip


@for_each("name", PLANS)
def test_the_tables_add_up_to_the_plan(name: str) -> None:
    plan = lever_plan(name)
    tables = by_name(plan)
    bought = sum(map(float, column(tables["fleet"], "cost_usd_per_month")))  # type: ignore[arg-type]
    hourly = plan.costs.reserved_usd_per_month + plan.costs.on_demand_usd_per_month + plan.costs.spot_usd_per_month
    assert bought == pytest.approx(hourly)
    *parts, total = map(float, column(tables["costs"], "cost_usd_per_month"))  # type: ignore[arg-type]
    assert sum(parts) == pytest.approx(total) == pytest.approx(plan.cost_usd_per_month)
    assert len(tables["fleet_by_hour"].rows) == len(plan.slots) * len(plan.fleet)
    assert sum(column(tables["options"], "chosen")) == len(plan.workloads)  # type: ignore[arg-type]
    why = column(tables["options"], "why_not")
    assert all(
        (reason is None) == bool(chosen)
        for reason, chosen in zip(why, column(tables["options"], "chosen"), strict=True)
    )


def test_instance_hours_and_prices_give_the_cost() -> None:
    """Price times hours, and starting, is what a line costs."""
    for name in PLANS:
        fleet = by_name(lever_plan(name))["fleet"]
        for hours, price, starting, cost in zip(
            *(
                column(fleet, key)
                for key in (
                    "instance_hours_per_month",
                    "price_usd_per_h",
                    "starting_usd_per_month",
                    "cost_usd_per_month",
                )
            ),
            strict=True,
        ):
            assert hours * price + starting == pytest.approx(cost)  # type: ignore[operator]


# -- CSV ------------------------------------------------------------------------------------------------------------


def test_csv_reads_back_as_the_same_values() -> None:
    for table in (table.view("csv") for table in tables_of(studied(lever_plan("together")))):
        head, *rows = csv.reader(io.StringIO(table_csv(table)))
        assert head == [c.key for c in table.columns]
        assert len(rows) == len(table.rows)
        for row, values in zip(rows, table.rows, strict=True):
            for cell, value in zip(row, values, strict=True):
                if isinstance(value, float):
                    assert float(cell) == value
                elif value is None:
                    assert cell == ""


@given(text=st.text(max_size=20), start=st.sampled_from(["=", "+", "-", "@", "\t", "\r", "", "'"]))
def test_no_cell_begins_a_formula(text: str, start: str) -> None:
    table = Table("t", "t", (Column("a", "a"),), ((start + text,),))
    (_, *rows) = csv.reader(io.StringIO(table_csv(table)))
    ((cell,),) = rows or ((("",)),)
    try:
        float(cell)
    except ValueError:
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert no_control_characters(cell)


def test_a_hostile_name_is_inert_in_every_csv_file(tmp_path: Path) -> None:
    plan = renamed(lever_plan("waiting"), "night", HOSTILE + "\x1b[31m\r\n")
    written = write_tables(tables_of(plan), tmp_path / "new" / "tables")
    assert {path.stem for path in written} == {table.name for table in tables_of(plan)}
    for path in written:
        for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8"))):
            assert not any(cell.startswith(("=", "@", "\t", "\r")) for cell in row), path
            assert all(no_control_characters(cell) for cell in row), path


# -- Markdown -------------------------------------------------------------------------------------------------------


@for_each("name", PLANS)
def test_markdown_has_the_answer_and_nothing_but_our_tags(name: str) -> None:
    plan = studied(lever_plan(name))
    page = plan_markdown(plan)
    assert only_our_tags(page)
    html = html_of(page)
    assert f"<strong>{usd(plan.cost_usd_per_month)} / month</strong>" in html
    for section in ("Fleet", "Workloads", "What binds", "Proof"):
        assert f"<h2>{section}</h2>" in html
    first = next(row for row in cells(page) if row[0] == plan.fleet[0].offer)
    assert f"{plan.fleet[0].cost_usd_per_month:,.0f}" in first
    assert page.count("<details>") == page.count("</details>") >= 4
    if plan.penalty_usd_per_month:
        assert "SHED" in page


def test_a_hostile_name_is_inert_in_markdown() -> None:
    plan = renamed(lever_plan("together"), "tuned", HOSTILE)
    page = plan_markdown(plan)
    assert only_our_tags(page)
    assert any(row[0] == HOSTILE for row in cells(page))
    widths = [len(row) for row in cells(page)]
    assert all(width >= 2 for width in widths)


@given(text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30))
def test_markdown_shows_text_as_it_is(text: str) -> None:
    from html import unescape

    page = markdown(text)
    assert only_our_tags(page)
    assert only_our_tags("- " + page)
    shown = unescape(html_of("x " + inline(text) + " x")).replace("\u200b", "")
    expected = text if text.isprintable() else None
    if expected is not None:
        assert shown == f"<p>x {expected} x</p>\n".replace("\u200b", "")
    table = Table("t", "t", (Column("a", "a"), Column("b", "b", "code")), ((text, text),))
    assert [len(row) for row in cells("\n".join(table_markdown(table)))] == [2, 2]


@given(text=st.text("`~a\n", max_size=30))
def test_nothing_closes_a_fence(text: str) -> None:
    html = html_of("\n".join([*fenced(text), "", "after"]))
    assert html.endswith("</code></pre>\n<p>after</p>\n")


def test_reports_are_the_same_bytes_every_time() -> None:
    plan = lever_plan("together")
    again = Plan.model_validate_json(plan.to_json())
    assert plan_markdown(plan) == plan_markdown(again)
    assert [table_csv(t) for t in tables_of(plan)] == [table_csv(t) for t in tables_of(again)]


# -- what a provider would ask --------------------------------------------------------------------------------------


def test_a_provider_that_sells_the_model_for_less_is_named() -> None:
    plan = lever_plan("mixed")
    least = min(sold_cheaper(plan), key=lambda bill: bill.cost_usd_per_month)
    for text in (plan_text(plan), plan_markdown(plan)):
        assert f"{known_sellers()[least.provider].name} sells" in unwrapped(text).replace("\\", "")
    here = (w.model_copy(update={"cost_usd_per_month": 1.0}) for w in plan.workloads)
    assert " sells " not in unwrapped(plan_text(plan.model_copy(update={"workloads": tuple(here)})))
    assert " sells " not in plan_text(lever_plan("together")), "no API is allowed there"
