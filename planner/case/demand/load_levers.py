"""What a workload lets the optimizer do: caching, sharing, waiting, staying in a region, and shedding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from planner.case.case import CACHE_KINDS, Bucket, PrefixReuse, ReusePoint
from planner.case.demand.diagnostics import Diagnostics
from planner.case.demand.schema import MenuSpec
from planner.case.demand.workload_schema import Caching, Shed, WorkloadSpec
from planner.catalog.entries import ApiModel, Catalog, Offer
from planner.io.errors import Path, did_you_mean

LONGEST_WAIT_H = 24.0
API_KEEPS_S = 300.0
"""for which providers keep a prompt that is not used: Anthropic 5 minutes, OpenAI 5 to 10 (their pages on prompt
caching, 2026-11)"""
PENALTY_FACTORS = {"low": 3, "normal": 10, "high": 30}
"""penalty of a request that is shed, as a multiple of its price at the baseline"""


@dataclass(frozen=True)
class Surroundings:
    """What a workload's levers are read against."""

    catalog: Catalog
    menu: MenuSpec
    offers: dict[str, Offer]
    """on the menu"""
    baseline: str
    baseline_api: ApiModel | None
    """None where there is no such API model, which is complained about elsewhere"""


def levers_of(
    w: WorkloadSpec,
    k: int,
    buckets: tuple[Bucket, ...],
    mean_rps: float,
    around: Surroundings,
    found: Diagnostics,
) -> dict[str, Any]:
    """The fields of a case's workload that say what may be done with it; `mean_rps` is its mean rate over a week."""
    _check_residency(w, ("workloads", k), around, found)
    menu, caching = around.menu, w.caching
    if caching.prefix_hit_rate and caching.prefix_reuse is None:
        why = "the hit rate is taken to hold whatever the memory of replicas and the router; a curve ties it to both"
        found.assume(f"workloads.{w.name}.caching.prefix_reuse", "none", why)
    deadline_h = None if w.deadline is None else w.deadline / 3600
    return {
        "shared_prefix_tokens": float(caching.shared_prefix_tokens),
        "prefix_hit_frac": caching.prefix_hit_rate,
        "prefixes": float(caching.prefixes),
        "prefix_reuse": _reuse(caching, w.name, buckets, mean_rps, found) if caching.prefix_reuse else None,
        "template_tokens": float(caching.template_tokens),
        "template_hit_frac": caching.template_hit_rate,
        "semantic_hit_frac": caching.semantic_hit_rate,
        "caching": caching_options(caching, menu.caching),
        "sharing": w.tenancy == "shared" and "shared" in menu.tenancy,
        "adapter_gb": w.adapter.size if w.adapter else None,
        "deadline_h": _wait_h(w, deadline_h, found) if menu.defer else None,
        "api_wait_h": deadline_h or 0.0 if menu.api_batch else 0.0,
        "regions": w.regions,
        "providers": w.providers,
        "shed_usd_per_request": _penalty(w.shed, k, w.name, buckets, around, found) if w.shed else None,
        "api_allowed": _api_allowed(w, found),
        "smaller_apis_forbidden": True if w.api == "no-smaller" else None,
        "baseline": w.baseline,
    }


def caching_options(caching: Caching, allowed: tuple[str, ...] | None) -> tuple[str, ...]:
    """No cache, and every combination of the kinds that the workload describes and the menu allows."""
    rates = {
        "prefix": caching.prefix_hit_rate or (caching.prefix_reuse is not None),
        "template": caching.template_hit_rate,
        "semantic": caching.semantic_hit_rate,
    }
    kinds = [kind for kind in CACHE_KINDS if rates[kind] and (allowed is None or kind in allowed)]
    return ("none", *("+".join(c) for n in range(1, len(kinds) + 1) for c in combinations(kinds, n)))


