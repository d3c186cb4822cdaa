"""What LiteLLM's proxy needs to route, overflow and shed as the plan does: its config, and the routes for our hook.

The config says what LiteLLM's can: destinations with the month's shares as weights, and what to try when one
fails. Ranges of tokens and hours of the day are in routes.json, which the hook beside it reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

from planner.catalog.entries import ServiceTier
from planner.export import inference_gateway
from planner.export.hosted import Hosted, HostedFleet
from planner.export.inference_gateway import OBJECTIVE_HEADER, POOL_HEADER, objective_of, timeout_s
from planner.export.manifests import documents
from planner.export.names import plain
from planner.export.routing import SHED, Route, destinations, routes
from planner.plan.plan import WorkloadPlan
from planner.plan.serve_commands import adapters_of, engine_settings

PROVIDERS = {
    "aws": "bedrock", "azure": "azure", "anthropic": "anthropic", "cerebras": "cerebras", "cohere": "cohere",
    "databricks": "databricks", "deepseek": "deepseek", "fireworks": "fireworks_ai", "google": "gemini", "groq": "groq",
    "mistral": "mistral", "moonshotai": "moonshot", "novita": "novita", "openai": "openai", "openrouter": "openrouter",
    "perplexity": "perplexity", "together": "together_ai", "x-ai": "xai",
}  # fmt: skip
"""what LiteLLM calls the providers of the price list (docs.litellm.ai/docs/providers, 2026-11)"""
TIER_ENDS = tuple(f":{tier}" for tier in get_args(ServiceTier))
FALLBACK, CRITICAL = " (fallback)", " (critical)"
"""end the names of models that are a workload's too: its API alone, and its requests that must not be shed"""
RETRIES, COOLDOWN_S = 2, 5
PROXIES = 2
HOURS_LIST = re.compile(r"\[((?:\s*\d+,?)+)\s*\]")


def config(fleet: HostedFleet) -> str:
    """Of the proxy."""
    entries = [entry for w in fleet.plan.workloads for entry in _entries(fleet, w)]
    caught = [name for w in fleet.plan.workloads if w.api for name in (w.name, w.name + CRITICAL)]
    there = {entry["model_name"] for entry in entries}
    fallbacks = [{name: [name.removesuffix(CRITICAL) + FALLBACK]} for name in caught if name in there]
    settings: dict[str, Any] = {
        "routing_strategy": "simple-shuffle",
        "num_retries": RETRIES,
        "cooldown_time": COOLDOWN_S,
        "timeout": timeout_s(fleet),
    }
    if fallbacks:
        settings["fallbacks"] = fallbacks
    return documents(
        fleet.header,
        {
            "model_list": entries,
            "router_settings": settings,
            "litellm_settings": {"callbacks": ["fleetplan_router.hook", "prometheus"], "drop_params": True},
            "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
        },
    )


def routes_json(fleet: HostedFleet) -> str:
    """For the hook: shares by range and hour, how long a request each destination holds, and what else may serve."""
    by_workload: dict[str, list[Route]] = {}
    for route in routes(fleet):
        by_workload.setdefault(route.workload, []).append(route)
    by_name = {w.name: w for w in fleet.plan.case.workloads}
    workloads = {
        name: {
            "ranges": [_range(r, waits=by_name[name].deadline_h is not None) for r in mine],
            "holds": {h.name: _context(fleet, h) for h in _hosted(fleet, name)},
            "otherwise": [h.name for h in _hosted(fleet, name)] + _apis(fleet, name),
        }
        for name, mine in by_workload.items()
    }
    workloads |= {name + CRITICAL: {"critical_of": name} for name in marked(fleet)}
    whole = {"written_by": fleet.header, "time_zone": fleet.settings.time_zone, "workloads": workloads}
    return HOURS_LIST.sub(_on_a_line, json.dumps(whole, indent=1, sort_keys=True)) + "\n"


def _range(route: Route, waits: bool) -> dict[str, Any]:
    """For each hour the place of its shares in a list: a ConfigMap has little room. Work that waits is sent in other
    hours than those in which it arrived, so each hour has the month's shares.
    """
    shares: list[dict[str, float]] = []
    by_hour: dict[str, list[int]] = {}
    for day, hours in route.by_hour.items():
        for found in hours:
            ordered = dict(sorted((route.to if waits or not found else found).items()))
            if ordered not in shares:
                shares.append(ordered)
            by_hour.setdefault(day, []).append(shares.index(ordered))
    return {"up_to": route.up_to, "shares": shares, "by_hour": by_hour}


def _on_a_line(found: re.Match[str]) -> str:
    return f"[{', '.join(found[1].replace(',', ' ').split())}]"


def _hosted(fleet: HostedFleet, workload: str) -> list[Hosted]:
    return [h for h in fleet.hosted if workload in h.pool.workloads]


