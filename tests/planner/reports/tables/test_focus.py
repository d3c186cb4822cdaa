"""A plan as rows of a FOCUS bill: they add up to the plan, and a review reads them back as what was planned."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import planner
from planner.plan.plan import Plan
from planner.plan.saved import read_plan
from planner.reports.focus import COLUMNS, focus_csv
from planner.review.bills.bill import BillSpec, read_bill
from planner.review.bills.reconciliation import reconcile
from tests.support.command_line import Command
from tests.support.places import ROOT
from tests.support.shared_plans import fleet_plan

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
HELD = """\
starts: 2026-11-01
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 300k}
    tokens: {input: 800, output: 200}
    quality: {max_loss: 2%}
    providers: [gcp]
menu: {gpus: [l4, l40s], providers: [gcp, aws], purchase: [on-demand], quantizations: [fp8], apis: [openai/gpt-4o-mini]}
have:
  - {offer: gcp/g2-standard-4@us-central1, purchase: reserved-1y, instances: 2, price: $0.45/h, until: 2027-12-31}
  - {offer: aws/g6e.xlarge, purchase: reserved-1y-upfront, instances: 1, price: $1.1/h, until: 2027-12-31}
policy: {vendors: {fixed_usd_per_month: {provider: 200, api: 30}}}
baseline: openai/gpt-4o-mini
"""
DEMANDS = {"upfront": UPFRONT, "held": HELD}


@pytest.fixture(scope="module", params=["example", *DEMANDS])
def plan(request: pytest.FixtureRequest) -> Plan:
    if request.param == "example":
        return read_plan(ROOT / "examples" / "quarterly-review" / "last-plan.json")
    return fleet_plan(planner.case_from_text(DEMANDS[request.param]))


def rows_of(plan: Plan) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(focus_csv(plan, STARTS))))


def summed(rows: list[dict[str, str]], column: str) -> float:
    return float(sum(Decimal(row[column]) for row in rows))


def test_effective_costs_are_the_plan_s_and_billed_ones_what_is_paid(plan: Plan) -> None:
    rows = rows_of(plan)
    assert tuple(rows[0]) == COLUMNS
    whole = plan.cost_usd_per_month + plan.held_usd_per_month
    assert summed(rows, "EffectiveCost") == pytest.approx(3 * whole, abs=0.005)
    paid_long_ago = 730 * sum(h.instances * h.usd_per_h for h in plan.case.held or () if "upfront" in h.purchase)
    upfront = sum(c.upfront_usd for c in plan.commitments)
    spread = sum(c.upfront_usd / 12 for c in plan.commitments)
    cash = 3 * (whole - spread - paid_long_ago) + upfront
    assert summed(rows, "BilledCost") == pytest.approx(cash, abs=0.005)
    months = sorted({(row["BillingPeriodStart"], row["BillingPeriodEnd"]) for row in rows})
    assert [start[:10] for start, _ in months] == ["2026-11-01", "2026-12-01", "2027-01-01"]
    assert [end[:10] for _, end in months] == ["2026-12-01", "2027-01-01", "2027-02-01"]


PRICED = ("PricingCategory", "PricingQuantity", "PricingUnit", "ListUnitPrice", "ContractedUnitPrice", "SkuId",
          "SkuMeter", "SkuPriceId")  # fmt: skip
DISCOUNTED = ("CommitmentDiscountCategory", "CommitmentDiscountName", "CommitmentDiscountQuantity",
              "CommitmentDiscountType", "CommitmentDiscountUnit")  # fmt: skip
NEVER_NULL = (
    "BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "BillingAccountId", "BillingAccountType",
    "BillingCurrency", "ChargeCategory", "ChargeFrequency", "ProviderName", "PublisherName", "InvoiceIssuerName",
    "ServiceCategory", "ServiceName", "ServiceSubcategory",
)  # fmt: skip
CATEGORIES = {"Compute": "Virtual Machines", "AI and Machine Learning": "Generative AI", "Other": "Other (Other)"}


def broken_rules(row: dict[str, str]) -> list[str]:
    """What a row breaks of FOCUS 1.2 (specification/columns), of the rules about charges that are no corrections."""
    purchase, committed = row["ChargeCategory"] == "Purchase", bool(row["CommitmentDiscountId"])
    unused, status = row["CommitmentDiscountStatus"] == "Unused", row["CommitmentDiscountStatus"]
    category = "Standard" if purchase else "Committed" if committed else row["PricingCategory"]
    products = [
        float(
            Decimal(row[f"{kind}UnitPrice"] or 0) * Decimal(row["PricingQuantity"] or 0) - Decimal(row[f"{kind}Cost"])
        )
        for kind in ("List", "Contracted")
    ]
    rules = {
        "is never null": all(row[name] for name in NEVER_NULL),
        "a charge has a price, a quantity and SKUs": all(row[name] for name in PRICED),
        "a price times its quantity is the cost": products == pytest.approx([0, 0], abs=1e-4),
        "a category of prices": category == row["PricingCategory"] in ("Standard", "Dynamic", "Committed"),
        "what covers later charges costs nothing itself": not purchase or float(row["EffectiveCost"]) == 0,
        "a frequency": (row["ChargeFrequency"] in ("One-Time", "Recurring")) == purchase,
        "a commitment is described": all(bool(row[name]) == committed for name in DISCOUNTED),
        "hours of a commitment are positive": not committed or float(row["CommitmentDiscountQuantity"] or 0) > 0,
        "usage of a commitment has a status": bool(status) == (committed and not purchase),
        "what is used is metered": (float(row["ConsumedQuantity"] or 0) > 0) == (not purchase and not unused),
        "a quantity has a unit": bool(row["ConsumedUnit"]) == bool(row["ConsumedQuantity"]),
        "a type needs a resource": bool(row["ResourceType"]) == bool(row["ResourceId"]),
        "a service has its category": CATEGORIES.get(row["ServiceCategory"]) == row["ServiceSubcategory"],
    }
    return [f"{row['ChargeDescription']}: {rule}" for rule, holds in rules.items() if not holds]


def test_rows_keep_the_rules_of_the_specification(plan: Plan) -> None:
    rows = rows_of(plan)
    assert [broken for row in rows for broken in broken_rules(row)] == []
    parents = {(row["ProviderName"], row["SkuPriceId"], row["SkuId"]) for row in rows}
    assert len(parents) == len({price for _, price, _ in parents})
    listed = {(row["SkuPriceId"], row["ListUnitPrice"]) for row in rows if row["ServiceCategory"] == "Compute"}
    assert len(listed) == len({price for price, _ in listed}), "one SKU price has one list price"


def test_a_purchase_gives_the_hours_that_are_used_of_it(plan: Plan) -> None:
    hours: dict[tuple[str, str], set[float]] = {}
    for row in rows_of(plan):
        if row["CommitmentDiscountId"].startswith("planned:"):
            kind = row["CommitmentDiscountId"], row["ChargeFrequency"]
            hours.setdefault(kind, set()).add(float(row["CommitmentDiscountQuantity"]))
    bought = [key for key, frequency in hours if frequency != "Usage-Based"]
    assert {key for key, _ in hours} == set(bought)
    for key in bought:
        (used,) = hours[key, "Usage-Based"]
        assert hours.get((key, "Recurring"), {used}) == {used}
        assert hours.get((key, "One-Time"), {12 * used}) == {12 * used}


def test_hours_of_no_instances_are_no_charge() -> None:
    plan = fleet_plan(planner.case_from_text(UPFRONT))
    line = plan.fleet[0].model_copy(update={"instances_by_slot": tuple(s.month for s in plan.slots)})
    on_demand = line.model_copy(update={"purchase": "on-demand", "starting_usd_per_month": 0.0})
    rows = rows_of(plan.model_copy(update={"fleet": (on_demand,)}))
    hours = [row for row in rows if row["ChargeDescription"].endswith("on-demand")]
    assert [row["BillingPeriodStart"][:7] for row in hours] == ["2026-12", "2027-01"]


def test_it_reads_back_as_planned(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "budget.csv").write_text(focus_csv(plan, STARTS), encoding="utf-8")
    period = datetime(2026, 11, 1, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC)
    spec = BillSpec(focus=("budget.csv",))
    bill = reconcile(
        read_bill([tmp_path / "budget.csv"], spec, plan.case.offers, plan.case.apis, period), plan, "team", 2208, ()
    )
    costs = plan.costs
    besides = costs.caching_usd_per_month + costs.engineers_usd_per_month + (costs.vendors_usd_per_month or 0.0)
    assert bill.not_on_the_bill_usd_per_month == pytest.approx(besides)
    bought = plan.cost_usd_per_month + plan.held_usd_per_month - besides
    assert bill.paid_usd == pytest.approx(3 * bought, abs=0.01)
    planned = {
        way: sum(f.cost_usd_per_month for f in plan.fleet if f.purchase.startswith(way))
        for way in ("reserved", "on-demand", "spot")
    }
    planned["reserved"] += plan.held_usd_per_month
    found: dict[str, float] = {}
    for x in bill.instances:
        if x.paid_usd:
            found[x.purchase] = found.get(x.purchase, 0.0) + x.paid_usd
        assert x.planned_usd == pytest.approx(x.paid_usd * 2208 / 2190, abs=0.02)
    assert found == pytest.approx({way: 3 * usd for way, usd in planned.items() if usd}, abs=0.02)
    for x in bill.instances:
        if x.offer not in {line.offer for line in plan.fleet}:
            assert (x.paid_hours, x.unused_usd) == (0, x.paid_usd)
            continue
        assert x.paid_hours * 2208 / 2190 == pytest.approx(x.planned_hours, rel=1e-6)
        assert x.paid_usd_per_h == pytest.approx(x.planned_usd_per_h, rel=1e-5)
    for api in bill.apis:
        assert api.input_tokens * 2208 / 2190 == pytest.approx(api.planned_input_tokens, rel=1e-6)
        assert api.output_tokens * 2208 / 2190 == pytest.approx(api.planned_output_tokens, rel=1e-6)
        assert api.paid_usd * 2208 / 2190 == pytest.approx(api.planned_usd, abs=0.02)
    assert bill.no_offer == ()
    services = {"Engineers": costs.engineers_usd_per_month, "Vendors": costs.vendors_usd_per_month}
    assert {x.service for x in bill.other_services} == {name for name, usd in services.items() if usd}


def test_what_is_held_is_used_or_unused_at_its_signed_price() -> None:
    plan = fleet_plan(planner.case_from_text(HELD))
    in_use = {line.offer for line in plan.fleet}
    rows = [row for row in rows_of(plan) if row["CommitmentDiscountId"].startswith("held:")]
    assert len(rows) == 3 * 2
    prices = {"gcp/g2-standard-4@us-central1": 2 * 0.45 * 730, "aws/g6e.xlarge@us-east-1": 1.1 * 730}
    for row in rows:
        offer = row["SkuPriceId"].rsplit(":", 1)[0]
        assert float(row["EffectiveCost"]) == pytest.approx(prices[offer])
        assert row["CommitmentDiscountStatus"] == ("Used" if offer in in_use else "Unused")


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
        (("--format", "focus", "--starts", "9999-10-01"), "the quarter from 9999-10-01 on ends after the year 9999"),
        (("--format", "focus", "--starts", "soon"), "expected a day, got 'soon'. Write it as 2026-10-01"),
        (
            ("--format", "md", "--starts", "2026-10-01"),
            "sets the first day of a budget, which --format focus writes. Add --format focus",
        ),
    ):
        ran = fleetplan("report", file, *given)
        assert ran.code == 2 and message in ran.err and not ran.out
