"""Servers that are bought, part by part, as anybody can work it out from the demand file."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent, usd, usd_small
from planner.plan.account.account import account_of
from planner.plan.account.power import kw_of
from planner.plan.plan import BoughtPlan, Plan
from planner.reports.table import Cells, Table
from planner.reports.table import Column as C


def bought(plan: Plan) -> Table:
    columns = (
        C("server", "servers"),
        C("part", "part"),
        C("how", "how"),
        C("usd_per_month", "$/month", "money"),
    )
    rows = tuple(row for servers in plan.bought or () for row in _parts(plan, servers))
    notes = tuple(_kwh(plan, servers) for servers in plan.bought or ())
    return Table("bought", "Servers that are bought", columns, rows, notes)


def _kwh(plan: Plan, s: BoughtPlan) -> str:
    """What of their energy is paid for, beside what they are expected to draw hour by hour."""
    account, power = account_of(plan), plan.case.power
    assert power is not None
    paid, drawn = s.idle_kwh_per_month + s.gpu_kwh_per_month, account.a_month(kw_of(account, power, s.offer))
    return (
        f"{s.offer}: {paid:,.0f} kWh a month are paid for, with GPUs in use at the most that they draw, as limits have "
        f"them; power and carbon count the {drawn:,.0f} kWh that are expected"
    )


def _parts(plan: Plan, s: BoughtPlan) -> Iterator[Cells]:
    offer = plan.case.offers[s.offer]
    price, site = offer.prices.bought, offer.region
    assert price is not None
    kwh = f"${price.usd_per_kwh:g}"
    per_gpu_h = f"{usd_small(s.cost_usd_per_month / s.gpu_hours_per_month)} a GPU-hour in use"
    for part, how, amount in (
        (
            "depreciation",
            f"({usd(s.price_usd)} - {usd(s.residual_usd)}) / {s.life_months} months",
            s.depreciation_usd_per_month,
        ),
        (
            "capital",
            f"{percent(price.capital_frac, 1)} a year of ({usd(s.price_usd)} + {usd(s.residual_usd)}) / 2",
            s.capital_usd_per_month,
        ),
        (
            "maintenance",
            f"{percent(price.maintenance_frac, 1)} a year of {usd(s.price_usd)}",
            s.maintenance_usd_per_month,
        ),
        ("colocation", f"{s.instances} x {usd(price.colocation_usd_per_month)}", s.colocation_usd_per_month),
        (
            "energy, always",
            f"{s.instances} x {price.idle_kw:.4g} kW at {site} x 730 h x {kwh}",
            s.instances * price.idle_usd_per_month,
        ),
        (
            "energy, GPUs in use",
            f"{s.gpu_hours_per_month:,.0f} GPU-hours x {price.gpu_kw:.4g} kW x {kwh}",
            s.energy_usd_per_month - s.instances * price.idle_usd_per_month,
        ),
        ("in all", per_gpu_h if s.gpu_hours_per_month else "", s.cost_usd_per_month),
    ):
        yield Cells(server=f"{s.instances} x {s.offer}", part=part, how=how, usd_per_month=amount)
