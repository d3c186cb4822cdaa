"""A plan as rows of a FOCUS bill (version 1.2): a budget for a quarter, which tools that read bills can read.

Each way to buy an instance and each API of a workload has a row a month. A commitment is bought in one row (BilledCost)
and used in another (EffectiveCost), so that neither column counts it twice: EffectiveCost adds up to the plan's cost
and what is held, BilledCost to what is paid in the quarter. What was signed before is used at its signed price; of
terms that were paid up front nothing is billed any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import product

import numpy as np

from planner.case.allowances import allowance_of
from planner.case.case import Allowance, Holding
from planner.case.menu import held_by_term
from planner.case.prices import HELD, usd_per_h
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.entries import Offer
from planner.catalog.terms import is_bought, is_term, term_months
from planner.plan.account.account import PlanAccount, account_of
from planner.plan.account.flows import Served
from planner.plan.plan import FleetLine, Plan
from planner.reports.csv import rows_csv
from problems.constants import HOURS_PER_MONTH

COLUMNS = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd",
    "ChargePeriodStart", "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType", "CommitmentDiscountUnit",
    "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName",
    "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName",
    "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName",
    "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName",
    "Tags",
)  # fmt: skip
PROVIDERS = {"aws": "AWS", "azure": "Microsoft", "gcp": "Google Cloud", "oci": "Oracle"}
"""as their bills call them"""
CATEGORIES = {"on-demand": "Standard", "spot": "Dynamic"}
METERS = {"on-demand": "BoxUsage", "spot": "SpotUsage"}
DIGITS = 6
PRICE_DIGITS = 12
"""of unit prices: times its quantity a price gives its cost, whatever the quantity"""
Cells = dict[str, str]


def focus_csv(plan: Plan, starts: date) -> str:
    """Three months from this day on; a plan that does not grow has the same month three times."""
    rows = [[row.get(name, "") for name in COLUMNS] for row in focus_rows_of(plan, starts)]
    return rows_csv([COLUMNS, *rows])


def focus_rows_of(plan: Plan, starts: date) -> Iterator[Cells]:
    view = account_of(plan)
    for k in range(MONTHS_OF_A_QUARTER):
        month = min(k, view.months - 1)
        for cells in _charges(view, month, first=k == 0):
            yield {**_of_the_month(plan, starts, k), **cells}


def _of_the_month(plan: Plan, starts: date, k: int) -> Cells:
    start, end = (f"{_later(starts, months)}T00:00:00Z" for months in (k, k + 1))
    return {
        "BillingAccountId": "fleetplan",
        "BillingAccountName": plan.name,
        "BillingAccountType": "Plan",
        "BillingCurrency": "USD",
        "BillingPeriodStart": start,
        "BillingPeriodEnd": end,
        "ChargePeriodStart": start,
        "ChargePeriodEnd": end,
        "Tags": json.dumps({"plan": plan.name}, ensure_ascii=False),
    }


def _later(day: date, months: int) -> date:
    years, month = divmod(day.month - 1 + months, 12)
    return day.replace(year=day.year + years, month=month + 1)


def _charges(view: PlanAccount, month: int, first: bool) -> Iterator[Cells]:
    plan = view.plan
    for line in plan.fleet:
        if is_bought(line.purchase):
            continue
        if line.purchase != HELD:
            yield from _used(view, line, month)
        if is_term(line.purchase):
            yield from _bought(plan, line, first)
    in_use = {line.offer for line in plan.fleet}
    for holding in held_by_term(plan.case):
        yield _held(plan, holding, holding.offer in in_use)
    for s in view.served:
        if s.decided.api is not None and s.decided.api_flows:
            yield from _tokens(view, s, month)
    yield from _allowances(view, month)
    besides = (
        ("Caches", "caches of prompts and answers", plan.costs.caching_usd_per_month),
        ("Engineers", "engineers who run the fleet", plan.costs.engineers_usd_per_month),
        ("Vendors", "fixed costs of providers, regions and APIs", plan.costs.vendors_usd_per_month),
        ("Servers", "servers that are bought, spread over their life", plan.costs.bought_usd_per_month),
        ("Energy", "energy of GPUs in servers that are bought", plan.costs.energy_usd_per_month),
        ("Commitments", "held for a part of the quarter", plan.case.held_besides_usd_per_month),
    )
    for name, words, amount in besides:
        if amount:
            sku = f"in-house/{name.lower()}"
            yield _usage(words, 1.0, "Months", amount, amount) | _sold_by("in-house") | {
                "ServiceCategory": "Other",
                "ServiceName": name,
                "ServiceSubcategory": "Other (Other)",
                "SkuId": sku,
                "SkuMeter": name,
                "SkuPriceId": sku,
            }  # fmt: skip


def _used(view: PlanAccount, line: FleetLine, month: int) -> Iterator[Cells]:
    """Hours of instances, if any; those in which they start are spread over the months evenly."""
    plan = view.plan
    slots = [(s, n) for s, n in zip(plan.slots, line.instances_by_slot, strict=True) if s.month == month]
    hours = sum(s.hours_per_month * n for s, n in slots) + line.starting_usd_per_month / line.usd_per_h
    if line.purchase == "on-demand":
        hours -= sum(_in_month(view, part, month) for _, part in _covered(view, line.offer))
    reserved = is_term(line.purchase)
    if hours <= 10**-DIGITS * len(slots):
        return
    cells = _instances(plan, line.offer, line.purchase, hours, line.usd_per_h, reserved)
    used = {**_commitment(line.offer, line.purchase, hours), "CommitmentDiscountStatus": "Used", "BilledCost": "0"}
    yield cells | used if reserved else cells


def _covered(view: PlanAccount, item: str) -> list[tuple[str, np.ndarray]]:
    """What each allowance covers of an offer or of a workload's bill [slot]."""
    return [(name, part) for (name, of), part in view.money.cover.parts.items() if of == item]


