"""What a case knows of power: its GPUs, its boxes, and the sites that they stand at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from planner.catalog.entries import OWN_FIGURE, Gpu, Offer
from planner.catalog.power import grids, law_of, power_facts, tdp_w_of
from planner.io.validation import Strict

Doubt = Literal["filled", "zero", "assumed"]


class GpuPower(Strict):
    """A GPU, and its share of the box."""

    tdp_w: float = Field(gt=0)
    waiting_frac: float = Field(ge=0)
    """of its TDP while it serves, as are the next three (docs/evidence/power.md)"""
    reading_frac: float = Field(ge=0)
    computing_frac: float = Field(ge=0)
    most_frac: float = Field(gt=0)
    idle_w: float = Field(ge=0)
    """where no replica uses it"""
    host_w: float = Field(ge=0)
    """of all else in its box, for each GPU"""
    error_frac: float = Field(ge=0)
    """mean error of what it draws while it serves, on groups that were left out of the fit"""

    @property
    def most_w(self) -> float:
        """The most that it draws."""
        return self.most_frac * self.tdp_w


class Site(Strict):
    """Where boxes stand."""

    pue: float = Field(ge=1)
    """what the whole site draws for each W of its boxes"""
    grid_g_per_kwh: float = Field(ge=0)
    """CO2e"""
    doubt: Doubt | None = None
    """filled: the source has this value for unrelated regions; zero: the provider reports 0; assumed: nothing known"""
    source: str


class CasePower(Strict):
    gpus: dict[str, GpuPower]
    """those of which the thermal design power is known"""
    sites: dict[str, Site]
    """by provider and region, as in "aws us-east-1"; those of which anything is known"""
    elsewhere: Site


def place_of(offer: Offer) -> str:
    return f"{offer.provider} {offer.region}"


def known_gpu_power(gpus: Mapping[str, Gpu]) -> dict[str, GpuPower]:
    facts, found = power_facts(), {}
    for name, gpu in gpus.items():
        tdp_w, law = tdp_w_of(name, gpu), law_of(name)
        if tdp_w is not None:
            found[name] = GpuPower(
                tdp_w=tdp_w,
                waiting_frac=law.waiting,
                reading_frac=law.reading,
                computing_frac=law.computing,
                most_frac=law.most,
                idle_w=facts.idle.frac_of_tdp * tdp_w,
                host_w=facts.host.frac_of_tdp * tdp_w,
                error_frac=law.error_frac,
            )
    return found


def known_sites(offers: Mapping[str, Offer]) -> dict[str, Site]:
    found = {}
    for offer in offers.values():
        grid = grids().get(f"{offer.provider}/{offer.region}")
        if grid is not None:
            site = Site(pue=grid.pue, grid_g_per_kwh=grid.grid_g_per_kwh, doubt=grid.suspect, source=grid.source)
            found[place_of(offer)] = site
    return dict(sorted(found.items()))


def unknown_site() -> Site:
    site = power_facts().site
    source = f"{site.pue_source}; {site.grid_source}"
    return Site(pue=site.pue, grid_g_per_kwh=site.grid_g_per_kwh, doubt="assumed", source=source)


def own_site(known: Site, pue: float | None, grid_g_per_kwh: float | None) -> Site:
    """The site with the user's own figures; doubts are about the carbon of its grid."""
    doubt = known.doubt if grid_g_per_kwh is None else None
    return Site(
        pue=known.pue if pue is None else pue,
        grid_g_per_kwh=known.grid_g_per_kwh if grid_g_per_kwh is None else grid_g_per_kwh,
        doubt=doubt,
        source=OWN_FIGURE if None not in (pue, grid_g_per_kwh) else f"{OWN_FIGURE}; {known.source}",
    )


def site_of(power: CasePower, offer: Offer) -> Site:
    return power.sites.get(place_of(offer), power.elsewhere)
