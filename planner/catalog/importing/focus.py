"""A bill as a FOCUS export, 1.0 or later, in CSV or Parquet: the prices of your contract, and what spot has cost."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from planner.catalog.importing.files import is_parquet, parquet_rows, rows_of
from planner.catalog.importing.instances import has_gpus, instance_in, provider_called
from planner.catalog.importing.quotes import NO_RATE, Gathering, Quote, Way
from planner.io.errors import input_error, shown

NEEDED = (
    *("RegionId", "ChargeCategory", "PricingCategory", "PricingUnit", "PricingQuantity"),
    *("ServiceCategory", "ListUnitPrice", "EffectiveCost", "BillingCurrency", "ChargePeriodStart"),
)
PROVIDERS = ("ProviderName", "ServiceProviderName", "InvoiceIssuerName")
"""who sells it: the first, until version 1.3 gave it another name"""
METERS = ("SkuMeter", "x_UsageType")
DETAILS = ("SkuPriceDetails", "x_SkuDetails")
"""JSON objects that describe a SKU"""
TYPE_KEYS = ("InstanceType", "x_InstanceType", "ServiceType", "x_ServiceType")
"""of an instance type, in these objects"""
TYPE_COLUMNS = ("x_InstanceType", "x_SkuInstanceType", "x_MachineType")
MACHINE_TAG = "compute.googleapis.com/machine_spec"
"""a system label of Google Cloud, which its view of FOCUS has among the tags"""
DESCRIPTIONS = ("ChargeDescription", "x_SkuDescription", "x_SkuMeterName")
NAMING = (*METERS, *DETAILS, *TYPE_COLUMNS, *DESCRIPTIONS, "Tags")
"""what says which instance a row is of: meter and details from version 1.1 on, before that columns of a provider's own,
and where there is none of them, words"""
CATEGORIES = ("ChargeCategory", "PricingCategory", "CommitmentDiscountStatus", "CapacityReservationStatus")
"""of one word, which Google Cloud writes in lower case"""
SERVICES = ("x_ServiceCode", "ServiceName")
PRICING = (*NAMING, *SERVICES, "ContractedUnitPrice", "ChargeClass", "CapacityReservationStatus", "ConsumedUnit")
WAYS: dict[str, Way] = {"Standard": "on_demand", "Committed": "on_demand", "Dynamic": "spot"}
"""whose price a row's contracted one is: a commitment's discount is no part of it"""
HOURS = ("hours", "hour", "hrs", "h", "1 hour")
NOTHING = frozenset(("NULL", "null"))
COMMITTED = "price under a commitment, whose term a bill does not give"
OTHER_SYSTEM = "operating system other than Linux"
OTHER_CURRENCY = "billed in a currency other than USD, without a --rate"
BY_PARTS = "priced by the GPU, the core or the GB of memory, not by the instance"
Counted = Literal["instances", "GPUs", "other parts"]
_OTHER_SYSTEM = re.compile(r"(?i)\b(windows|rhel|red hat|suse|ubuntu pro|sql)\b")
_GPU_UNIT = re.compile(r"(?i)\bgpus?\b|gpuh")
_SPOT = re.compile(r"(?i)\b(spot|preemptible)\b")
_SELLS_INSTANCES = re.compile(r"(?i)elastic compute cloud|ec2(?! container)|\bcompute\b")
"""services of AWS; others, such as managed clusters, bill fees by the instance type"""
_METER_OF_INSTANCES = re.compile(
    r"(?:[\w-]+-)?(?:(?:Host)?BoxUsage|SpotUsage|DedicatedUsage|HeavyUsage|Unused(?:Box|Ded)"
    r"|(?:Reservation|DedicatedRes)\w*)"
)
"""of AWS, with or without a region in front"""
_LICENSE = re.compile(r"(?i)licen[cs]")
_BESIDE_A_MACHINE = re.compile(r"(?i)\b(ssd|storage|disk|pd|ip|egress|ingress|network|snapshot|image)\b|licens")
_MACHINE = re.compile(r"(?i)\b(instances?|predefined)\b")
_GPU, _OTHER_PART = re.compile(r"(?i)\bgpus?\b"), re.compile(r"(?i)\b(core|ram|memory)\b")


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
        for name in CATEGORIES:
            if row.get(name):
                row[name] = _category(row[name])
        row["BillingCurrency"] = row["BillingCurrency"].strip().upper()
        yield number, row


@lru_cache(maxsize=64)
def _category(word: str) -> str:
    return word.strip().capitalize()


def quote_of(row: dict[str, str], number: int, file: Path, gathering: Gathering) -> Quote | None:
    """The price that a row gives of an hour of a GPU instance; None where it gives none."""
    if not _is_usage(row):
        return None
    rate = gathering.rate_of(row["BillingCurrency"], row["ChargePeriodStart"])
    details = details_of(row, number, file, gathering)
    provider = provider_called(row["ProviderName"])
    instance = instance_of(row, provider, details)
    named = f"{provider}/{instance}"
    gpus = _number_of_gpus(details)
    if counted_by(row, provider) != "instances":
        gathering.leave_out(BY_PARTS, named if instance else f"{provider}/{row.get('ChargeDescription') or 'GPUs'}")
        return None
    if row["PricingUnit"].strip().lower() not in HOURS:
        return None
    if not instance or (gpus is None and not has_gpus(provider, instance)):
        return None  # an instance without GPUs, or not an instance
    if rate is None:
        gathering.leave_out(OTHER_CURRENCY, named)
        return None
    if not runs_linux(row, details):
        gathering.leave_out(OTHER_SYSTEM, named)
        return None
    way: Way | None = "spot" if is_spot(row, provider) else WAYS.get(row["PricingCategory"])
    if way is None:
        return None
    if row["PricingCategory"] == "Committed":
        gathering.leave_out(COMMITTED, named)
    price, rank = _price(row, way, number, file, gathering)
    what = "paid for spot" if way == "spot" else "list unit price" if rank else "contracted unit price"
    converted = "" if rate is NO_RATE else f", {row['BillingCurrency']} at {rate}"
    return Quote(
        provider=provider,
        instance=instance,
        region=row["RegionId"],
        way=way,
        usd_per_h=rate.usd_of(price),
        source=f"FOCUS bill, {file.name}: {what}{converted}",
        date=gathering.day(row["ChargePeriodStart"], file),
        gpus=gpus,
        rank=rank,
    )


def _is_usage(row: dict[str, str]) -> bool:
    """Whether compute was used: no purchase, tax, credit, correction or unused reservation."""
    return (
        row["ChargeCategory"] == "Usage"
        and not row.get("ChargeClass")
        and is_compute(row)
        and row.get("CapacityReservationStatus") != "Unused"
    )


def is_compute(row: Mapping[str, str]) -> bool:
    """Google Cloud has a list of categories here."""
    return "compute" in row.get("ServiceCategory", "").lower()


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


@lru_cache(maxsize=4096)
def tags_of(text: str) -> dict[str, str] | None:
    """Tags by name, from an object or a list of pairs, of which the first counts; None where it is neither."""
    tags = json_object(text)
    if tags is not None:
        return {str(name): "" if value is None else str(value) for name, value in tags.items()}
    try:
        pairs = json.loads(text)
        return {str(pair["key"]): "" if pair["value"] is None else str(pair["value"]) for pair in reversed(pairs)}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def instance_of(row: Mapping[str, str], provider: str, details: dict[str, Any]) -> str:
    """The instance type that a row is of; empty where it names none."""
    if is_on_top(row, provider):
        return ""
    for cells, names in ((details, TYPE_KEYS), (row, TYPE_COLUMNS)):
        for name in names if cells else ():
            if isinstance(named := cells.get(name), str) and named.strip():
                return named.strip()
    if provider == "gcp" and (machine := (tags_of(row.get("Tags", "")) or {}).get(MACHINE_TAG)):
        return machine
    usage, _, metered = (row.get("SkuMeter") or row.get("x_UsageType") or "").rpartition(":")
    if usage and provider == "aws":
        return metered
    # A service on top of instances, such as a managed cluster, describes them too, and bills only its own fee.
    return instance_in(provider, described(row)) if is_compute(row) or not row.get("ServiceCategory") else ""


def is_on_top(row: Mapping[str, str], provider: str) -> bool:
    """Whether a row that names an instance is of something besides: a managed cluster's fee, a license, an address."""
    if provider == "aws":
        return _is_fee(next((row[name] for name in SERVICES if row.get(name)), ""), *(row.get(m, "") for m in METERS))
    if provider == "azure":
        return bool(_LICENSE.search(f"{row.get('ServiceName', '')} {described(row)}"))
    return provider == "gcp" and not _is_of_gpus(row.get("PricingUnit", "")) and _is_beside(described(row))


