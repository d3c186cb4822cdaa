"""Power and carbon of a case: what the catalog knows, and what the file says of its sites."""

from __future__ import annotations

from collections.abc import Mapping

from planner.case.demand.notes import Notes
from planner.case.demand.schema import DemandFile
from planner.case.power import CasePower, known_gpu_power, known_sites, own_site, place_of, unknown_site
from planner.catalog.entries import Gpu, Offer
from planner.io.errors import did_you_mean, shown


def power_of(spec: DemandFile, gpus: Mapping[str, Gpu], offers: Mapping[str, Offer], notes: Notes) -> CasePower:
    sites, elsewhere = known_sites(offers), unknown_site()
    named: dict[str, set[str]] = {}
    for offer in offers.values():
        named.setdefault(offer.region, set()).add(place_of(offer))
        named.setdefault(place_of(offer), set()).add(place_of(offer))
    for name, given in spec.sites.items():
        if name not in named:
            remedy = did_you_mean(name, named) or f"The menu has {', '.join(sorted(named))}"
            notes.complain(("sites", name), f"no instance on the menu is in {shown(name, 60)}", remedy)
        for place in named.get(name, ()):
            sites[place] = own_site(sites.get(place, elsewhere), given.pue, given.grid_g_per_kwh)
    return CasePower(gpus=known_gpu_power(gpus), sites=dict(sorted(sites.items())), elsewhere=elsewhere)