def _context(fleet: HostedFleet, h: Hosted) -> int:
    """Tokens of prompt and answer together that its engine admits."""
    return engine_settings(fleet.plan, h.pool, h.plan.deployment).context_tokens


def _apis(fleet: HostedFleet, workload: str) -> list[str]:
    return [w.api for w in fleet.plan.workloads if w.name == workload and w.api is not None]


def marked(fleet: HostedFleet) -> list[str]:
    """Workloads of which some requests are critical, and the others shed while spot is away."""
    on_spot = {name for h in fleet.hosted if any(part.spot for part in h.parts) for name in h.pool.workloads}
    return [w.name for w in fleet.plan.case.workloads if w.name in on_spot and 0 < w.critical_share_frac < 1]


def _entries(fleet: HostedFleet, w: WorkloadPlan) -> Iterator[dict[str, Any]]:
    shares = month_shares(fleet, w.name)
    for h in _hosted(fleet, w.name):
        yield _entry(w.name, h.name, shares.get(h.name, 0.0), _to_pool(fleet, h, w.name))
        if w.name in marked(fleet):
            params = _to_pool(fleet, h, w.name, inference_gateway.CRITICAL)
            yield _entry(w.name + CRITICAL, h.name, shares.get(h.name, 0.0), params)
    if w.api is not None:
        for name in (w.name, *([w.name + CRITICAL] if w.name in marked(fleet) else [])):
            yield _entry(name, w.api, shares.get(w.api, 0.0), to_api(w.api))
        yield _entry(w.name + FALLBACK, w.api, 1.0, to_api(w.api))


def _entry(name: str, to: str, weight: float, params: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_name": name,
        "litellm_params": params | {"weight": round(weight, 6)},
        "model_info": {"id": f"{name}/{to}", "fleetplan_to": to},
    }


def month_shares(fleet: HostedFleet, workload: str) -> dict[str, float]:
    """Of the requests that are neither shed nor answered by a cache, by destination."""
    shares: dict[str, float] = {}
    for route in routes(fleet):
        if route.workload == workload:
            for to, share in route.to.items():
                shares[to] = shares.get(to, 0.0) + route.share_frac * share
    shares.pop(SHED, None)
    total = sum(shares.values())
    return {to: share / total for to, share in shares.items()} if total else {}


def _to_pool(fleet: HostedFleet, h: Hosted, workload: str, priority: str = "") -> dict[str, Any]:
    served = adapters_of(fleet.plan, h.pool).get(workload, h.checkpoint)
    return {
        "model": f"hosted_vllm/{served}",
        "api_base": f"os.environ/{gateway_variable(h.cluster)}",
        "api_key": "os.environ/VLLM_API_KEY",
        "extra_headers": {POOL_HEADER: h.name, OBJECTIVE_HEADER: objective_of(fleet, h, workload) + priority},
    }


def to_api(api: str) -> dict[str, Any]:
    provider, _, model = api.partition("/")
    if model.endswith(TIER_ENDS):
        standard, _, tier = api.rpartition(":")
        return to_api(standard) | {"service_tier": tier}
    if provider in PROVIDERS:
        key = "AWS_BEARER_TOKEN_BEDROCK" if provider == "aws" else f"{_variable(PROVIDERS[provider])}_API_KEY"
        return {"model": f"{PROVIDERS[provider]}/{model}", "api_key": f"os.environ/{key}"}
    name = _variable(provider)
    return {
        "model": f"openai/{model}",
        "api_base": f"os.environ/{name}_API_BASE",
        "api_key": f"os.environ/{name}_API_KEY",
    }


def gateway_variable(cluster: str) -> str:
    return f"GATEWAY_{_variable(cluster)}"


def _variable(name: str) -> str:
    return plain(name).replace("-", "_").upper()


def variables(fleet: HostedFleet) -> list[str]:
    """Secrets and addresses that the config refers to, but for those of pools and of the proxy itself."""
    found = [value for w in fleet.plan.workloads if w.api for value in to_api(w.api).values()]
    return sorted({value.removeprefix("os.environ/") for value in found if value.startswith("os.environ/")})


def busiest_minute(fleet: HostedFleet) -> dict[str, tuple[float, float]]:
    """Requests and tokens a minute that each API takes in the busiest hour of the month."""
    by_api: dict[str, dict[int, tuple[float, float]]] = {}
    for s in fleet.view.served:
        api = s.decided.api
        if api is None:
            continue
        tokens = [b.input_tokens + b.output_tokens for b in s.w.buckets]
        rates = destinations(fleet, s)[api]
        hours = by_api.setdefault(api, {})
        for t in fleet.slots:
            before = hours.get(t, (0.0, 0.0))
            hours[t] = (before[0] + 60 * float(rates[t].sum()), before[1] + 60 * float(rates[t] @ tokens))
    return {
        api: (max(r for r, _ in hours.values()), max(n for _, n in hours.values())) for api, hours in by_api.items()
    }
