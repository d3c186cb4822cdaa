"""Servers that may be bought: an offer each, of the provider `own`, at a site of the file."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from planner.case.demand.notes import Notes
from planner.case.demand.overrides import offers_called
from planner.case.demand.own_schema import QUARTER, OwnSpec
from planner.case.demand.schema import DemandFile, SiteSpec
from planner.case.power import known_gpu_power, unknown_site
from planner.catalog.entries import BoughtPrice, Catalog, Offer, OfferPrices, find, names_of
from planner.io.errors import Path as Keys
from planner.io.errors import did_you_mean, shown

OWN = "own"
"""the provider of servers that are bought"""
NAMED = "Leave it out: each server of 'menu: own' is on the menu already, as own/NAME@SITE; list who rents out others"
ENERGY = "Add usd_per_kwh: 0.11, what energy costs there"
W_PER_KW = 1e3


def own_offers(spec: DemandFile, catalog: Catalog, notes: Notes) -> dict[str, Offer]:
    """What may be bought, by key; how many of each a site's power lets stand there is what can be had of it."""
    _check_sites(spec, notes)
    offers: dict[str, Offer] = {}
    for k, own in enumerate(spec.menu.own or ()):
        path: Keys = ("menu", OWN, k)
        key = f"{OWN}/{own.name}@{own.site}"
        if key in offers:
            notes.complain((*path, "name"), f"there are two servers '{own.name}' at {own.site}", "Give each its name")
        offer = _offer(spec, own, path, catalog, notes)
        if offer is not None:
            offers[key] = offer
    return offers


def terms_of(offers: dict[str, Offer]) -> tuple[str, ...]:
    """The ways to buy servers of one's own, by their lives."""
    return tuple(dict.fromkeys(o.prices.bought.term for o in offers.values() if o.prices.bought is not None))


def _check_sites(spec: DemandFile, notes: Notes) -> None:
    """Complain of sites whose power is given and used by nobody, or would have to be shared out."""
    servers = Counter(own.site for own in spec.menu.own or ())
    left_out = spec.menu.own == () or not set(servers) <= set(spec.sites)
    for name, site in spec.sites.items():
        for key in ("usd_per_kwh", "power_kw"):
            if getattr(site, key) is not None and not servers[name] and not left_out:
                remedy = f"Let one stand there: menu: {{own: [{{name: 8xh200, site: {name}, ...}}]}}"
                notes.complain(("sites", name, key), "no server on the menu may be bought to stand here", remedy)
        if site.power_kw is not None and servers[name] > 1:
            message = f"is shared by {servers[name]} kinds of servers, and nobody says how"
            notes.complain(("sites", name, "power_kw"), message, "Make a site of each, with its part of the power")


def _offer(spec: DemandFile, own: OwnSpec, path: Keys, catalog: Catalog, notes: Notes) -> Offer | None:
    site = spec.sites.get(own.site)
    if site is None:
        remedy = did_you_mean(own.site, spec.sites) or f"Add sites: {{{own.site}: {{usd_per_kwh: 0.11, pue: 1.3}}}}"
        notes.complain((*path, "site"), f"there is no {shown(own.site, 60)} under 'sites'", remedy)
    elif site.usd_per_kwh is None:
        notes.complain(("sites", own.site), f"has no price of energy, which {own.name} needs", ENERGY)
    _check_lead(spec, own, path, notes)
    built = _built(own, path, catalog, notes)
    if built is None or site is None or site.usd_per_kwh is None:
        return None
    price = _price(own, built, site, site.usd_per_kwh, catalog, path, notes)
    if price is None:
        return None
    most = _most(own, built, site, price, _there(spec, own), notes)
    return built.model_copy(update={"prices": OfferPrices(bought=price), "available": most})


def _check_lead(spec: DemandFile, own: OwnSpec, path: Keys, notes: Notes) -> None:
    """Complain of what would serve after the horizon only; say that a plan of one quarter does not wait."""
    quarters = spec.horizon or 1
    if quarters > 1 and own.lead_months > QUARTER * (quarters - 1):
        message = f"is too long for {quarters} quarters: it would serve after the horizon only"
        notes.complain((*path, "lead_months"), message, "Plan a longer horizon, or leave this server out")
    if own.lead_months and quarters == 1:
        why = "a plan of one quarter takes what it buys to be there from its first day: with a horizon it waits"
        notes.assume(f"menu.own.{own.name}.lead_months", "0", why)


