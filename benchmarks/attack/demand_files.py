"""Small random demand files, as dicts: every lever now and then, and nothing that takes long to plan."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

Demand = dict[str, Any]
MODELS = ("llama-3.1-8b", "qwen2.5-7b", "mistral-7b-v0.3", "qwen3-14b")
GPUS = ("l4", "a10g", "l40s", "a100-80gb", "h100")
QUANTIZATIONS = ("fp16", "fp8", "int8", "int4-awq")
PURCHASES = ("on-demand", "spot", "reserved-1y", "reserved-3y")
REGIONS = ("us-east-1", "us-west-2", "eu-central-1")


def random_demand(rng: Random) -> Demand:
    """One to three workloads, a menu of one or two GPUs, and limits that bind now and then."""
    regions = _some(rng, REGIONS, 1 if rng.random() < 0.8 else 2)
    count = rng.choice([1, 1, 1, 2, 2, 3])
    model, together = rng.choice(MODELS), count > 1 and rng.random() < 0.3
    workloads = [_workload(rng, k, model if together else rng.choice(MODELS), together, regions) for k in range(count)]
    menu: Demand = {
        "gpus": _some(rng, GPUS, rng.choice([1, 1, 2])),
        "quantizations": _some(rng, QUANTIZATIONS, rng.choice([1, 2])),
        "purchase": _purchases(rng),
        "providers": ["aws"],
        "regions": regions,
        "max_deployments": rng.choice([1, 1, 1, 2]),
    }
    if together:
        menu["tenancy"] = ["dedicated", "shared"]
    demand: Demand = {
        "workloads": workloads,
        "menu": menu,
        "baseline": rng.choice(["openai/gpt-4o-mini", "openai/gpt-4o"]),
    }
    policy = _policy(rng, menu, any("shed" in w for w in workloads))
    return demand | ({"policy": policy} if policy else {})


def _workload(rng: Random, k: int, model: str, shared: bool, regions: list[str]) -> Demand:
    prompt, answer = rng.randrange(100, 3000), rng.randrange(10, 500)
    w: Demand = {
        "name": f"w{k}",
        "models": [model],
        "forecast": {
            "requests_per_day": round(10 ** rng.uniform(3.5, 5.7)),
            "shape": rng.choice(["flat", "consumer", "business-hours"]),
        },
        "tokens": _tokens(rng, prompt, answer),
        "slo": {"ttft_p95": f"{rng.choice([0.8, 1.5, 3, 10])}s", "tpot_p95": f"{rng.choice([30, 50, 80, 150])}ms"},
        "quality": {"max_loss": f"{rng.choice([1, 2, 6])}%"},
    }
    if rng.random() < 0.08:
        w["forecast"]["growth_per_month"] = f"{rng.choice([-5, 4, 9])}%"
    if rng.random() < 0.35:
        w["spot"] = {"critical_share": f"{rng.choice([0, 40, 70, 100])}%"}
    if shared:
        return w | {"tenancy": "shared"}
    if rng.random() < 0.35:
        w["caching"] = {"shared_prefix_tokens": prompt // 4, "prefix_hit_rate": f"{rng.randrange(30, 95)}%"}
        if rng.random() < 0.4:
            w["caching"]["semantic_hit_rate"] = f"{rng.randrange(3, 30)}%"
    if rng.random() < 0.08:
        w["deadline"] = f"{rng.choice([2, 4, 24])}h"
        del w["slo"]
    if rng.random() < 0.12:
        w["shed"] = {"priority": rng.choice(["low", "normal", "high"])}
    if len(regions) > 1 and rng.random() < 0.4:
        w["regions"] = regions[:1]
    w["api"] = rng.choice(["allowed", "allowed", "forbidden"])
    return w


def _tokens(rng: Random, prompt: int, answer: int) -> Demand:
    if rng.random() < 0.6:
        return {"input": prompt, "output": answer}
    share = rng.randrange(20, 95)
    return {
        "buckets": [
            {"input": prompt, "output": answer, "share": f"{share}%"},
            {"input": prompt * 3, "output": answer + 60, "share": f"{100 - share}%"},
        ]
    }


def _policy(rng: Random, menu: Demand, sheds: bool) -> Demand:
    policy: Demand = {}
    if rng.random() < 0.3:
        policy["min_replicas"] = rng.choice([1, 2, 3])
    if rng.random() < 0.3:
        policy["startup"] = rng.choice(["1min", "5min", "20min"])
    if rng.random() < 0.2:
        policy["engineers"] = {"count": rng.choice([0.1, 0.5, 1]), "usd_per_year": "200k"}
    if rng.random() < 0.15:
        policy["max_gpus"] = {menu["gpus"][0]: rng.choice([1, 4, 16])}
    if rng.random() < 0.08:
        policy["max_gpu_types"] = 1
    if _rented(menu) and rng.random() < 0.12:
        policy["max_instances"] = {name: rng.choice([0, 2, 9]) for name in _rented(menu)}
    if rng.random() < (0.3 if sheds else 0.02):
        policy["budget_usd_per_month"] = round(10 ** rng.uniform(2.8, 4.3))
    if rng.random() < 0.15:
        policy["cache_costs"] = {"tier_usd_per_month": rng.choice([0, 50, 300])}
    return policy


def _rented(menu: Demand) -> list[str]:
    """The small instances on this menu."""
    small = {"l4": "aws/g6.xlarge", "a10g": "aws/g5.xlarge", "l40s": "aws/g6e.xlarge"}
    return [small[gpu] for gpu in menu["gpus"] if gpu in small]


def _purchases(rng: Random) -> list[str]:
    """On demand nearly always: whoever buys nothing else firm has no plan for critical requests."""
    some = _some(rng, PURCHASES, rng.choice([1, 2, 3]))
    return some if "on-demand" in some or rng.random() < 0.2 else ["on-demand", *some]


def _some(rng: Random, names: tuple[str, ...], count: int) -> list[str]:
    return rng.sample(names, count)


def reordered(demand: Demand, rng: Random) -> Demand:
    """The same case written down in another order."""
    other = copy.deepcopy(demand)
    rng.shuffle(other["workloads"])
    for key in ("gpus", "quantizations", "purchase", "regions"):
        rng.shuffle(other["menu"][key])
    return other


def widened(demand: Demand, rng: Random) -> Demand:
    """Add a GPU, a quantization or a way to buy to the menu."""
    other = copy.deepcopy(demand)
    menus = {"gpus": GPUS, "quantizations": QUANTIZATIONS, "purchase": PURCHASES}
    left = [(key, name) for key, names in menus.items() for name in names if name not in other["menu"][key]]
    key, name = rng.choice(left)
    other["menu"][key].append(name)
    return other


def is_limited(demand: Demand) -> bool:
    return bool({"max_gpus", "max_gpu_types", "max_instances", "budget_usd_per_month"} & set(demand.get("policy", {})))
