"""The bill of examples/quarterly-review: every table adds up to the cent, against sums made in the plainest way."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from planner.plan.plan import Plan
from planner.plan.saved import read_plan
from planner.review.bills.bill import BillSpec, read_bill
from planner.review.bills.reconciliation import reconcile
from planner.review.bills.records import BillReview
from planner.review.review_file import ReviewInputs, read_review
from tests.support.places import ROOT

EXAMPLE = ROOT / "examples" / "quarterly-review"
L40S = "aws/g6e.xlarge@us-east-1"
DAYS = [f"2026-08-{31}", *(f"2026-09-{day:02d}" for day in range(1, 28))]
"""under review"""
RATE = Decimal("1.08")
"""of EUR, as the example gives it"""
Row = dict[str, str]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return read_plan(EXAMPLE / "last-plan.json")


@pytest.fixture(scope="module")
def inputs() -> ReviewInputs:
    return read_review(EXAMPLE / "REVIEW.yaml")


@pytest.fixture(scope="module")
def bill(inputs: ReviewInputs, plan: Plan) -> BillReview:
    assert inputs.bill is not None
    return reconcile(inputs.bill, plan, "team", 672, inputs.prices)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """As USD: one of them is in EUR."""
    with open(EXAMPLE / "bill.csv", encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    for row in found:
        if row["BillingCurrency"] == "EUR":
            row |= {name: str(Decimal(row[name]) * RATE) for name in ("BilledCost", "EffectiveCost")}
    return found


def inside(row: Row) -> Decimal:
    """Days of a charge that are under review, as a share: September's first 27 of 30, or all or nothing of a day."""
    if row["ChargePeriodStart"][:10] == "2026-09-01" and row["ChargePeriodEnd"][:10] == "2026-10-01":
        return Decimal(27) / 30
    return Decimal(row["ChargePeriodStart"][:10] in DAYS)


def summed(rows: list[Row], holds: Callable[[Row], bool], column: str = "EffectiveCost") -> Decimal:
    return sum((Decimal(r[column]) * inside(r) for r in rows if holds(r)), Decimal(0))


def is_plain_usage(row: Row) -> bool:
    return row["ChargeCategory"] == "Usage" and not row["ChargeClass"]


def cents(usd: float) -> int:
    assert abs(100 * usd - round(100 * usd)) < 1e-4, usd
    return round(100 * usd)


def test_kinds_of_charges_are_the_naive_sums_and_add_up_to_the_bill(bill: BillReview, rows: list[Row]) -> None:
    expected: dict[str, Callable[[Row], bool]] = {
        "instances": lambda r: (
            is_plain_usage(r) and (":g6e.xlarge" in r["SkuMeter"] or bool(r["CommitmentDiscountId"]))
        ),
        "apis": lambda r: is_plain_usage(r) and r["ProviderName"] == "OpenAI",
        "no offer": lambda r: is_plain_usage(r) and r["SkuMeter"] == "BoxUsage:g6.xlarge",
        "other services": lambda r: (
            is_plain_usage(r) and (r["SkuMeter"] == "BoxUsage:m7i.large" or r["ServiceName"] == "Metrics")
        ),
        "commitments bought": lambda r: r["ChargeCategory"] == "Purchase",
        "taxes": lambda r: r["ChargeCategory"] == "Tax",
        "credits": lambda r: r["ChargeCategory"] == "Credit",
        "corrections": lambda r: bool(r["ChargeClass"]),
    }
    found = {k.kind: k for k in bill.kinds}
    assert set(found) == {*expected, "outside the period"}
    for kind, holds in expected.items():
        for column, value in (("EffectiveCost", found[kind].effective_usd), ("BilledCost", found[kind].billed_usd)):
            assert abs(100 * summed(rows, holds, column) - cents(value)) < 1, (kind, column)
    for column, total, parts in (
        ("BilledCost", bill.total_billed_usd, [k.billed_usd for k in bill.kinds]),
        ("EffectiveCost", bill.total_effective_usd, [k.effective_usd for k in bill.kinds]),
    ):
        assert cents(total) == round(100 * sum(Decimal(r[column]) for r in rows)) == sum(map(cents, parts))
    assert sum(k.rows for k in bill.kinds) == len(rows) == bill.rows


