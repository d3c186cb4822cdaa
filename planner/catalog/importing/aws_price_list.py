"""AWS Price List files of a region: AmazonEC2 (on demand, reserved instances) and AWSComputeSavingsPlan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.catalog.importing.files import members_of
from planner.catalog.importing.instances import has_gpus
from planner.catalog.importing.quotes import Gathering, Quote, Way
from planner.io.errors import input_error
from planner.io.json_members import JsonPath
from problems.constants import HOURS_PER_MONTH

PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "operation": "RunInstances",
}
UNLESS_MISSING = {"marketoption": "OnDemand", "locationType": "AWS Region"}
"""attributes of the one product of a type whose price an instance costs; others are Windows, dedicated, unused, ..."""
YEARS = {"1yr": 1, "3yr": 3}
WAYS: dict[tuple[str, bool], Way] = {
    ("1yr", False): "reserved_1y",
    ("3yr", False): "reserved_3y",
    ("1yr", True): "reserved_1y_upfront",
    ("3yr", True): "reserved_3y_upfront",
}
"""by length and whether something is paid up front"""
STANDARD, INSTANCE_PLAN, COMPUTE_PLAN = 0, 2, 4
"""ranks: reserved instances before savings plans of a family before those of all; one more if paid in part"""
OTHER_CURRENCY = "price not in USD"
_WHOLE = {(), ("products",), ("terms",), ("terms", "OnDemand"), ("terms", "Reserved"), ("terms", "savingsPlan")}


def read(file: Path, gathering: Gathering) -> Iterator[Quote]:
    head: dict[str, Any] = {}
    products: dict[str, dict[str, Any]] = {}
    for path, line, member in members_of(file, _in_parts):
        if len(path) == 1:
            head[str(path[0])] = member
        elif path[0] == "products":
            product = _object(member, file, line)
            if (kept := _kept(product, gathering)) is not None:
                products[str(product.get("sku", path[1]))] = kept
    if "publicationDate" not in head:
        raise input_error(file, "is not an AWS price list: it has no publicationDate", "Check --from and PATH")
    day = gathering.day(head["publicationDate"], file)
    for path, line, member in members_of(file, _in_parts):
        if path[0] != "terms" or len(path) < 3:
            continue
        term = _object(member, file, line)
        if path[1] == "savingsPlan":
            yield from _savings_plan(term, products, str(head.get("regionCode", "")), day, file, line, gathering)
        elif str(path[2]) in products:
            about = products[str(path[2])]
            for offer in term.values():
                yield from _ec2_term(str(path[1]), _object(offer, file, line), about, day, file, line, gathering)


def _in_parts(path: JsonPath) -> bool:
    return path in _WHOLE


def _object(member: Any, file: Path, line: int) -> dict[str, Any]:
    if not isinstance(member, dict):
        raise input_error(file, "is not an AWS price list here: expected an object", "Check --from and PATH", line)
    return member


def _kept(product: dict[str, Any], gathering: Gathering) -> dict[str, Any] | None:
    """Attributes of a product that is an instance with GPUs as one rents it by default, or a savings plan."""
    about = product.get("attributes")
    if not isinstance(about, dict):
        return None
    if "purchaseOption" in about:
        return {**about, "family": product.get("productFamily")}
    plain = all(about.get(name) == value for name, value in PLAIN.items())
    usual = all(about.get(name, value) == value for name, value in UNLESS_MISSING.items())
    if plain and usual and about.get("gpu") and gathering.wants(str(about.get("regionCode", ""))):
        return about
    return None


def _ec2_term(
    kind: str, offer: dict[str, Any], about: dict[str, Any], day: str, file: Path, line: int, gathering: Gathering
) -> Iterator[Quote]:
    terms = _object(offer.get("termAttributes") or {}, file, line)
    way: Way = "on_demand"
    rank = STANDARD
    if kind == "Reserved":
        way_of_term = _way(terms.get("LeaseContractLength"), terms.get("PurchaseOption"))
        if terms.get("OfferingClass") != "standard" or way_of_term is None:
            return
        way, rank = way_of_term, STANDARD + (terms.get("PurchaseOption") == "Partial Upfront")
    usd_per_h, upfront_usd = 0.0, 0.0
    for part in _object(offer.get("priceDimensions") or {}, file, line).values():
        dimension = _object(part, file, line)
        price = _object(dimension.get("pricePerUnit") or {}, file, line)
        if "USD" not in price:
            gathering.leave_out(OTHER_CURRENCY, f"aws/{about.get('instanceType')}")
            return
        usd = gathering.price(price["USD"], file, line, str(dimension.get("rateCode", "")))
        if dimension.get("unit") == "Hrs":
            usd_per_h = usd
        elif dimension.get("unit") == "Quantity":
            upfront_usd = usd
    named = f"AWS Price List AmazonEC2, {file.name}"
    bought = "" if kind == "OnDemand" else f": reserved instance, standard, {terms['PurchaseOption']}"
    if way.endswith("_upfront") and not upfront_usd:
        usd_per_h = 0.0  # without its fee the price is not known
    yield _quote(
        str(about.get("instanceType", "")),
        str(about["regionCode"]),
        way,
        usd_per_h,
        upfront_usd,
        named + bought,
        day,
        rank,
    )


def _way(length: Any, option: Any) -> Way | None:
    if str(length) not in YEARS or option not in ("No Upfront", "Partial Upfront", "All Upfront"):
        return None
    return WAYS[length, option != "No Upfront"]


def _savings_plan(
    term: dict[str, Any],
    products: dict[str, dict[str, Any]],
    region: str,
    day: str,
    file: Path,
    line: int,
    gathering: Gathering,
) -> Iterator[Quote]:
    """Rates of a savings plan; the rate of an hour holds what is paid up front for it."""
    about = products.get(str(term.get("sku")), {})
    length, option = about.get("purchaseTerm"), about.get("purchaseOption")
    way = _way(length, option)
    region = region or str(about.get("location", ""))
    if not region:
        raise input_error(
            file, "does not say which region it is for: it has no regionCode", "Fetch the file of a region"
        )
    if way is None or option == "Partial Upfront" or not gathering.wants(region):
        return
    family = about.get("family")
    rank = INSTANCE_PLAN if family == "EC2InstanceSavingsPlans" else COMPUTE_PLAN
    source = f"AWS Price List savings plans, {file.name}: {family}, {option}"
    hours = YEARS[str(length)] * 12 * HOURS_PER_MONTH
    rates = term.get("rates") or []
    for member in rates if isinstance(rates, list) else [rates]:
        rate = _object(member, file, line)
        usage, _, instance = str(rate.get("discountedUsageType", "")).rpartition(":")
        is_plain = usage.endswith("BoxUsage") and rate.get("discountedOperation") == "RunInstances"
        if not is_plain or not has_gpus("aws", instance):
            continue
        price = _object(rate.get("discountedRate") or {}, file, line)
        if price.get("currency", "USD") != "USD":
            gathering.leave_out(OTHER_CURRENCY, f"aws/{instance}")
            continue
        usd_per_h = gathering.price(price.get("price"), file, line, str(rate.get("rateCode", "")))
        if option == "All Upfront":
            yield _quote(instance, region, way, 0.0, round(usd_per_h * hours, 2), source, day, rank)
        else:
            yield _quote(instance, region, way, usd_per_h, 0.0, source, day, rank)


def _quote(
    instance: str, region: str, way: Way, usd_per_h: float, upfront_usd: float, source: str, day: str, rank: int
) -> Quote:
    return Quote(
        provider="aws",
        instance=instance,
        region=region,
        way=way,
        usd_per_h=usd_per_h,
        upfront_usd=upfront_usd,
        source=source,
        date=day,
        rank=rank,
    )
