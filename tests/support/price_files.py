"""Small price files in the schemas of five sources; names and figures are made up unless a test says otherwise."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

SKYPILOT_HEAD = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone"
)
GPUHUNT_HEAD = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags"
LINUX = {
    "tenancy": "Shared",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "operation": "RunInstances",
    "marketoption": "OnDemand",
}


def skypilot(folder: Path, cloud: str, *rows: str) -> Path:
    """A SkyPilot file: type, GPU, number, price, spot price, region and zone of each row."""
    lines = [SKYPILOT_HEAD]
    for row in rows:
        instance, gpu, number, price, spot, region, zone = row.split(",")
        lines.append(f"{instance},{gpu},{number},8,64,,{price},{spot},{region},{zone}")
    file = folder / cloud / "vms.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def gpuhunt(file: Path, *rows: str) -> Path:
    """A gpuhunt file: type, region, price, number, GPU, memory, and whether spot."""
    lines = [GPUHUNT_HEAD]
    for row in rows:
        instance, region, price, number, gpu, memory, spot = row.split(",")
        lines.append(f"{instance},{region},{price},8,64,{number},{gpu},{memory},{spot},,nvidia,")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def aws_product(sku: str, instance: str, **attributes: str) -> dict[str, Any]:
    about = {"instanceType": instance, "regionCode": "us-east-1", "gpu": "8", **LINUX, **attributes}
    return {"sku": sku, "productFamily": "Compute Instance", "attributes": about}


def aws_term(usd_per_h: str, upfront: str | None = None, **attributes: str) -> dict[str, Any]:
    dimensions = {"h": {"unit": "Hrs", "rateCode": "h", "pricePerUnit": {"USD": usd_per_h}}}
    if upfront is not None:
        dimensions["q"] = {"unit": "Quantity", "rateCode": "q", "pricePerUnit": {"USD": upfront}}
    return {"priceDimensions": dimensions, "termAttributes": attributes}


def aws_prices(
    file: Path,
    products: list[dict[str, Any]],
    on_demand: dict[str, dict[str, Any]],
    reserved: dict[str, list[dict[str, Any]]] | None = None,
) -> Path:
    terms = {
        "OnDemand": {sku: {f"{sku}.D": term} for sku, term in on_demand.items()},
        "Reserved": {sku: {f"{sku}.{k}": t for k, t in enumerate(all_)} for sku, all_ in (reserved or {}).items()},
    }
    document = {"publicationDate": "2026-08-01T00:00:00Z", "products": {p["sku"]: p for p in products}, "terms": terms}
    file.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return file


def azure_item(sku: str, usd: float, **changes: Any) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "retailPrice": usd,
        "armRegionName": "eastus",
        "effectiveStartDate": "2026-07-01T00:00:00Z",
        "productName": "Virtual Machines ND Series",
        "skuName": sku.removeprefix("Standard_"),
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "armSkuName": sku,
    } | changes


def azure_page(file: Path, *items: dict[str, Any]) -> Path:
    file.write_text(json.dumps({"BillingCurrency": "USD", "Items": items}, indent=1), encoding="utf-8")
    return file


def focus_row(instance: str, **changes: str) -> dict[str, str]:
    details = {"InstanceType": instance, "GpuCount": 8, "OperatingSystem": "Linux"}
    return {
        "ProviderName": "AWS",
        "RegionId": "us-east-1",
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "PricingCategory": "Standard",
        "PricingUnit": "Hours",
        "PricingQuantity": "24",
        "ServiceCategory": "Compute",
        "ListUnitPrice": "55.04",
        "ContractedUnitPrice": "50",
        "EffectiveCost": "1200",
        "BillingCurrency": "USD",
        "ChargePeriodStart": "2026-08-01T00:00:00Z",
        "CapacityReservationStatus": "",
        "SkuMeter": f"BoxUsage:{instance}",
        "SkuPriceDetails": json.dumps(details),
    } | changes


def focus(file: Path, *rows: dict[str, str]) -> Path:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file
