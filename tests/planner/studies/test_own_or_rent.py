"""From which volume on servers are bought: the bracket against plans made anew at its ends, and lies about it."""

from __future__ import annotations

from functools import cache

import pytest

import planner
from planner.case.case import Case
from planner.checker import check_plan
from planner.io.formatting import tokens
from planner.plan.plan import Plan
from planner.plan.study_records import OwnPoint, Studies, change_of, pays
from planner.reports.studies import studies_document
from planner.reports.tables.studies import study_tables
from planner.studies.break_even import break_even
from planner.studies.own_or_rent import NARROW
from tests.support.rows import for_each
from tests.support.shown import in_every_format, unwrapped

TEXT = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: REQUESTS, shape: business-hours}
    tokens: {input: 1000, output: 150}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
    api: forbidden
menu:
  gpus: [l40s]
  quantizations: [fp8]
  providers: [aws]
  regions: [us-east-1]
  purchase: [on-demand]
  max_deployments: 1
  own: [{name: 4xl40s, gpu: l40s, gpus: 4, site: hq, price: $120k, life_years: 4, colocation_usd_per_month: 500}]
sites: {hq: {pue: 1.3, usd_per_kwh: 0.12}}
policy: {startup: 0s, spread: false}
baseline: openai/gpt-4o-mini
"""
DAILY = 1_000_000
RENTED = TEXT.split("  own: ")[0] + TEXT[TEXT.index("policy:") :]


def case_of(multiple: float, text: str = TEXT) -> Case:
    return planner.case_from_text(text.replace("REQUESTS", f"{DAILY * multiple:.0f}"))


@cache
def studied() -> Plan:
    plan = planner.plan_fleet(case_of(1.0))
    assert isinstance(plan, Plan)
    return plan.model_copy(update={"studies": Studies(break_even=break_even(plan, grid=(1.0,)))})


def points_of(plan: Plan) -> tuple[OwnPoint, ...]:
    assert plan.studies is not None and plan.studies.break_even is not None
    return plan.studies.break_even.own or ()


def test_the_change_lies_where_plans_made_anew_say() -> None:
    change = change_of(points_of(studied()))
    assert change is not None
    low, high = change
    assert low.multiple < high.multiple <= NARROW * low.multiple
    for p in change:
        own, rented = (planner.plan_fleet(case_of(p.multiple, text)) for text in (TEXT, RENTED))
        assert isinstance(own, Plan) and isinstance(rented, Plan)
        assert p.with_servers_usd_per_month == pytest.approx(own.cost_usd_per_month, rel=0.002)
        assert p.rented_usd_per_month == pytest.approx(rented.cost_usd_per_month, rel=0.002)
        assert bool(own.commitments) == pays(p)


def test_reports_say_from_which_volume_on() -> None:
    _, high = change_of(points_of(studied())) or pytest.fail("servers never begin to pay")
    plan = studied()
    assert f"servers of your own pay from {tokens(high.tokens_per_month)} tokens / month on" in unwrapped(
        in_every_format(studies_document(plan))[0]
    )
    (table,) = (t for t in study_tables(plan) if t.name == "crossings")
    assert [row[0] for row in table.rows].count("servers of your own") == 1


LIES: dict[str, dict[str, object]] = {
    "dearer than renting": {"with_servers_usd_per_month": 1e9},
    "less than is proved": {"with_servers_usd_per_month": 1.0},
    "proved above its cost": {"rented_bound_usd_per_month": 1e9},
    "at other tokens": {"tokens_per_month": 1.0},
}


@for_each("lie", LIES)
def test_what_contradicts_itself_is_refused(lie: str) -> None:
    data = studied().as_json()
    assert check_plan(data) == []
    data["studies"]["break_even"]["own"][0].update(LIES[lie])
    assert check_plan(data)


def point(own: tuple[float | None, float], rented: tuple[float | None, float | None]) -> OwnPoint:
    return OwnPoint(
        multiple=1.0, tokens_per_month=1e9, with_servers_usd_per_month=own[0], with_servers_bound_usd_per_month=own[1],
        rented_usd_per_month=rented[0], rented_bound_usd_per_month=rented[1],
    )  # fmt: skip


@for_each(
    ("own", "rented", "verdict"),
    [
        ((90.0, 89.0), (100.0, 99.0), True),
        ((99.5, 98.0), (100.0, 99.0), None),
        ((100.0, 99.9), (100.0, 99.0), False),
        ((90.0, 89.0), (None, None), True),
        ((None, 0.0), (None, None), None),
        ((90.0, 89.0), (None, 80.0), None),
    ],
)
def test_only_proofs_count(
    own: tuple[float | None, float], rented: tuple[float | None, float | None], verdict: bool | None
) -> None:
    assert pays(point(own, rented)) is verdict