def test_every_table_adds_up_to_what_was_paid(bill: BillReview) -> None:
    counted = sum(cents(k.effective_usd) for k in bill.kinds if k.counted)
    assert [k.kind for k in bill.kinds if k.counted] == ["instances", "apis"]
    assert cents(bill.paid_usd) == counted
    assert sum(cents(x.paid_usd) for x in bill.instances) + sum(cents(x.paid_usd) for x in bill.apis) == counted
    assert sum(cents(t.usd) for t in bill.teams) == counted
    assert all(cents(t.usd) == cents(t.instances_usd) + cents(t.apis_usd) for t in bill.teams)
    by_kind = {k.kind: cents(k.effective_usd) for k in bill.kinds}
    assert sum(cents(x.effective_usd) for x in bill.no_offer) == by_kind["no offer"]
    assert sum(cents(x.effective_usd) for x in bill.other_services) == by_kind["other services"]
    assert bill.paid_usd_per_month == pytest.approx(bill.paid_usd * 730 / 672)


def test_planned_is_the_plan_over_the_same_days(bill: BillReview, plan: Plan) -> None:
    for purchase, name in (("reserved-1y", "reserved"), ("on-demand", "on-demand")):
        line = next(f for f in plan.fleet if f.purchase == purchase)
        shown = next(x for x in bill.instances if x.purchase == name)
        assert shown.planned_usd == pytest.approx(line.cost_usd_per_month * 672 / 730, abs=0.01)
        assert shown.planned_usd_per_h == pytest.approx(line.usd_per_h)
    assert bill.planned_usd == pytest.approx(plan.cost_usd_per_month * 672 / 730, abs=0.02)


def test_the_commitment_is_counted_once_and_its_use_is_known(bill: BillReview, rows: list[Row]) -> None:
    (c,) = bill.commitments
    status = {
        s: summed(rows, lambda r, s=s: r["CommitmentDiscountStatus"] == s)  # type: ignore[misc]
        for s in ("Used", "Unused")
    }
    assert (cents(c.used_usd), cents(c.unused_usd)) == (round(100 * status["Used"]), round(100 * status["Unused"]))
    assert c.utilization_frac == pytest.approx(float(status["Used"] / (status["Used"] + status["Unused"])), rel=1e-5)
    hours = [(r, Decimal(r["ConsumedQuantity"]) * inside(r)) for r in rows if r["SkuMeter"].endswith(":g6e.xlarge")]
    covered = sum(n for r, n in hours if r["CommitmentDiscountId"])
    assert c.coverage_frac == pytest.approx(float(covered / sum(n for _, n in hours)))
    line = next(x for x in bill.instances if x.purchase == "reserved")
    assert cents(line.paid_usd) == cents(c.used_usd) + cents(c.unused_usd)
    assert line.unused_usd == c.unused_usd


