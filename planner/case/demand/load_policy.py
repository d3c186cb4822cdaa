"""The policy of a demand file: limits, the team, and what starting, sharing and caching take."""

from __future__ import annotations

from functools import cache

from planner.case.case import LEAST_REQUESTS, CacheCosts, ColdStart, Limits, Tenancy, Workload
from planner.case.demand.load_speculation import methods_on_menu
from planner.case.demand.notes import Notes
from planner.case.demand.overrides import offers_called
from planner.case.demand.schema import DemandFile, PolicySpec, StartupSpec
from planner.case.start_up import known_parts, start_facts
from planner.case.vendors import Vendor, vendors_of_api, vendors_of_offer
from planner.catalog.apis import is_below, tier_of_api, tier_of_model
from planner.catalog.entries import ApiModel, Catalog, Offer, Sourced, find, names_of, shipped_entries
from planner.catalog.names import sells
from planner.catalog.variant import PARALLELISMS, TENSOR, Parallelism
from planner.io.errors import did_you_mean, shown
from planner.io.units import UsdOver

DEFAULT_MIN_REPLICAS = 2
WEIGHTS_GB_PER_S = 1.0
SPOT_WITHIN_S = 600.0
DEFAULT_MAX_SHARE, DEFAULT_CORRELATION, DEFAULT_ADAPTERS = 0.6, 0.3, 64


class CacheCost(Sourced):
    """A figure of planner/data/cache_costs.yaml."""

    usd: float


@cache
def shipped_cache_costs() -> dict[str, CacheCost]:
    return {name: CacheCost(**entry) for name, entry in shipped_entries("cache_costs").items()}


def limits_of(
    spec: DemandFile, catalog: Catalog, workloads: tuple[Workload, ...], offers: dict[str, Offer],
    apis: dict[str, ApiModel], notes: Notes,
) -> Limits:  # fmt: skip
    """What the policy allows; `apis` are those of the menu and those that it is compared with."""
    policy = spec.policy
    max_gpus: dict[str, int] = {}
    for name, most in policy.max_gpus.items():
        key = find(name, catalog.gpus)
        if key is None:
            notes.unknown(("policy", "max_gpus", name), "GPU", name, names_of(catalog.gpus))
        else:
            max_gpus[key] = most
    max_instances: dict[str, int] = {}
    for name, most in policy.max_instances.items():
        keys = offers_called(name, offers)
        if not keys:
            message = f"no instance on the menu is called {shown(name, 60)}"
            notes.complain(("policy", "max_instances", name), message, did_you_mean(name, offers))
        max_instances |= dict.fromkeys(keys, most)
    for key, offer in offers.items():
        if offer.available is not None:
            rented = offer.prices.bought is None  # what may be bought is counted beside what stands there already
            most = offer.available + (_held(spec, key, offers) if rented else 0)
            max_instances[key] = min(most, max_instances.get(key, most))
    if policy.min_replicas is None:
        notes.assume("policy.min_replicas", str(DEFAULT_MIN_REPLICAS), "with a single replica, a failure is an outage")
    min_replicas = policy.min_replicas or DEFAULT_MIN_REPLICAS
    spread = min_replicas > 1 and policy.spread is not False
    if spread and policy.spread is None and any(offer.gpus > 1 for offer in offers.values()):
        notes.assume("policy.spread", "true", "replicas that all run on one instance fail together")
    if policy.routing is None:
        why = "each request goes to the replica with the fewest in flight, as vLLM's router, llm-d and Envoy can do"
        if any(w.caching.prefix_reuse is not None for w in spec.workloads):
            why += "; it finds prefixes only by chance: write prefix-aware if your gateway knows where they are"
        notes.assume("policy.routing", LEAST_REQUESTS, why)
    if "smaller_apis" not in policy.model_fields_set and (kept_out := _smaller_apis(spec, catalog, workloads)):
        notes.assume("policy.smaller_apis", "forbidden", f"{kept_out}; 'policy: {{smaller_apis: allowed}}' lets it in")
    monthly = policy.budget_usd_per_month
    if policy.budget is not None and policy.budget.months == 1:
        monthly = policy.budget.usd
    longer = policy.budget if policy.budget is not None and policy.budget.months > 1 else None
    if longer is not None:
        _check_budget(spec, longer, notes)
    return Limits(
        budget_usd_per_month=monthly,
        budget_usd=longer.usd if longer else None,
        budget_months=longer.months if longer else None,
        power_kw=policy.power_kw,
        max_gpus=max_gpus,
        max_instances=max_instances,
        min_replicas=min_replicas,
        spread=True if spread else None,
        max_gpus_per_replica=spec.menu.max_gpus_per_replica,
        max_gpu_types=policy.max_gpu_types,
        max_deployments=spec.menu.max_deployments,
        parallelism=_parallelism(spec, catalog, workloads),
        speculation=methods_on_menu(spec.menu, catalog, notes),
        routing=policy.routing or LEAST_REQUESTS,
        hours_kept_frac=policy.hours_kept,
        simpler_within_frac=policy.simpler_within,
        choose_simplest=True if policy.choose == "simplest" else None,
        unproven_forbidden=None if policy.unproven is None else policy.unproven == "forbidden",
        smaller_apis_forbidden=True if policy.smaller_apis == "forbidden" else None,
        max_vendors={kind: most for kind, most in policy.vendors.at_most if most is not None} or None,
        vendor_usd_per_month=_vendor_costs(policy, offers, apis, notes),
        new_api_usd_per_month=policy.vendors.fixed_usd_per_month.api or None,
    )


