"""Power and carbon of a case: what the catalog knows, and what the file says of its sites."""

from __future__ import annotations

from collections.abc import Mapping

from planner.case.demand.notes import Notes
from planner.case.demand.overrides import offers_called
from planner.case.demand.schema import DemandFile
from planner.case.power import CasePower, known_gpu_power, known_sites, own_site, place_of, unknown_site
from planner.catalog.entries import Gpu, Offer
from planner.catalog.power import tdp_w_of
from planner.io.errors import did_you_mean, shown


def power_of(spec: DemandFile, gpus: Mapping[str, Gpu], offers: Mapping[str, Offer], notes: Notes) -> CasePower:
    sites, elsewhere = known_sites(offers), unknown_site()
    named: dict[str, set[str]] = {}
    places = {place_of(offer) for offer in offers.values()}
    for offer in offers.values():
        named.setdefault(offer.region, set()).add(place_of(offer))
        named.setdefault(place_of(offer), set()).add(place_of(offer))
    own_sites = own_sites_of(spec)
    for name in spec.sites:
        if name not in named and name not in own_sites and own_sites <= set(spec.sites):
            remedy = did_you_mean(name, named) or f"The menu has {', '.join(sorted(named))}"
            notes.complain(("sites", name), f"no instance on the menu is in {shown(name, 60)}", remedy)
    for name in sorted(
        spec.sites, key=lambda name: name in places
    ):  # what names the provider too comes last, and stays
        given = spec.sites[name]
        for place in named.get(name, ()):
            sites[place] = own_site(sites.get(place, elsewhere), given.pue, given.grid_g_per_kwh)
    return CasePower(gpus=known_gpu_power(gpus), sites=dict(sorted(sites.items())), elsewhere=elsewhere)


def own_sites_of(spec: DemandFile) -> set[str]:
    """Sites of servers that may be bought; where these are left out by name, all that have a price of energy."""
    if spec.menu.own == ():
        return {name for name, site in spec.sites.items() if site.usd_per_kwh is not None}
    return {own.site for own in spec.menu.own or ()}


def of_known_power(
    spec: DemandFile, gpus: Mapping[str, Gpu], offers: dict[str, Offer], notes: Notes
) -> dict[str, Offer]:
    """The menu without what nobody knows the power of, where the policy limits power."""
    if spec.policy.power_kw is None:
        return offers
    unknown = sorted({o.gpu for o in offers.values() if o.gpu in gpus and tdp_w_of(o.gpu, gpus[o.gpu]) is None})
    if not unknown:
        return offers
    left = {key: offer for key, offer in offers.items() if offer.gpu not in unknown}
    named = [h.offer for h in spec.have if any(key not in left for key in offers_called(h.offer, offers))]
    if not left or named:
        what = f"{named[0]}, which you have, cannot be counted" if named else "nothing on the menu can be counted"
        remedy = f"Give the thermal design power: catalog: {{gpus: {{{unknown[0]}: {{tdp_w: ...}}}}}}"
        notes.complain(("policy", "power_kw"), f"{what}: the power of the {unknown[0]} is not known", remedy)
        return offers
    notes.assume("menu.gpus", f"without {', '.join(unknown)}", "nobody published what they draw, and policy limits it")
    return left