def _in_month(view: PlanAccount, per_hour: np.ndarray, month: int) -> float:
    """What an hourly amount [slot] comes to in one month."""
    return sum(s.hours_per_month * float(x) for s, x in zip(view.slots, per_hour, strict=True) if s.month == month)


def _taken_usd(view: PlanAccount, name: str, item: str, month: int) -> float:
    """What is paid for the part of an allowance that an item takes in a month."""
    cover = next(each for each in view.money.cover.all.each if each.key == name)
    quantity = _in_month(view, view.money.cover.parts[name, item], month)
    return quantity * cover.takes[item] * allowance_of(view.plan.case, name).usd_per_h / cover.covers


def _under(view: PlanAccount, name: str, usd: float) -> Cells:
    """What is used of an allowance, which is billed where it is signed."""
    held = next(record.held for record in view.money.cover.records or () if record.name == name)
    used = {"BilledCost": "0", "CommitmentDiscountQuantity": _number(usd), "CommitmentDiscountStatus": "Used"}
    return _of_allowance(allowance_of(view.plan.case, name), held) | used


def _allowances(view: PlanAccount, month: int) -> Iterator[Cells]:
    """What is signed is billed in one row; it is effective in those of what it covers, and in that of what is lost."""
    for record in view.money.cover.records or ():
        a, name = allowance_of(view.plan.case, record.name), record.name
        provider = view.case.apis[a.api].provider if a.api else view.case.offers[next(iter(a.rates or {}))].provider
        words = "Savings Plan" if a.api is None else "Provisioned Throughput"
        base = _sold_by(PROVIDERS.get(provider, provider)) | _of_allowance(a, record.held)
        base |= {
            "ServiceCategory": "Compute" if a.api is None else "AI and Machine Learning",
            "ServiceName": words,
            "ServiceSubcategory": "Virtual Machines" if a.api is None else "Generative AI",
            "SkuId": name,
            "SkuMeter": words,
            "SkuPriceId": name,
        }
        items = [item for of, item in view.money.cover.parts if of == name]
        taken = {item: _taken_usd(view, name, item, month) for item in items}
        for item in items if a.api is None else ():
            hours = _in_month(view, view.money.cover.parts[name, item], month)
            if hours > 10**-DIGITS:
                cells = _instances(view.plan, item, "savings-plan", hours, taken[item] / hours, True)
                yield cells | _under(view, name, taken[item])
        paid = HOURS_PER_MONTH * record.units * a.usd_per_h
        unit = "USD" if a.api is None else "Unit Hours"
        yield base | _priced(HOURS_PER_MONTH * record.units, unit, paid) | {
            "BilledCost": _number(paid),
            "EffectiveCost": "0",
            "ChargeCategory": "Purchase",
            "ChargeDescription": f"{record.units:g} of {name}",
            "ChargeFrequency": "Recurring",
            "CommitmentDiscountQuantity": _number(paid),
        }  # fmt: skip
        if (lost := paid - sum(taken.values())) > 10**-DIGITS:
            cells = _usage(f"unused of {name}", 1.0, "Months", lost, lost) | {"BilledCost": "0", "ConsumedQuantity": ""}
            cells |= {"ConsumedUnit": "", "PricingCategory": "Committed", "CommitmentDiscountStatus": "Unused"}
            yield base | cells | {"CommitmentDiscountQuantity": _number(lost)}