@lru_cache(maxsize=4096)
def _is_fee(service: str, meter: str, usage_type: str) -> bool:
    """By AWS's service and meters; a SkuMeter may be words, and then says nothing."""
    if service and not _SELLS_INSTANCES.search(service):
        return True
    meters = [meter] if ":" in meter else []
    return any(not _METER_OF_INSTANCES.fullmatch(m.partition(":")[0]) for m in (*meters, usage_type) if m)


@lru_cache(maxsize=4096)
def _is_beside(words: str) -> bool:
    """By Google Cloud's words for a row: neither a GPU, cores or memory, nor a machine as a whole."""
    if not words or _BESIDE_A_MACHINE.search(words):
        return bool(words)
    known = (_GPU, _OTHER_PART, _MACHINE)
    return not any(pattern.search(words) for pattern in known) and not instance_in("gcp", words)


def described(row: Mapping[str, str]) -> str:
    return "; ".join(text for name in DESCRIPTIONS if (text := row.get(name)))


def counted_by(row: Mapping[str, str], provider: str) -> Counted:
    """What the hours of a row are of: Google Cloud bills GPUs, cores and memory of a machine in rows of their own."""
    if _is_of_gpus(row.get("PricingUnit", "")) or _is_of_gpus(row.get("ConsumedUnit", "")):
        return "GPUs"
    if provider == "gcp":
        words = described(row) or row.get("SkuMeter", "")
        if _GPU.search(words):
            return "GPUs"
        if _OTHER_PART.search(words):
            return "other parts"
    return "instances"


@lru_cache(maxsize=1024)
def _is_of_gpus(unit: str) -> bool:
    return bool(_GPU_UNIT.search(unit))


def runs_linux(row: Mapping[str, str], details: dict[str, Any]) -> bool:
    system = details.get("OperatingSystem")
    if system is not None:
        return str(system).lower().startswith("linux")
    return not _OTHER_SYSTEM.search(row.get("ChargeDescription", ""))


def is_spot(row: Mapping[str, str], provider: str) -> bool:
    category = row.get("PricingCategory")
    if category == "Dynamic" or "SpotUsage" in (row.get("SkuMeter") or row.get("x_UsageType") or ""):
        return True
    # Google Cloud's view calls spot "standard".
    return (provider == "gcp" or not category) and bool(_SPOT.search(described(row)))


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
