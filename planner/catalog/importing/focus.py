"""A bill as a FOCUS export, 1.0 or later, in CSV or Parquet: the prices of your contract, and what spot has cost."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.catalog.importing.files import is_parquet, rows_of
from planner.catalog.importing.instances import has_gpus, provider_called
from planner.catalog.importing.parquet import parquet_rows
from planner.catalog.importing.quotes import Gathering, Quote, Way
from planner.io.errors import input_error, shown

NEEDED = (
    *("RegionId", "ChargeCategory", "PricingCategory", "PricingUnit", "PricingQuantity"),
    *("ServiceCategory", "ListUnitPrice", "EffectiveCost", "BillingCurrency", "ChargePeriodStart"),
)
PROVIDERS = ("ProviderName", "ServiceProviderName", "InvoiceIssuerName")
"""who sells it: the first, until version 1.3 gave it another name"""
NAMING = ("SkuMeter", "SkuPriceDetails", "x_UsageType", "x_SkuDetails")
"""what says which instance a row is of: from version 1.1 on the first two, before that columns of AWS and Azure"""
PRICING = (*NAMING, "ContractedUnitPrice", "ChargeClass", "CapacityReservationStatus")
WAYS: dict[str, Way] = {"Standard": "on_demand", "Committed": "on_demand", "Dynamic": "spot"}
"""whose price a row's contracted one is: a commitment's discount is no part of it"""
HOURS = ("Hours", "Hour", "Hrs", "hours", "1 Hour")
NOTHING = frozenset(("NULL", "null"))
COMMITTED = "price under a commitment, whose term a bill does not give"
OTHER_SYSTEM = "operating system other than Linux"
OTHER_CURRENCY = "billed in another currency than USD"


def read(file: Path, gathering: Gathering) -> Iterator[Quote]:
    for number, row in focus_rows(file, NEEDED, PRICING, gathering):
        if _is_usage(row) and gathering.wants(row["RegionId"]):
            quote = quote_of(row, number, file, gathering)
            if quote is not None:
                yield quote


def focus_rows(
    file: Path, needed: tuple[str, ...], wanted: Collection[str] | None, gathering: Gathering
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of an export with the columns that are needed, and those wanted (None: all), by line (in Parquet, by row).

    ProviderName is always there.
    """
    kept = None if wanted is None else {*wanted, *PROVIDERS}
    rows = parquet_rows(file, needed, kept) if is_parquet(file) else rows_of(file, needed, gathering, kept)
    for number, cells in rows:
        row = {name: "" if cell in NOTHING else cell for name, cell in cells.items()}
        if "ProviderName" not in row and "ServiceProviderName" not in row:
            raise input_error(file, "has no column 'ProviderName'", "Give a FOCUS export, version 1.0 or later", 1)
        row["ProviderName"] = next((row[name] for name in PROVIDERS if row.get(name)), "")
        yield number, row


def quote_of(row: dict[str, str], number: int, file: Path, gathering: Gathering) -> Quote | None:
    """The price that a row gives of an hour of a GPU instance; None where it gives none."""
    if not _is_usage(row):
        return None
    details = details_of(row, number, file, gathering)
    provider = provider_called(row["ProviderName"])
    instance = instance_of(row, provider, details)
    named = f"{provider}/{instance}"
    gpus = _number_of_gpus(details)
    if not instance or (gpus is None and not has_gpus(provider, instance)):
        return None  # an instance without GPUs, or not an instance
    if row["BillingCurrency"] != "USD":
        gathering.leave_out(OTHER_CURRENCY, named)
        return None
    if not runs_linux(details):
        gathering.leave_out(OTHER_SYSTEM, named)
        return None
    if row["PricingCategory"] not in WAYS:
        return None
    if row["PricingCategory"] == "Committed":
        gathering.leave_out(COMMITTED, named)
    way = WAYS[row["PricingCategory"]]
    price, rank = _price(row, way, number, file, gathering)
    return Quote(
        provider=provider,
        instance=instance,
        region=row["RegionId"],
        way=way,
        usd_per_h=price,
        source=f"FOCUS bill, {file.name}: {'paid for spot' if way == 'spot' else 'contracted unit price'}",
        date=gathering.day(row["ChargePeriodStart"], file),
        gpus=gpus,
        rank=rank,
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


def details_of(row: dict[str, str], number: int, file: Path, gathering: Gathering) -> dict[str, Any]:
    """Facts about the SKU; empty where the row has none."""
    name = "SkuPriceDetails" if row.get("SkuPriceDetails") else "x_SkuDetails"
    details = json_object(row.get(name, ""))
    if details is None:
        gathering.complain(file, number, name, f"expected a JSON object, got {shown(row[name])}")
    return details or {}


@lru_cache(maxsize=4096)
def json_object(text: str) -> dict[str, Any] | None:
    """A cell that holds a JSON object, empty where it is blank; None where it holds something else."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def instance_of(row: Mapping[str, str], provider: str, details: dict[str, Any]) -> str:
    """The instance type that a row is of; empty where it names none."""
    named = details.get("InstanceType") or details.get("ServiceType")
    if isinstance(named, str) and named:
        return named
    usage, _, metered = (row.get("SkuMeter") or row.get("x_UsageType") or "").rpartition(":")
    return metered if usage and provider == "aws" else ""


def runs_linux(details: dict[str, Any]) -> bool:
    return str(details.get("OperatingSystem", "Linux")).lower().startswith("linux")


def _number_of_gpus(details: dict[str, Any]) -> float | None:
    count = details.get("GpuCount")
    if isinstance(count, str):
        return float(count) if count.isascii() and count.isdigit() else None
    return float(count) if isinstance(count, int | float) else None


def _price(row: dict[str, str], way: Way, number: int, file: Path, gathering: Gathering) -> tuple[float, int]:
    """The contracted price of an hour, else what it cost; a list price, of a higher rank, where neither is known."""
    contracted = gathering.price(row.get("ContractedUnitPrice"), file, number, "ContractedUnitPrice")
    if contracted:
        return contracted, 0
    if way == "spot":
        hours = gathering.price(row["PricingQuantity"], file, number, "PricingQuantity")
        cost = gathering.price(row["EffectiveCost"], file, number, "EffectiveCost")
        return (cost / hours if hours else 0.0), 0
    return gathering.price(row["ListUnitPrice"], file, number, "ListUnitPrice"), 1
