"""Pages of the Azure Retail Prices API, as fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.catalog.importing.files import members_of
from planner.catalog.importing.instances import has_gpus
from planner.catalog.importing.quotes import NO_RATE, Gathering, Quote, Way
from planner.io.errors import input_error, shown
from planner.io.json_members import JsonPath
from problems.constants import HOURS_PER_MONTH

YEARS: dict[str, int] = {"1 Year": 1, "3 Years": 3}
RESERVED: dict[int, Way] = {1: "reserved_1y", 3: "reserved_3y"}
NEEDED = ("type", "armRegionName", "armSkuName", "retailPrice", "skuName", "productName", "currencyCode")
RESERVATION, SAVINGS_PLAN = 0, 1
"""ranks: a reservation is for the type itself, a savings plan for any"""


def read(file: Path, gathering: Gathering) -> Iterator[Quote]:
    is_page = False
    for path, line, item in members_of(file, _in_parts):
        is_page = is_page or path[0] == "Items"
        if path[0] != "Items":
            continue
        if not isinstance(item, dict):
            gathering.complain(file, line, "Items", "expected an object with a price", "Fetch the page again")
        elif item.get("serviceName", "Virtual Machines") == "Virtual Machines":
            yield from _item(item, file, line, gathering)
    if not is_page:
        remedy = "Check --from and PATH; a page without prices can be left out"
        raise input_error(file, "is not a page of Azure's retail prices: it has no Items", remedy)


def _in_parts(path: JsonPath) -> bool:
    return path in ((), ("Items",))


def _item(item: dict[str, Any], file: Path, line: int, gathering: Gathering) -> Iterator[Quote]:
    missing = [name for name in NEEDED if name not in item]
    if missing:
        gathering.complain(file, line, "Items", f"an item has no {missing[0]}", "Fetch the page again")
        return
    instance, region, kind = str(item["armSkuName"]), str(item["armRegionName"]), item["type"]
    sku, wanted = str(item["skuName"]), kind in ("Consumption", "Reservation")
    other = (
        "Windows" in str(item["productName"]) or "Low Priority" in sku or "CloudServices" in str(item["productName"])
    )
    if not wanted or other or not has_gpus("azure", instance) or not gathering.wants(region):
        return
    rate = gathering.rate_of(str(item["currencyCode"]))
    if rate is None:
        message = f"prices are in {shown(item['currencyCode'])}"
        gathering.complain(file, line, "currencyCode", message, "Fetch them with currencyCode='USD', or give a --rate")
        return
    usd = rate.usd_of(gathering.price(item["retailPrice"], file, line, "retailPrice"))
    day = gathering.day(item.get("effectiveStartDate"), file)
    converted = "" if rate is NO_RATE else f", {item['currencyCode']} at {rate}"
    source = f"Azure Retail Prices, {file.name}{converted}"

    def quote(way: Way, usd_per_h: float, bought: str = "", rank: int = RESERVATION) -> Quote:
        return Quote("azure", instance, region, way, usd_per_h, source + bought, day, rank=rank)

    if kind == "Reservation":
        years = YEARS.get(str(item.get("reservationTerm")))
        if years in RESERVED:
            # The price is for the whole term, whatever unitOfMeasure says; it may be paid monthly at no charge.
            usd_per_h = round(usd / (years * 12 * HOURS_PER_MONTH), 6)
            yield quote(RESERVED[years], usd_per_h, ": reservation, spread over its term")
        return
    if item.get("unitOfMeasure") != "1 Hour":
        message = f"expected a price of '1 Hour', got {shown(item.get('unitOfMeasure'))}"
        gathering.complain(file, line, "unitOfMeasure", message)
        return
    yield quote("spot" if sku.endswith("Spot") else "on_demand", usd)
    plans = item.get("savingsPlan") or []
    for plan in plans if isinstance(plans, list) else [plans]:
        if not isinstance(plan, dict):
            gathering.complain(file, line, "savingsPlan", f"expected an object, got {shown(plan)}")
            continue
        years = YEARS.get(str(plan.get("term")))
        if years in RESERVED:
            usd_per_h = rate.usd_of(gathering.price(plan.get("retailPrice"), file, line, "savingsPlan"))
            yield quote(RESERVED[years], usd_per_h, ": savings plan", SAVINGS_PLAN)
