"""A plan as rows of a FOCUS bill: they add up to the plan, and a review reads them back as what was planned."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import planner
from planner.plan.plan import Plan, read_plan
from planner.reports.tables.focus import COLUMNS, focus_csv
from planner.review.bills.bill import read_bill
from planner.review.bills.bill_spec import BillSpec
from planner.review.bills.reconciliation import reconcile
from tests.support.command_line import Command
from tests.support.places import ROOT

STARTS = date(2026, 11, 1)
UPFRONT = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 900k, growth_per_month: 8%}
    tokens: {input: 900, output: 150}
    quality: {max_loss: 2%}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, spot, reserved-1y-upfront], apis: [openai/gpt-4o-mini]}
prices: {aws/g6e.xlarge: {reserved_1y_upfront: {upfront: $5k, per_hour: $0.30/h}}}
policy: {engineers: {count: 0.1, usd_per_year: 120k}}
baseline: openai/gpt-4o-mini
"""


@pytest.fixture(scope="module", params=["example", "upfront"])
def plan(request: pytest.FixtureRequest) -> Plan:
    if request.param == "example":
        return read_plan(ROOT / "examples" / "quarterly-review" / "last-plan.json")
    return planner.plan_fleet(planner.case_from_text(UPFRONT))


def rows_of(plan: Plan) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(focus_csv(plan, STARTS))))


def summed(rows: list[dict[str, str]], column: str) -> float:
    return float(sum(Decimal(row[column]) for row in rows))


def test_effective_costs_are_the_plan_s_and_billed_ones_what_is_paid(plan: Plan) -> None:
    rows = rows_of(plan)
    assert tuple(rows[0]) == COLUMNS
    assert summed(rows, "EffectiveCost") == pytest.approx(3 * plan.cost_usd_per_month, abs=0.005)
    upfront = sum(c.upfront_usd for c in plan.commitments)
    spread = sum(c.upfront_usd / 12 for c in plan.commitments)
    cash = 3 * (plan.cost_usd_per_month - spread) + upfront
    assert summed(rows, "BilledCost") == pytest.approx(cash, abs=0.005)
    months = sorted({(row["BillingPeriodStart"], row["BillingPeriodEnd"]) for row in rows})
    assert [start[:10] for start, _ in months] == ["2026-11-01", "2026-12-01", "2027-01-01"]
    assert [end[:10] for _, end in months] == ["2026-12-01", "2027-01-01", "2027-02-01"]
    for row in rows:
        if row["ContractedUnitPrice"]:
            product = Decimal(row["ContractedUnitPrice"]) * Decimal(row["PricingQuantity"])
            # The unit price of a token has a millionth of a dollar's room for each million of them.
            assert float(product) == pytest.approx(float(row["ContractedCost"]), rel=1e-5, abs=1e-3)


def test_it_reads_back_as_planned(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "budget.csv").write_text(focus_csv(plan, STARTS), encoding="utf-8")
    period = datetime(2026, 11, 1, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC)
    spec = BillSpec(focus=("budget.csv",))
    bill = reconcile(
        read_bill([tmp_path / "budget.csv"], spec, plan.case.offers, plan.case.apis, period), plan, "team", 2208, ()
    )
    bought = plan.cost_usd_per_month - plan.costs.caching_usd_per_month - plan.costs.engineers_usd_per_month
    assert bill.paid_usd == pytest.approx(3 * bought, abs=0.01)
    planned = {
        way: sum(f.cost_usd_per_month for f in plan.fleet if f.purchase.startswith(way))
        for way in ("reserved", "on-demand", "spot")
    }
    found = {x.purchase: x.paid_usd for x in bill.instances if x.paid_usd}
    assert found == pytest.approx({way: 3 * usd for way, usd in planned.items() if usd}, abs=0.02)
    for x in bill.instances:
        assert x.paid_hours * 2208 / 2190 == pytest.approx(x.planned_hours, rel=1e-6)
        assert x.paid_usd_per_h == pytest.approx(x.planned_usd_per_h, rel=1e-5)
    for api in bill.apis:
        assert api.input_tokens * 2208 / 2190 == pytest.approx(api.planned_input_tokens, rel=1e-6)
        assert api.output_tokens * 2208 / 2190 == pytest.approx(api.planned_output_tokens, rel=1e-6)
        assert api.paid_usd * 2208 / 2190 == pytest.approx(api.planned_usd, abs=0.02)
    assert bill.no_offer == ()
    assert {x.service for x in bill.other_services} == ({"Engineers"} if plan.costs.engineers_usd_per_month else set())


def test_the_command_asks_for_the_day(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    fleetplan = Command(monkeypatch, capsys)
    file = ROOT / "examples" / "quarterly-review" / "last-plan.json"
    ran = fleetplan("report", file, "--format", "focus", "--starts", "2026-11-01")
    assert (ran.code, ran.out, ran.err) == (0, focus_csv(read_plan(file), STARTS), "")
    assert list(tmp_path.iterdir()) == []
    for given, message in (
        (("--format", "focus"), "needs the day on which the quarter begins. Add --starts 2026-10-01"),
        (
            ("--format", "focus", "--starts", "2026-10-15"),
            "2026-10-15 is not the first day of a month. Write 2026-10-01",
        ),
        (("--format", "focus", "--starts", "soon"), "expected a day, got 'soon'. Write it as 2026-10-01"),
        (("--format", "md", "--starts", "2026-10-01"), "is the first day of a budget. Add --format focus"),
    ):
        ran = fleetplan("report", file, *given)
        assert ran.code == 2 and message in ran.err and not ran.out