def _check_budget(spec: DemandFile, budget: UsdOver, notes: Notes) -> None:
    """Say how a budget of a year counts where less than a year is planned; complain of what it cannot go with."""
    quarters, period = spec.horizon or 1, budget.months // 3
    horizon = quarters > 1 or bool(spec.scenarios)
    shed = [k for k, w in enumerate(spec.workloads) if w.shed is not None]
    if horizon and shed:
        message = "is kept over several quarters only where nothing may be shed"
        remedy = "Write a budget a month, which limits each quarter by itself, or leave 'shed' out"
        notes.complain(("policy", "budget"), message, remedy)
    if rest := quarters % period:
        usd = budget.usd * rest / period
        why = f"the plan ends within a budget year: {rest} of its 4 quarters may spend their share"
        notes.assume("policy.budget", f"${usd:,.0f} for what is planned of the year", why)


def _held(spec: DemandFile, key: str, offers: dict[str, Offer]) -> int:
    """Instances of an offer that are there at some time of the plan."""
    return sum(holding.instances for holding in spec.have if key in offers_called(holding.offer, offers))


def _smaller_apis(spec: DemandFile, catalog: Catalog, workloads: tuple[Workload, ...]) -> str:
    """The first API of the menu, and its workload, that sells a model of a lower tier than the one listed first."""
    menu = (spec.baseline,) if spec.menu.apis is None else spec.menu.apis
    for w in workloads if workloads and all(w.models for w in workloads) else ():
        first = w.models[0].model
        tier = tier_of_model(catalog.models[first])
        for api in menu if w.api_allowed else ():
            listed = any(sells(api, c.model, catalog.models[c.model]) for c in w.models)
            if is_below(tier_of_api(api), tier) and not listed:
                return f"{api} is a {tier_of_api(api)} model, {first} of {w.name} a {tier} one"
    return ""


def _parallelism(spec: DemandFile, catalog: Catalog, workloads: tuple[Workload, ...]) -> tuple[Parallelism, ...] | None:
    """Ways to share a mixture of experts; None where there is none, or tensor parallelism alone."""
    ways = tuple(way for way in PARALLELISMS if way in (spec.menu.parallelism or (TENSOR,)))
    experts = any(catalog.models[choice.model].moe for w in workloads for choice in w.models)
    return ways if experts and ways != (TENSOR,) else None


def _names_of_vendors(offers: dict[str, Offer], apis: dict[str, ApiModel]) -> dict[Vendor, set[str]]:
    """What each vendor of offers and APIs may be called; a region goes by its name with and without its provider."""
    places = {vendor for offer in offers.values() for vendor in vendors_of_offer(offer)}
    every = sorted(places | {vendor for api in apis.values() for vendor in vendors_of_api(api)})
    return {vendor: {vendor[1], vendor[1].rpartition(" ")[2]} for vendor in every}


def _vendor_costs(
    policy: PolicySpec, offers: dict[str, Offer], apis: dict[str, ApiModel], notes: Notes
) -> dict[str, float] | None:
    """The fixed cost of every vendor that is named and not there anyway; None where there is none."""
    named = _names_of_vendors(offers, apis)
    known = sorted({alias for names in named.values() for alias in names})
    for k, name in enumerate(policy.vendors.have):
        if name not in known:
            message = f"no vendor on the menu is called {shown(name, 60)}"
            notes.complain(("policy", "vendors", "have", k), message, did_you_mean(name, known))
    have, costs = set(policy.vendors.have), dict(policy.vendors.fixed_usd_per_month)
    charged = [vendor for vendor, names in named.items() if costs[vendor[0]] and not names & have]
    return {f"{kind} {name}": costs[kind] for kind, name in charged} or None