def _built(own: OwnSpec, path: Keys, catalog: Catalog, notes: Notes) -> Offer | None:
    """The server without its price."""
    if own.like is not None:
        alike = offers_called(own.like, catalog.offers)
        if not alike:
            message = f"no instance of the catalog is called {shown(own.like, 60)}"
            notes.complain((*path, "like"), message, did_you_mean(own.like, {k.split("@")[0] for k in catalog.offers}))
            return None
        kept = {"gpu", "gpus", "host_memory_gib", "interconnect"}
        facts = {key: value for key, value in dict(catalog.offers[alike[0]]).items() if key in kept}
    else:
        facts = {"gpu": own.gpu, "gpus": own.gpus}
    gpu = find(str(facts["gpu"]), catalog.gpus)
    if gpu is None:
        notes.unknown((*path, "gpu"), "GPU", str(facts["gpu"]), names_of(catalog.gpus))
        return None
    where = {"provider": OWN, "instance": own.name, "region": own.site, "prices": OfferPrices()}
    return Offer(**{**facts, **where, "gpu": gpu, "source": f"your own figures in {Path(notes.document.file).name}"})


def _price(
    own: OwnSpec, built: Offer, site: SiteSpec, usd_per_kwh: float, catalog: Catalog, path: Keys, notes: Notes
) -> BoughtPrice | None:
    gpu = known_gpu_power({built.gpu: catalog.gpus[built.gpu]}).get(built.gpu)
    if gpu is None:
        remedy = f"Give it: catalog: {{gpus: {{{built.gpu}: {{tdp_w: ...}}}}}}"
        notes.complain(path, f"its energy cannot be counted: the power of the {built.gpu} is not known", remedy)
        return None
    pue = unknown_site().pue if site.pue is None else site.pue
    if site.pue is None:
        notes.assume(f"sites.{own.site}.pue", f"{pue:g}", "of a usual site: give yours, since energy is paid for")
    return BoughtPrice(
        price_usd=own.price,
        residual_usd=own.residual * own.price,
        life_months=round(12 * own.life_years),
        lead_months=own.lead_months,
        capital_frac=own.capital_cost,
        maintenance_frac=own.maintenance,
        colocation_usd_per_month=own.colocation_usd_per_month,
        usd_per_kwh=usd_per_kwh,
        idle_kw=pue * built.gpus * (gpu.host_w + gpu.idle_w) / W_PER_KW,
        gpu_kw=pue * (gpu.most_w - gpu.idle_w) / W_PER_KW,
        source=built.source,
    )


def _there(spec: DemandFile, own: OwnSpec) -> int:
    """Servers of the kind that stand there already: they draw of the same power."""
    names = (f"{OWN}/{own.name}", f"{OWN}/{own.name}@{own.site}")
    return sum(holding.instances for holding in spec.have if holding.offer in names)


def _most(own: OwnSpec, built: Offer, site: SiteSpec, price: BoughtPrice, there: int, notes: Notes) -> int | None:
    """What the file allows, and the power of the site with every GPU at the most that it draws."""
    if site.power_kw is None:
        return own.max_instances
    each_kw = price.idle_kw + built.gpus * price.gpu_kw
    room = math.floor(site.power_kw / each_kw * (1 + 1e-9))
    if room == 0:
        message = f"is too little for one {own.name}, which draws {each_kw:.1f} kW with cooling"
        notes.complain(("sites", own.site, "power_kw"), message, "Give what the site has, or leave the server out")
    if there > room:
        message = f"is too little for the {there} of {own.name} that stand there already ('have'): {room} fit"
        notes.complain(("sites", own.site, "power_kw"), message, "Give what the site has, or correct 'have'")
    left = max(0, room - there)
    return left if own.max_instances is None else min(left, own.max_instances)