def _of_allowance(a: Allowance, held: bool) -> Cells:
    return {
        "CommitmentDiscountCategory": "Spend" if a.api is None else "Usage",
        "CommitmentDiscountId": f"{HELD if held else 'planned'}:{a.name}",
        "CommitmentDiscountName": a.name,
        "CommitmentDiscountType": "Savings Plan" if a.api is None else "Provisioned Throughput",
        "CommitmentDiscountUnit": "USD",
    }


def _held(plan: Plan, holding: Holding, in_use: bool) -> Cells:
    """Hours of instances that were signed for before, at the price as signed."""
    hours = HOURS_PER_MONTH * holding.instances
    cells = _instances(plan, holding.offer, holding.purchase, hours, holding.usd_per_h, True)
    cells |= _commitment(holding.offer, holding.purchase, hours, HELD)
    if in_use:
        cells["CommitmentDiscountStatus"] = "Used"
    else:
        cells |= {"CommitmentDiscountStatus": "Unused", "ConsumedQuantity": "", "ConsumedUnit": ""}
    return cells | {"BilledCost": "0"} if holding.purchase.endswith("-upfront") else cells


def _instances(plan: Plan, key: str, purchase: str, hours: float, usd: float, committed: bool) -> Cells:
    """Hours of instances at a price for each."""
    offer = plan.case.offers[key]
    asked = usd_per_h(offer.prices, "on-demand") or usd
    contracted = asked if committed else usd
    meter = METERS.get(purchase, "BoxUsage")
    return {
        **_usage(f"{key} {purchase}", hours, "Hours", hours * usd, hours * contracted),
        **_of_instances(offer),
        "ListUnitPrice": _price(asked),
        "ListCost": _number(hours * asked),
        "PricingCategory": CATEGORIES.get(purchase, "Committed"),
        "SkuMeter": f"{meter}:{offer.instance}",
        "SkuPriceId": f"{key}:{purchase}",
    }


def _of_instances(offer: Offer) -> Cells:
    """Who rents out an instance, where, and what it is."""
    details = {"InstanceType": offer.instance, "GpuCount": offer.gpus, "OperatingSystem": "Linux"}
    return {
        **_sold_by(PROVIDERS.get(offer.provider, offer.provider)),
        "RegionId": offer.region,
        "RegionName": offer.region,
        "ServiceCategory": "Compute",
        "ServiceName": "Compute instances",
        "ServiceSubcategory": "Virtual Machines",
        "SkuId": f"{offer.provider}/{offer.instance}",
        "SkuPriceDetails": json.dumps(details),
    }


def _commitment(key: str, purchase: str, hours: float, since: str = "planned") -> Cells:
    """Hours that a commitment gives, or that are used of it."""
    return {
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountId": f"{since}:{key}:{purchase}",
        "CommitmentDiscountName": f"{purchase} {key}",
        "CommitmentDiscountQuantity": _number(hours),
        "CommitmentDiscountType": purchase,
        "CommitmentDiscountUnit": "Hours",
    }


def _bought(plan: Plan, line: FleetLine, first: bool) -> Iterator[Cells]:
    """What is paid in the first month for the hours of the term, and what is paid in each month for its own."""
    offer, instances = plan.case.offers[line.offer], max(line.instances_by_slot)
    upfront = sum(c.upfront_usd for c in plan.commitments if (c.offer, c.term) == (line.offer, line.purchase))
    term = term_months(line.purchase)
    payments = (
        ("One-Time", upfront if first else 0.0, term),
        ("Recurring", line.cost_usd_per_month - upfront / term, 1),
    )
    for frequency, amount, months in payments:
        hours = HOURS_PER_MONTH * months * instances
        if amount > 10**-DIGITS:
            yield {
                **_priced(hours, "Hours", amount),
                **_of_instances(offer),
                **_commitment(line.offer, line.purchase, hours),
                "BilledCost": _number(amount),
                "EffectiveCost": "0",
                "ChargeCategory": "Purchase",
                "ChargeDescription": f"{instances} x {line.offer} {line.purchase}",
                "ChargeFrequency": frequency,
                "SkuMeter": f"{frequency} fee:{offer.instance}",
                "SkuPriceId": f"{line.offer}:{line.purchase}:{frequency.lower()}",
            }