def engineers_usd_per_month(policy: PolicySpec, notes: Notes) -> float:
    team = policy.engineers
    if team is None:
        notes.assume("policy.engineers", "none", "the cost of the people who run the fleet is not counted")
        return 0.0
    return team.count * team.usd_per_year / 12


def start_of(policy: PolicySpec, purchase: tuple[str, ...], notes: Notes) -> ColdStart:
    """How long capacity takes to start, part by part."""
    facts, own = start_facts(), policy.startup or StartupSpec()
    node_s = own.node if own.node is not None else 0.0 if own.warm_pool else facts["node"].fixed_s
    image_s = own.image if own.image is not None else 0.0 if own.image_cached else facts["image"].fixed_s
    if own.sleep:
        node_s = image_s = 0.0
    if policy.startup is None:
        why = (
            f"{node_s / 60:g} min for a node and {image_s / 60:g} for the engine's image, from ordering an instance to "
            "a machine that can load a model; this time is paid for"
        )
        notes.assume("policy.startup", f"{(node_s + image_s) / 60:g} min", why)
    if own.warm_pool:
        notes.assume("startup.warm_pool", "$0", "what waiting machines cost is not counted")
    if own.sleep:
        notes.assume(
            "startup.sleep", "$0", "GPUs of sleeping replicas are taken to earn their keep elsewhere meanwhile"
        )
    gb_per_s = WEIGHTS_GB_PER_S if own.weights is None else facts[own.weights].rate
    if "spot" in purchase and own.weights is None:
        why = (
            f"as stored: 16-bit where no quantized checkpoint is known; what takes over {SPOT_WITHIN_S / 60:g} min to "
            "start, machine included, is not run on spot"
        )
        notes.assume("startup.weights", f"{WEIGHTS_GB_PER_S:g} GB/s", why)
    return ColdStart(
        instance_s=node_s + image_s,
        weights_gb_per_s=gb_per_s,
        spot_within_s=SPOT_WITHIN_S,
        parts=known_parts(node_s, image_s, own.compile_cached, own.sleep),
    )


def tenancy_of(policy: PolicySpec, workloads: tuple[Workload, ...], notes: Notes) -> Tenancy:
    """Rules for workloads that share replicas; what is assumed is said only where two of them could."""
    own = policy.tenancy
    models = [model for w in workloads if w.sharing for model in {c.model for c in w.models}]
    shares = len(models) > len(set(models))
    if shares and own.max_share is None:
        why = "no workload may exceed this share of a shared pool's load, so that it cannot starve the others"
        notes.assume("policy.tenancy.max_share", f"{DEFAULT_MAX_SHARE:.0%}", why)
    if shares and own.correlation is None:
        why = "between the swings of two workloads around their hourly means"
        notes.assume("policy.tenancy.correlation", f"{DEFAULT_CORRELATION:g}", why)
    if shares and own.adapters_per_replica is None and any(w.adapter_gb for w in workloads if w.sharing):
        why = "the most LoRA adapters that one replica serves"
        notes.assume("policy.tenancy.adapters_per_replica", str(DEFAULT_ADAPTERS), why)
    return Tenancy(
        max_share_frac=DEFAULT_MAX_SHARE if own.max_share is None else own.max_share,
        correlation=DEFAULT_CORRELATION if own.correlation is None else own.correlation,
        adapters_per_replica=own.adapters_per_replica or DEFAULT_ADAPTERS,
    )


def cache_costs_of(policy: PolicySpec, workloads: tuple[Workload, ...], notes: Notes) -> CacheCosts:
    """What caches cost beyond GPU memory; what is assumed is said where a semantic cache may be used."""
    semantic = any("semantic" in option for w in workloads for option in w.caching)
    costs = {}
    for name, shipped in shipped_cache_costs().items():
        own = getattr(policy.cache_costs, name)
        costs[name] = shipped.usd if own is None else own
        if own is None and semantic and shipped.usd:
            notes.assume(f"policy.cache_costs.{name}", f"${shipped.usd:g}", shipped.assumption or shipped.source)
    return CacheCosts(**costs)