def test_spot_tokens_and_teams_are_the_naive_sums(bill: BillReview, rows: list[Row], plan: Plan) -> None:
    (spot,) = bill.spot
    days: defaultdict[str, list[Decimal]] = defaultdict(list)
    for r in rows:
        if r["PricingCategory"] == "Dynamic" and inside(r):
            days[r["ChargePeriodStart"]].append(Decimal(r["EffectiveCost"]) / Decimal(r["ConsumedQuantity"]))
    each = [float(prices[0]) for prices in days.values()]
    known = plan.case.offers[L40S].prices.spot
    assert known is not None and spot.planned_usd_per_h == known.p50_usd_per_h
    assert (spot.lowest_day_usd_per_h, spot.highest_day_usd_per_h) == pytest.approx((min(each), max(each)))
    assert spot.paid_usd_per_h == pytest.approx(sum(each) / len(each))  # each day has the same hours
    (api,) = bill.apis
    tokens = {
        kind: float(sum(Decimal(r["ConsumedQuantity"]) for r in rows if r["SkuMeter"] == kind and inside(r)))
        for kind in ("InputTokens", "OutputTokens")
    }
    assert (api.api, api.input_tokens, api.output_tokens) == ("openai/gpt-4o-mini", *tokens.values())
    teams = {t.team: t for t in bill.teams}
    assert list(teams) == ["support", "documents", None, "(not used)"]
    assert teams["documents"].usd == pytest.approx(float(summed(rows, lambda r: "summaries" in r["Tags"])), abs=0.01)
    assert teams[None].usd == pytest.approx(float(summed(rows, lambda r: r["PricingCategory"] == "Dynamic")), abs=0.01)


def test_what_is_in_no_sum_is_listed(bill: BillReview) -> None:
    assert bill.other_currencies == ()
    (eur,) = bill.converted_currencies  # 27 of its 30 days
    assert (eur.currency, eur.rows, eur.effective, eur.usd, eur.effective_usd) == ("EUR", 1, 80.91, 1.08, 87.38)
    assert [(x.what, x.why, x.rows, x.hours) for x in bill.no_offer] == [
        ("aws/g6.xlarge@us-east-1", "not on the plan's menu", 4, 32.0)
    ]
    assert [x.service for x in bill.other_services] == ["Metrics", "instances without GPUs (aws)"]
    assert bill.notes == ()


def test_the_contracted_price_is_one_of_the_next_plan(inputs: ReviewInputs, bill: BillReview, plan: Plan) -> None:
    (price,) = bill.prices
    assert (price.offer, price.purchase, price.usd_per_h, price.date) == (L40S, "on-demand", 1.75, "2026-09-27")
    assert price.before_usd_per_h == plan.case.offers[L40S].prices.on_demand.usd_per_h  # type: ignore[union-attr]
    prices = inputs.next_case.offers[L40S].prices
    assert prices.on_demand is not None and prices.reserved_1y is not None
    assert (prices.on_demand.usd_per_h, prices.on_demand.date) == (1.75, "2026-09-27")
    assert prices.on_demand.source == "FOCUS bill, bill.csv: contracted unit price"
    assert prices.reserved_1y.usd_per_h == 1.12  # `next: prices:` overrides what follows from the bill


def test_parquet_and_gzip_say_the_same(tmp_path: Path, inputs: ReviewInputs, plan: Plan) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pacsv = pytest.importorskip("pyarrow.csv")
    (tmp_path / "bill.csv.gz").write_bytes(gzip.compress((EXAMPLE / "bill.csv").read_bytes()))
    types = {
        "BilledCost": pa.decimal128(30, 12),
        "EffectiveCost": pa.decimal128(30, 12),
        "ConsumedQuantity": pa.float64(),
        "ChargePeriodStart": pa.timestamp("us", "UTC"),
    }
    table = pacsv.read_csv(EXAMPLE / "bill.csv", convert_options=pacsv.ConvertOptions(column_types=types))
    tags = [list(json.loads(text).items()) for text in table["Tags"].to_pylist()]
    maps = pa.array(tags, pa.map_(pa.string(), pa.string()))
    table = table.set_column(table.schema.get_field_index("Tags"), "Tags", maps)
    pq.write_table(table, tmp_path / "bill.parquet", row_group_size=50)
    period = inputs.span.times(inputs.log)
    found = []
    for name in ("bill.csv.gz", "bill.parquet"):
        read = read_bill([tmp_path / name], BillSpec(focus=(name,)), plan.case.offers, plan.case.apis, period)
        found.append(reconcile(read, plan, "team", 672, ()).model_copy(update={"files": ()}))
    assert found[0] == found[1]
    assert found[0].paid_usd > 0
