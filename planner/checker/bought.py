"""Servers that are bought: they live as long as their price says, and each dollar of them is worked out once more."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog.entries import BoughtPrice
from planner.catalog.terms import is_bought
from planner.checker.checked import Checked
from planner.checker.figures import MONTH_HOURS, differs

MONTHS_OF_A_YEAR = 12


def servers_are_paid_for(checked: Checked) -> Iterator[str]:
    prices = {key: offer.prices.bought for key, offer in checked.case.offers.items()}
    for line in checked.plan.fleet:
        price = prices[line.offer]
        if is_bought(line.purchase) and (price is None or line.purchase != f"bought-{price.life_months}mo"):
            yield f"{line.offer}: it is not sold as {line.purchase}"
            return
    sold = [way for way in checked.case.purchase if is_bought(way)]
    known = {key: price for key, price in prices.items() if price is not None and sold}
    if not known:
        return
    servers_usd = energy_usd = 0.0
    for key, price in known.items():
        yield from _draws_what_it_must(checked, key, price)
        bought = sum(
            line.instances_by_slot[0] for line in checked.plan.fleet if line.offer == key and is_bought(line.purchase)
        )
        servers_usd += bought * _usd_per_month(price)
        energy_usd += _gpu_hours(checked, key) * price.gpu_kw * price.usd_per_kwh
    costs = checked.plan.costs
    yield from differs("what servers that are bought cost", costs.bought_usd_per_month, servers_usd)
    yield from differs("what their GPUs in use draw for", costs.energy_usd_per_month, energy_usd, servers_usd)


def _usd_per_month(price: BoughtPrice) -> float:
    """Month by month over the whole life, the value at its beginning less what it loses, and their mean."""
    lost = (price.price_usd - price.residual_usd) / price.life_months
    middle_values = (price.price_usd - lost * (month + 0.5) for month in range(price.life_months))
    capital = price.capital_frac / MONTHS_OF_A_YEAR * sum(middle_values) / price.life_months
    upkeep = price.maintenance_frac / MONTHS_OF_A_YEAR * price.price_usd + price.colocation_usd_per_month
    return lost + capital + upkeep + MONTH_HOURS * price.idle_kw * price.usd_per_kwh


def _gpu_hours(checked: Checked, offer: str) -> float:
    """That replicas use in a month, on average over the months."""
    used = 0.0
    for pool in checked.plan.pools:
        for d in pool.deployments:
            if d.deployment.offer == offer:
                counts = zip(d.replicas_by_slot, checked.account.hours, strict=True)
                used += d.deployment.gpus_per_replica * sum(float(hours) * n for n, hours in counts)
    return used


def _draws_what_it_must(checked: Checked, key: str, price: BoughtPrice) -> Iterator[str]:
    offer, power = checked.case.offers[key], checked.case.power
    if power is None or offer.gpu not in power.gpus:
        yield f"{key}: what a {offer.gpu} draws is not known, and energy is paid for"
        return
    gpu, site = power.gpus[offer.gpu], power.sites.get(f"{offer.provider} {offer.region}", power.elsewhere)
    idle_kw = site.pue * offer.gpus * (gpu.host_w + gpu.idle_w) / 1000
    full_kw = site.pue * offer.gpus * (gpu.host_w + gpu.most_frac * gpu.tdp_w) / 1000
    yield from differs(f"{key}: kW of a server that stands idle", price.idle_kw, idle_kw)
    yield from differs(f"{key}: kW of one in full use", price.idle_kw + offer.gpus * price.gpu_kw, full_kw)