def _reuse(
    caching: Caching, name: str, buckets: tuple[Bucket, ...], mean_rps: float, found: Diagnostics
) -> PrefixReuse:
    """The curve with the tokens a second that it was measured at."""
    spec, key = caching.prefix_reuse, f"workloads.{name}.caching.prefix_reuse"
    assert spec is not None
    if spec.requests_per_s is None:
        why = "the curve is taken to be measured at the workload's own mean rate; prompts come back after the same time"
        found.assume(f"{key}.requests_per_s", f"{mean_rps:.4g}", f"{why}, however many others there are")
    rate = spec.requests_per_s or mean_rps
    tokens = sum(b.share_frac * b.input_tokens for b in buckets)
    points = tuple(ReusePoint(cache_tokens=float(p.tokens), hit_frac=p.hit_rate) for p in spec.curve)
    reuse = PrefixReuse(points=points, tokens_per_s=max(rate * tokens, 1e-9))
    kept = reuse.found_frac(API_KEEPS_S * reuse.tokens_per_s)
    why = "API bills count no reuse beyond it, as a provider sees only what it is sent; one that is sent everything"
    why = f"{why} and keeps prompts for {API_KEEPS_S / 60:g} min would find about {kept:.0%} of prompt tokens"
    found.assume(f"{key}, on APIs", "the shared prefix", why)
    return reuse


def _wait_h(w: WorkloadSpec, deadline_h: float | None, found: Diagnostics) -> float | None:
    """Hours that work may move; a plan repeats its days, so they hold no longer wait."""
    if deadline_h is None or deadline_h <= LONGEST_WAIT_H:
        return deadline_h
    why = "a plan is made of days that repeat, so work moves by a day at most"
    found.assume(f"workloads.{w.name}.deadline", f"{LONGEST_WAIT_H:g} h", why)
    return LONGEST_WAIT_H


def _check_residency(w: WorkloadSpec, path: Path, around: Surroundings, found: Diagnostics) -> None:
    """Complain about places that are not on the menu, or that leave nothing of it."""
    left, wrong = list(around.offers.values()), not around.offers
    for name, given in (("provider", w.providers), ("region", w.regions)):
        on_menu = sorted({getattr(offer, name) for offer in around.offers.values()})
        known = {getattr(offer, name) for offer in around.catalog.offers.values()}
        for i, value in enumerate(given or ()):
            if on_menu and value not in on_menu:
                remedy = f"Add it to 'menu: {name}s'" if value in known else did_you_mean(value, on_menu)
                found.complain((*path, f"{name}s", i), f"no instance on the menu has the {name} '{value}'", remedy)
                wrong = True
        left = [offer for offer in left if given is None or getattr(offer, name) in given]
    if not left and not wrong:
        message = "leaves no instance of the menu together with 'providers'"
        found.complain((*path, "regions"), message, "Widen one of the two")


def _api_allowed(w: WorkloadSpec, found: Diagnostics) -> bool:
    """Data that must stay somewhere does not go to an API unless the user says that it may."""
    if "api" not in w.model_fields_set and (w.regions or w.providers):
        why = "its data must stay where 'regions' and 'providers' say; write api: allowed if the API is there too"
        found.assume(f"workloads.{w.name}.api", "forbidden", why)
        return False
    return w.api != "forbidden"


def _penalty(
    shed: Shed, k: int, name: str, buckets: tuple[Bucket, ...], around: Surroundings, found: Diagnostics
) -> float | None:
    """USD of turning one request away."""
    if shed.penalty_per_1k_requests is not None:
        return shed.penalty_per_1k_requests / 1000
    api, factor = around.baseline_api, PENALTY_FACTORS[shed.priority or "high"]
    if api is None:
        return None
    usd = sum(b.share_frac * api.usd(b.input_tokens, 0.0, b.output_tokens) for b in buckets)
    if usd <= 0:
        message = f"cannot be priced: {around.baseline} asks nothing for a request"
        found.complain(("workloads", k, "shed", "priority"), message, "Write {penalty_per_1k_requests: $5}")
        return None
    why = f"{factor} times what {around.baseline} asks for its mean request, nothing cached; no part of any cost"
    found.assume(f"workloads.{name}.shed.priority", f"${1000 * factor * usd:.4g} per 1k requests", why)
    return factor * usd
