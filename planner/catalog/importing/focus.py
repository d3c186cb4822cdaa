"""A bill as a FOCUS export in CSV: the prices of your contract, and what spot has cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.catalog.importing.files import rows_of
from planner.catalog.importing.instances import has_gpus, provider_called
from planner.catalog.importing.quotes import Gathering, Quote, Way
from planner.io.errors import shown

COLUMNS = (
    *("ProviderName", "RegionId", "ChargeCategory", "PricingCategory", "PricingUnit", "PricingQuantity"),
    *("ServiceCategory", "ListUnitPrice", "EffectiveCost", "BillingCurrency", "ChargePeriodStart"),
)
WAYS: dict[str, Way] = {"Standard": "on_demand", "Committed": "on_demand", "Dynamic": "spot"}
"""whose price a row's contracted one is: a commitment's discount is no part of it"""
HOURS = ("Hours", "Hour", "Hrs", "hours", "1 Hour")
COMMITTED = "price under a commitment, whose term a bill does not give"
OTHER_SYSTEM = "operating system other than Linux"
OTHER_CURRENCY = "billed in another currency than USD"


def read(file: Path, gathering: Gathering) -> Iterator[Quote]:
    for number, row in rows_of(file, COLUMNS, gathering):
        if not _is_usage(row) or not gathering.wants(row["RegionId"]):
            continue
        details = _details(row.get("SkuPriceDetails", ""), number, file, gathering)
        provider = provider_called(row["ProviderName"])
        usage, _, metered = row.get("SkuMeter", "").rpartition(":")
        instance = str(details.get("InstanceType") or (metered if usage else ""))
        named = f"{provider}/{instance}"
        system = str(details.get("OperatingSystem", "Linux"))
        gpus = details.get("GpuCount")
        if not instance or (gpus is None and not has_gpus(provider, instance)):
            continue  # an instance without GPUs, or not an instance
        if row["BillingCurrency"] != "USD":
            gathering.leave_out(OTHER_CURRENCY, named)
        elif not system.lower().startswith("linux"):
            gathering.leave_out(OTHER_SYSTEM, named)
        elif row["PricingCategory"] in WAYS:
            if row["PricingCategory"] == "Committed":
                gathering.leave_out(COMMITTED, named)
            way = WAYS[row["PricingCategory"]]
            yield Quote(
                provider=provider,
                instance=instance,
                region=row["RegionId"],
                way=way,
                usd_per_h=_price(row, way, number, file, gathering),
                source=f"FOCUS bill, {file.name}: {'paid for spot' if way == 'spot' else 'contracted unit price'}",
                date=gathering.day(row["ChargePeriodStart"], file),
                gpus=float(gpus) if isinstance(gpus, int | float) else None,
            )


def _is_usage(row: dict[str, str]) -> bool:
    """Whether hours of an instance were used: no purchase, tax, credit, correction or unused reservation."""
    return (
        row["ChargeCategory"] == "Usage"
        and not row.get("ChargeClass")
        and row["ServiceCategory"] == "Compute"
        and row["PricingUnit"] in HOURS
        and row.get("CapacityReservationStatus") != "Unused"
    )


def _details(text: str, number: int, file: Path, gathering: Gathering) -> dict[str, Any]:
    if not text:
        return {}
    try:
        details = json.loads(text)
    except (ValueError, RecursionError):
        details = None
    if not isinstance(details, dict):
        gathering.complain(file, number, "SkuPriceDetails", f"expected a JSON object, got {shown(text)}")
        return {}
    return details


def _price(row: dict[str, str], way: Way, number: int, file: Path, gathering: Gathering) -> float:
    """The contracted price of an hour, else what it cost; a list price only where nothing else is known."""
    contracted = gathering.price(row.get("ContractedUnitPrice"), file, number, "ContractedUnitPrice")
    if contracted:
        return contracted
    if way == "spot":
        hours = gathering.price(row["PricingQuantity"], file, number, "PricingQuantity")
        cost = gathering.price(row["EffectiveCost"], file, number, "EffectiveCost")
        return cost / hours if hours else 0.0
    return gathering.price(row["ListUnitPrice"], file, number, "ListUnitPrice")
