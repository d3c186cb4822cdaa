"""Bills as FOCUS exports: made of charges, the same bytes every time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

from planner.plan.plan import Plan
from planner.plan.saved import read_plan
from tests.support.review_data import wobble

COLUMNS = (
    "BilledCost", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargePeriodStart", "ChargePeriodEnd", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountStatus", "CommitmentDiscountType", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity",
    "PricingUnit", "ProviderName", "RegionId", "ResourceId", "ServiceCategory", "ServiceName", "SkuId", "SkuMeter",
    "SkuPriceId", "SubAccountName", "Tags",
)  # fmt: skip
"""of FOCUS 1.2; no other is read"""
FIRST, LAST = date(2026, 8, 31), date(2026, 9, 30)
MICRO = Decimal("0.000001")
RESERVED = {
    "CommitmentDiscountId": "arn:aws:ec2:us-east-1:111122223333:reserved-instances/ri-0004",
    "CommitmentDiscountName": "ri-g6e-1y",
    "CommitmentDiscountType": "Reserved Instance",
    "PricingCategory": "Committed",
}
Charge = dict[str, object]


def charge(first: date, days: int = 1, **cells: object) -> Charge:
    """A charge of some days; what is not given is as in most rows."""
    month = first.replace(day=1)
    after = (month + timedelta(days=32)).replace(day=1)
    usual: Charge = {
        "BillingCurrency": "USD", "ChargeCategory": "Usage", "ProviderName": "AWS", "RegionId": "us-east-1",
        "BillingPeriodStart": f"{month}T00:00:00Z", "BillingPeriodEnd": f"{after}T00:00:00Z",
        "ChargePeriodStart": f"{first}T00:00:00Z", "ChargePeriodEnd": f"{first + timedelta(days=days)}T00:00:00Z",
        "ServiceCategory": "Compute", "ServiceName": "Amazon Elastic Compute Cloud", "SubAccountName": "llm-serving",
        "Tags": "{}",
    }  # fmt: skip
    effective = cells.get("EffectiveCost", cells.get("BilledCost", 0))
    return usual | {"BilledCost": effective, "EffectiveCost": effective} | cells


def hours(
    first: date, instance: str, number: Decimal, price: Decimal, way: str = "Standard", **cells: object
) -> Charge:
    """Hours of an instance at a contracted price."""
    cost = (number * price).quantize(MICRO)
    meter = "SpotUsage" if way == "Dynamic" else "BoxUsage"
    usual: Charge = {
        "EffectiveCost": cost, "ContractedCost": cost, "ContractedUnitPrice": price, "ListUnitPrice": price,
        "ListCost": cost, "PricingCategory": way, "PricingQuantity": number, "PricingUnit": "Hours",
        "ConsumedQuantity": number, "ConsumedUnit": "Hours", "SkuMeter": f"{meter}:{instance}",
        "SkuId": f"{instance}-linux", "SkuPriceId": f"{instance}-linux.{way}",
    }  # fmt: skip
    return charge(first, **(usual | cells))


def tags(**named: str) -> dict[str, object]:
    return {"Tags": json.dumps(named)}


def as_focus(charges: Iterable[Charge], columns: tuple[str, ...] = COLUMNS) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n", extrasaction="ignore", restval="")
    writer.writeheader()
    writer.writerows(charges)
    return out.getvalue()


def write_bill(folder: Path) -> None:
    """The bill of examples/quarterly-review."""
    plan = read_plan(folder / "last-plan.json")
    (folder / "bill.csv").write_text(as_focus(example_bill(plan)), encoding="utf-8")


def example_bill(plan: Plan) -> list[Charge]:
    """A month with four reserved instances, more on demand than planned, and what bills have besides."""
    prices = {f.purchase: Decimal(str(f.usd_per_h)) for f in plan.fleet}
    rows: list[Charge] = []
    for k in range((LAST - FIRST).days + 1):
        rows += _day(k, FIRST + timedelta(days=k), prices["reserved-1y"], prices["on-demand"])
    september = date(2026, 9, 1)
    rows.append(charge(september, 30, BilledCost=4 * 720 * prices["reserved-1y"], EffectiveCost=0,
                       ChargeCategory="Purchase", ChargeDescription="1 year, no upfront", **RESERVED))  # fmt: skip
    rows.append(charge(september, 30, BilledCost=Decimal("412.37"), ChargeCategory="Tax", ServiceCategory="Other",
                       ServiceName="Tax", RegionId=""))  # fmt: skip
    rows.append(charge(september, 30, BilledCost=Decimal("-150"), ChargeCategory="Credit",
                       ChargeDescription="promotional credit", RegionId=""))  # fmt: skip
    rows.append(charge(date(2026, 9, 8), BilledCost=Decimal("-5.25"), ChargeClass="Correction",
                       ChargeDescription="three hours of August that were billed twice"))  # fmt: skip
    rows.append(charge(september, 30, BilledCost=Decimal("89.90"), BillingCurrency="EUR", ProviderName="Metrics GmbH",
                       ServiceCategory="Management and Governance", ServiceName="Metrics"))  # fmt: skip
    return rows


def _day(k: int, day: date, reserved: Decimal, listed: Decimal) -> Iterator[Charge]:
    chat, summaries = tags(team="support", workload="support-chat"), tags(team="documents", workload="summaries")
    weekend, contracted = day.weekday() >= 5, Decimal("1.75")
    idle = Decimal(14 if weekend else 2)
    for used, whose in ((Decimal(48) - idle, chat), (Decimal(48), summaries)):
        yield hours(day, "g6e.xlarge", used, contracted, "Committed", BilledCost=0, **RESERVED, ListUnitPrice=listed,
                    EffectiveCost=used * reserved, CommitmentDiscountStatus="Used",
                    ResourceId="i-0a01", **whose)  # fmt: skip
    yield charge(day, BilledCost=0, EffectiveCost=idle * reserved, CommitmentDiscountStatus="Unused", **RESERVED)
    busy = (Decimal(20 if weekend else 41) + Decimal(f"{3 * wobble(k):.6f}")).quantize(MICRO)
    yield hours(day, "g6e.xlarge", busy, contracted, ListUnitPrice=listed, ResourceId="i-0b02", **chat)
    if weekend:
        spot = (listed / 2 * Decimal(f"{1 + 0.1 * wobble(k + 50):.4f}")).quantize(MICRO)
        yield hours(day, "g6e.xlarge", Decimal("9.5"), spot, "Dynamic", ListUnitPrice=listed, ResourceId="sir-0c03")
    if k % 7 == 2:
        yield hours(day, "g6.xlarge", Decimal("8"), Decimal("0.8048"), ResourceId="i-0d04", **tags(team="research"))
    yield hours(day, "m7i.large", Decimal("24"), Decimal("0.1008"), ResourceId="i-0e05", **tags(team="platform"))
    for kind, tokens, price in (("Input", 6_600_000, "0.15"), ("Output", 1_310_000, "0.60")):
        millions = Decimal(round(tokens * (1 + 0.1 * wobble(k + 7)))) / 10**6
        yield charge(day, EffectiveCost=millions * Decimal(price), ContractedUnitPrice=price, ListUnitPrice=price,
                     PricingCategory="Standard", PricingQuantity=millions, PricingUnit="1M Tokens",
                     ConsumedQuantity=millions * 10**6, ConsumedUnit="Tokens", ProviderName="OpenAI", RegionId="",
                     ResourceId="gpt-4o-mini-2024-07-18", ServiceCategory="AI and Machine Learning",
                     ServiceName="OpenAI API", SkuMeter=f"{kind}Tokens", SkuId="gpt-4o-mini", **chat)  # fmt: skip
