"""Savings plans and provisioned units of a demand file, with the units' figures from the catalog where it has them."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path

from pydantic import Field

from planner.case.allowances import not_signed_anew
from planner.case.case import Allowance
from planner.case.dates import quarter_days
from planner.case.demand.allowance_schema import ProvisionedSpec, SavingsPlanSpec
from planner.case.demand.notes import Notes
from planner.case.demand.overrides import offers_called
from planner.case.demand.schema import DemandFile
from planner.catalog.entries import Offer, Sourced, shipped_entries
from planner.io.errors import Path as Keys
from planner.io.errors import did_you_mean, shown

SAME = 1e-9
QUARTERS_OF_3Y = 12

PUBLISHED = ("tokens_per_minute", "output_weight", "cached_weight", "minimum", "step")
"""figures of a unit that a provider publishes"""


class ProvisionedEntry(Sourced):
    """A model of planner/data/provisioned.yaml."""

    tokens_per_minute: float = Field(gt=0)
    output_weight: float = Field(gt=0)
    cached_weight: float = Field(ge=0)
    minimum: int = Field(ge=1)
    step: int = Field(ge=1)


@cache
def provisioned_entries() -> dict[str, ProvisionedEntry]:
    return {name: ProvisionedEntry(**entry) for name, entry in shipped_entries("provisioned").items()}


def allowances_of(
    spec: DemandFile, purchase: tuple[str, ...], offers: dict[str, Offer], menu_apis: tuple[str, ...], notes: Notes
) -> tuple[Allowance, ...] | None:
    """What may be signed or is held, what covers fewest offers first; None: nothing."""
    if not spec.savings_plans and not spec.provisioned:
        return None
    _complain_together(spec, purchase, offers, notes)
    plans = [
        plan
        for k, own in enumerate(spec.savings_plans)
        if (plan := _savings_plan(spec, own, k, offers, notes)) is not None and (spec.menu.savings_plans or plan.held)
    ]
    units = [
        found
        for k, own in enumerate(spec.provisioned)
        if (found := _provisioned(spec, own, k, menu_apis, notes)) is not None and (spec.menu.provisioned or found.held)
    ]
    plans = plans if spec.menu.savings_plans else [not_signed_anew(plan) for plan in plans]
    units = units if spec.menu.provisioned else [not_signed_anew(unit) for unit in units]
    plans.sort(key=lambda plan: (len(plan.rates or {}), not plan.held))
    units.sort(key=lambda unit: not unit.held)
    return (*plans, *units) or None


def _complain_together(spec: DemandFile, purchase: tuple[str, ...], offers: dict[str, Offer], notes: Notes) -> None:
    """What they cannot be used with."""
    first: Keys = ("savings_plans",) if spec.savings_plans else ("provisioned",)
    if spec.savings_plans and "on-demand" not in purchase:
        remedy = "Add on-demand to menu: {purchase: [...]}"
        notes.complain(first, "cover instances on demand, which the menu does not have", remedy)
    names: set[str] = set()
    plans: list[tuple[Keys, str]] = [(("savings_plans", k), own.name) for k, own in enumerate(spec.savings_plans)]
    units: list[tuple[Keys, str]] = [
        (("provisioned", k), own.name or own.api) for k, own in enumerate(spec.provisioned)
    ]
    for path, name in (*plans, *units):
        if name in names:
            notes.complain(path, f"another one is called {shown(name, 60)} too", "Give each its own name")
        if name in offers:
            notes.complain((*path, "name"), f"an instance is called {shown(name, 60)} too", "Give it another name")
        names.add(name)
    for k, own in enumerate(spec.savings_plans):
        if own.term == "3y" and not own.held and not _looks_ahead(spec):
            message = "outlasts the plan by years: three years can only be held"
            remedy = "Write term: 1y, or held: $50/h for one that is signed already"
            notes.complain(("savings_plans", k, "term"), message, remedy)
        elif own.term == "3y" and _may_be_signed(spec, own) and not _values_the_rest(spec):
            value = f"not signed{' anew' if own.held else ''} in {spec.horizon or 1} quarters"
            notes.assume(f"savings_plans.{own.name}", value, "three years outlast them: unused_after_horizon allows it")
    dates = [(path, own.name, own.until) for (path, _), own in zip(plans, spec.savings_plans, strict=True)]
    dates += [(path, name, own.until) for (path, name), own in zip(units, spec.provisioned, strict=True)]
    for path, name, until in dates:
        _check_until(spec, path, name, until, notes)


def _check_until(spec: DemandFile, path: Keys, name: str, until: date | None, notes: Notes) -> None:
    """The last day of what is held: not before the plan starts."""
    if until is None:
        return
    if spec.starts is None:
        notes.complain((*path, "until"), "needs to know when the plan starts", "Add starts: 2027-01-01")
    elif until < spec.starts:
        message = f"it has lapsed when the plan starts, {spec.starts}"
        notes.complain((*path, "until"), message, "Leave out held and until")


def _may_be_signed(spec: DemandFile, own: SavingsPlanSpec) -> bool:
    """Whether three years of it may be signed in fewer quarters: it is not held, or lapses in them."""
    quarters = spec.horizon or 1
    ends = None if spec.starts is None else quarter_days(spec.starts, quarters - 1)[1]
    lapses = own.until is not None and ends is not None and own.until < ends and _looks_ahead(spec)
    return quarters < QUARTERS_OF_3Y and (not own.held or lapses)


def _looks_ahead(spec: DemandFile) -> bool:
    """Whether the file is planned as a horizon, in which three years may be signed."""
    return (spec.horizon or 1) > 1 or bool(spec.scenarios) or _values_the_rest(spec)


def _values_the_rest(spec: DemandFile) -> bool:
    """Whether the file says what is left of a long term after the horizon, so that it may be signed."""
    return spec.unused_after_horizon is not None or spec.policy.max_liability is not None


def _savings_plan(
    spec: DemandFile, own: SavingsPlanSpec, k: int, offers: dict[str, Offer], notes: Notes
) -> Allowance | None:
    at: Keys = ("savings_plans", k)
    covered = _covered(own, at, offers, notes)
    if not covered:
        return None
    rates: dict[str, float] = {}
    for key in covered:
        on_demand = offers[key].prices.on_demand
        assert on_demand is not None
        named = [(name, usd) for name, usd in own.rates.items() if key in offers_called(name, offers)]
        if not named and own.discount is None:
            if own.provider is None:
                notes.complain((*at, "rates"), f"has no rate of {key}", "Add it, or a discount for all")
            continue
        rate = named[-1][1] if named else on_demand.usd_per_h * (1 - (own.discount or 0.0))
        if rate > on_demand.usd_per_h * (1 + SAME):
            message = f"is above the on-demand price of {key}, ${on_demand.usd_per_h:,.2f}/h"
            notes.complain((*at, "rates", named[-1][0]), message, "Write the plan's rate of the whole instance")
        rates[key] = rate
    for name in own.rates:
        if not any(key in rates for key in offers_called(name, offers)):
            message = f"no instance that it covers is called {shown(name, 60)}"
            notes.complain((*at, "rates", name), message, did_you_mean(name, covered))
    if not rates:
        return None
    if own.max is not None and own.step is not None and own.max < own.step * (1 - SAME):
        message = f"is below one step, ${own.step:,.2f}/h, so none could be signed"
        notes.complain((*at, "max"), message, "Allow at least a step, or leave this savings plan out")
    _complain_of_too_much(spec, own, at, rates, notes)
    return Allowance(
        name=own.name,
        usd_per_h=1.0,
        rates=rates,
        term=own.term,
        step=own.step,
        held=own.held,
        last_day=own.until,
        most=own.max,
        source=f"your own rates in {Path(notes.document.file).name}",
    )


def _covered(own: SavingsPlanSpec, at: Keys, offers: dict[str, Offer], notes: Notes) -> list[str]:
    """The offers of a savings plan, each once."""
    if own.provider is not None:
        sold = [key for key, o in offers.items() if o.provider == own.provider and o.prices.on_demand is not None]
        if not sold:
            known = sorted({o.provider for o in offers.values()})
            message = f"no instance of the provider {shown(own.provider, 60)} is sold on demand on the menu"
            notes.complain((*at, "provider"), message, did_you_mean(own.provider, known) or "Add it to menu.providers")
        return sold
    covered: list[str] = []
    for n, name in enumerate(own.offers or ()):
        keys = offers_called(name, offers)
        if not keys:
            message = f"no instance on the menu is called {shown(name, 60)}"
            notes.complain((*at, "offers", n), message, did_you_mean(name, offers))
        elif not any(offers[key].prices.on_demand is not None for key in keys):
            message = "is not sold on demand, and a savings plan covers nothing else"
            notes.complain((*at, "offers", n), message, f"Give its price: prices: {{{name}: {{on_demand: $50/h}}}}")
        covered += [key for key in keys if offers[key].prices.on_demand is not None and key not in covered]
    return covered


def _complain_of_too_much(
    spec: DemandFile, own: SavingsPlanSpec, at: Keys, rates: dict[str, float], notes: Notes
) -> None:
    """A limit above what all instances that may run can take; what is held is as it is, and the rest of it is lost."""
    most = 0.0
    for key, rate in rates.items():
        quotas = [n for name, n in spec.policy.max_instances.items() if name in (key, key.split("@")[0])]
        if not quotas:
            return
        most += rate * min(quotas)
    if own.max is not None and own.max > most * (1 + SAME):
        message = f"is above what its instances can use, ${most:,.2f}/h at policy.max_instances"
        notes.complain((*at, "max"), message, f"Write ${most:,.2f}/h or less, or widen policy.max_instances")


def _provisioned(
    spec: DemandFile, own: ProvisionedSpec, k: int, menu_apis: tuple[str, ...], notes: Notes
) -> Allowance | None:
    at: Keys = ("provisioned", k)
    if own.api not in menu_apis:
        remedy = did_you_mean(own.api, menu_apis) or f"Add it to menu: {{apis: [{own.api}]}}"
        notes.complain((*at, "api"), f"{shown(own.api, 60)} is not on the menu", remedy)
        return None
    known = provisioned_entries().get(own.api)
    missing = [name for name in PUBLISHED if getattr(own, name) is None]
    if known is None and missing:
        message = f"needs {', '.join(missing)}: no source has them for {own.api}"
        notes.complain(at, message, "Add them from the provider's page, such as tokens_per_minute: 3k")
        return None
    figures = {name: getattr(known if name in missing else own, name) for name in PUBLISHED}
    own_source = f"your own price in {Path(notes.document.file).name}"
    units = Allowance(
        name=own.name or own.api,
        usd_per_h=own.price,
        api=own.api,
        tokens_per_minute=figures["tokens_per_minute"],
        output_weight=figures["output_weight"],
        cached_weight=figures["cached_weight"],
        fewest=float(figures["minimum"]),
        step=float(figures["step"]),
        term=own.term,
        held=float(own.held),
        last_day=own.until,
        most=None if own.max is None else float(own.max),
        source=own_source if known is None or not missing else f"{own_source}; {known.source}",
        date=known.date if known is not None and missing else None,
    )
    if units.most is not None and units.most < units.fewest:
        notes.complain((*at, "max"), f"is below the fewest units, {units.fewest:g}", "Allow at least as many")
    if units.held and known is not None and missing:
        steps = (units.held - units.fewest) / (units.step or 1.0)
        if steps < 0 or steps != int(steps):
            message = f"is no number of units that is sold: {units.fewest:g}, and {units.step:g} more each"
            notes.complain((*at, "held"), message, "Write what is signed, or give minimum and step as they are for you")
    return units