def _tokens(view: PlanAccount, s: Served, month: int) -> Iterator[Cells]:
    """Input and output of a workload that an API answers."""
    assert s.decided.api is not None
    api = view.case.apis[s.decided.api]
    slots = [t for t, slot in enumerate(view.slots) if slot.month == month]
    flow = view.flow(s.w, s.decided.api_flows)
    sums = {"InputTokens": [0.0, 0.0], "OutputTokens": [0.0, 0.0]}
    for b, bucket in enumerate(s.w.buckets):
        requests = sum(3600 * view.slots[t].hours_per_month * flow[t][b] for t in slots)
        cached, new = s.w.api_cached_tokens(bucket.input_tokens), s.w.api_written_tokens(bucket.input_tokens)
        whole = api.request_usd(bucket.input_tokens, cached, bucket.output_tokens, s.w.api_wait_h, new)
        read = api.request_usd(bucket.input_tokens, cached, 0.0, s.w.api_wait_h, new)
        for kind, tokens, price in (
            ("InputTokens", bucket.input_tokens, read), ("OutputTokens", bucket.output_tokens, whole - read),
        ):  # fmt: skip
            sums[kind][0] += requests * tokens
            sums[kind][1] += requests * price
    bill = sum(amount for _, amount in sums.values())
    covered = [(name, _in_month(view, part, month)) for name, part in _covered(view, s.w.name)]
    ways = [("", 1 - sum(usd for _, usd in covered) / bill if bill else 1.0)]
    ways += [(name, usd / bill) for name, usd in covered if bill]
    for (kind, (count, amount)), (name, share) in product(sums.items(), ways):
        if share * count <= 10**-DIGITS:
            continue
        paid = share * amount if not name else _taken_usd(view, name, s.w.name, month) * amount / bill
        words = f"{s.w.name}: {s.decided.api} {kind}"
        cells = _usage(words, share * count / 1e6, "1M Tokens", paid, share * amount)
        under = _under(view, name, paid) | {"PricingCategory": "Committed"} if name else {}
        yield cells | _sold_by(api.provider) | {
            "ConsumedQuantity": _number(share * count),
            "ConsumedUnit": "Tokens",
            "ResourceId": api.model,
            "ResourceName": api.model,
            "ResourceType": "Model",
            "ServiceCategory": "AI and Machine Learning",
            "ServiceName": f"{api.provider} API",
            "ServiceSubcategory": "Generative AI",
            "SkuId": api.model,
            "SkuMeter": kind,
            "SkuPriceDetails": json.dumps({"x_ModelId": api.model, "x_TokenType": kind}),
            "SkuPriceId": f"{api.model}.{kind}",
            "Tags": json.dumps({"plan": view.plan.name, "workload": s.w.name}, ensure_ascii=False),
        } | under  # fmt: skip


def _usage(words: str, quantity: float, unit: str, usd: float, contracted_usd: float) -> Cells:
    """A charge for what is used, paid for as it is used."""
    return _priced(quantity, unit, contracted_usd) | {
        "BilledCost": _number(usd),
        "EffectiveCost": _number(usd),
        "ChargeCategory": "Usage",
        "ChargeDescription": words,
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": _number(quantity),
        "ConsumedUnit": unit,
    }  # fmt: skip


def _priced(quantity: float, unit: str, usd: float) -> Cells:
    """A quantity at the agreed price, which is the list price where nothing else says so."""
    return {
        "ContractedCost": _number(usd),
        "ContractedUnitPrice": _price(usd / quantity),
        "ListCost": _number(usd),
        "ListUnitPrice": _price(usd / quantity),
        "PricingCategory": "Standard",
        "PricingQuantity": _number(quantity),
        "PricingUnit": unit,
    }


def _sold_by(provider: str) -> Cells:
    return {"ProviderName": provider, "PublisherName": provider, "InvoiceIssuerName": provider}


def _price(value: float) -> str:
    return _number(value, PRICE_DIGITS)


def _number(value: float, digits: int = DIGITS) -> str:
    """Plain digits, as many as count."""
    text = f"{round(Decimal(value), digits):f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
