"""A saved plan worked out again from its JSON with plain arithmetic: nothing of fleetplan is imported here."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from demand_files import Demand

HOURS = 730.0
MILLIONTH = 1e-6
PRICE_KEYS = {"on-demand": "on_demand", "spot": "spot", "reserved-1y": "reserved_1y", "reserved-3y": "reserved_3y"}


class Books:
    """What a plan buys, serves and costs."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan, self.case, self.slots = plan, plan["case"], plan["slots"]
        self.months = len({s["month"] for s in self.slots})
        self.hours = [s["hours_per_month"] / self.months for s in self.slots]

    # -- money ------------------------------------------------------------------------------------------------

    def cost_usd_per_month(self) -> float:
        return sum(map(sum, zip(*self._hourly_bills, strict=True))) + self._team

    def usd_of_month(self, month: int) -> float:
        mine = [t for t, s in enumerate(self.slots) if s["month"] == month]
        return self.months * sum(bill[t] for bill in self._hourly_bills for t in mine) + self._team

    @property
    def _team(self) -> float:
        hosted = any(pool["deployments"] for pool in self.plan["pools"])
        return self.case.get("engineers_usd_per_month", 0.0) if hosted else 0.0

    @cached_property
    def _hourly_bills(self) -> list[list[float]]:
        """USD of a month, of each slot: instances with the time they start, APIs, caches."""
        bills = [self._line(line) for line in self.plan["fleet"]]
        for w, told in self._pairs:
            bills += [self._api(w, told), self._caches(w, told)]
        return bills

    def _line(self, line: dict[str, Any]) -> list[float]:
        price = self.case["offers"][line["offer"]]["prices"][PRICE_KEYS[line["purchase"]]]
        usd = price["p50_usd_per_h"] if line["purchase"] == "spot" else price["usd_per_h"]
        n, bill = line["instances_by_slot"], []
        for t, slot in enumerate(self.slots):
            before = t - 1 if slot["hour"] > 0 else t + 23
            starts = max(0, n[t] - n[before]) if line["purchase"] in ("on-demand", "spot") else 0
            bill.append(usd * self.hours[t] * (n[t] + starts * self.case["start"]["instance_s"] / 3600))
        return bill

    def _api(self, w: dict[str, Any], told: dict[str, Any]) -> list[float]:
        bill = [0.0] * len(self.slots)
        if told["api"] is None:
            return bill
        entry = self.case["apis"][told["api"]]
        lists = [entry["tiers"]]
        if entry.get("batch") and w.get("api_wait_h", 0.0) >= entry["batch"]["turnaround_h"]:
            lists.append(entry["batch"]["tiers"])
        usd = [min(_request_usd(tiers, w, b) for tiers in lists) for b in w["buckets"]]
        for flow in told["api_flows"]:
            hourly = 3600 * sum(r * u for r, u in zip(flow["requests_per_s"], usd, strict=True))
            bill[flow["slot"]] += hourly * self.hours[flow["slot"]]
        return bill

    def _caches(self, w: dict[str, Any], told: dict[str, Any]) -> list[float]:
        costs, kinds = self.case["cache_costs"], told["caching"].split("+")
        fixed = costs["tier_usd_per_month"] if {"prefix", "template"} & set(kinds) else 0.0
        each = 0.0
        if "semantic" in kinds:
            fixed += costs["vector_store_usd_per_month"]
            prompt = sum(b["share_frac"] * b["input_tokens"] for b in w["buckets"])
            each = prompt * costs["embedding_usd_per_1m_tokens"] / 1e6
        asked = self._asked(w)
        return [h * (fixed / HOURS + 3600 * each * asked[t]) for t, h in enumerate(self.hours)]

    # -- who serves -------------------------------------------------------------------------------------------

    @property
    def _pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        told = {w["name"]: w for w in self.plan["workloads"]}
        return [(w, told[w["name"]]) for w in self.case["workloads"]]

    def _asked(self, w: dict[str, Any]) -> list[float]:
        growth = 1 + w.get("growth_per_month_frac", 0.0)
        return [w[f"{s['day']}_rps"][s["hour"]] * growth ** s["month"] for s in self.slots]

    def _kept(self, w: dict[str, Any], told: dict[str, Any]) -> list[list[float]]:
        """Requests a second [slot][length] that neither a cache, an API nor nobody takes."""
        missed = 1 - w["semantic_hit_frac"] if "semantic" in told["caching"].split("+") else 1.0
        kept = [[rate * missed * b["share_frac"] for b in w["buckets"]] for rate in self._asked(w)]
        for flow in told["api_flows"] + told["shed_flows"]:
            for b, rate in enumerate(flow["requests_per_s"]):
                kept[flow["slot"]][b] -= rate
        return kept

    def lost_requests(self) -> Iterator[str]:
        """Every request goes to a cache, an API, a deployment with room for it, or away where that is allowed."""
        for w, told in self._pairs:
            rows = self._kept(w, told)
            if min(map(min, rows)) < -MILLIONTH * max(self._asked(w)):
                yield f"{w['name']}: more is sent away than comes"
            hosted = next(p for p in self.plan["pools"] if w["name"] in p["workloads"])["deployments"]
            if not hosted and max(map(sum, rows)) > MILLIONTH * max(self._asked(w)):
                yield f"{w['name']}: nobody serves some of it"
        for pool in self.plan["pools"]:
            for k, d in enumerate(pool["deployments"]):
                yield from self._overloaded(pool, k, d)

    def _overloaded(self, pool: dict[str, Any], k: int, d: dict[str, Any]) -> Iterator[str]:
        seconds, members = (
            d["deployment"]["seconds_per_request"],
            [x for x in self._pairs if x[0]["name"] in pool["workloads"]],
        )
        load, start = [0.0] * len(self.slots), 0
        for w, told in members:
            rows, each = self._kept(w, told), seconds[start : start + len(w["buckets"])]
            flows = [{f["slot"]: f["requests_per_s"] for f in flow} for flow in told["deployment_flows"]]
            nothing = [0.0] * len(w["buckets"])
            for t, kept in enumerate(rows):
                others = [flow.get(t, nothing) for flow in flows]
                mine = others[k - 1] if k else [max(0.0, x - sum(o)) for x, *o in zip(kept, *others, strict=True)]
                if any(r > MILLIONTH * (1 + max(kept)) for r, s in zip(mine, each, strict=True) if s is None):
                    yield f"{d['deployment']['key']}: gets lengths that it cannot serve in slot {t}"
                load[t] += sum(r * s for r, s in zip(mine, each, strict=True) if s is not None)
            mean = sum(b["share_frac"] * s for b, s in zip(w["buckets"], each, strict=True) if s is not None)
            for move in told["moves"]:
                load[move["from_slot"]] -= move["requests_per_s"] * mean
                load[move["to_slot"]] += (
                    move["requests_per_s"] * mean * self.hours[move["from_slot"]] / self.hours[move["to_slot"]]
                )
            start += len(w["buckets"])
        scv = min(w["arrival_scv"] for w in self.case["workloads"] if w["name"] in pool["workloads"])
        for t, (busy, n) in enumerate(zip(load, d["replicas_by_slot"], strict=True)):
            most = _most_load(d["deployment"], n, scv)
            if busy > n * most * (1 + MILLIONTH) + MILLIONTH:
                key = d["deployment"]["key"]
                yield f"{key}: slot {t} keeps {busy:.4f} of {n} replicas busy, at most {most:.2f} each"

    # -- what is bought ---------------------------------------------------------------------------------------

    def missing_gpus(self) -> Iterator[str]:
        used, firm, bought, safe = (defaultdict(lambda: [0] * len(self.slots)) for _ in range(4))
        for d in (d for pool in self.plan["pools"] for d in pool["deployments"]):
            offer, gpus = d["deployment"]["offer"], d["deployment"]["gpus_per_replica"]
            _add(used[offer], d["replicas_by_slot"], gpus)
            _add(firm[offer], d["firm_replicas_by_slot"], gpus)
        for line in self.plan["fleet"]:
            box = self.case["offers"][line["offer"]]["gpus"]
            _add(bought[line["offer"]], line["instances_by_slot"], box)
            _add(safe[line["offer"]], line["instances_by_slot"], box if line["purchase"] != "spot" else 0)
        for offer in used:
            for t in range(len(self.slots)):
                if used[offer][t] > bought[offer][t] or firm[offer][t] > safe[offer][t]:
                    yield f"slot {t}: {used[offer][t]} GPUs of {offer} in use, {bought[offer][t]} bought"

    def broken_wishes(self, demand: Demand) -> Iterator[str]:
        """What the demand file itself asks for: volumes, limits, regions, ways to buy."""
        policy, menu = demand.get("policy", {}), demand["menu"]
        told = {w["name"]: w for w in self.plan["workloads"]}
        for w in demand["workloads"]:
            growth = float(w["forecast"].get("growth_per_month", "0%").rstrip("%")) / 100
            days = sum((1 + growth) ** m for m in range(self.months)) / self.months * HOURS / 24
            want = w["forecast"]["requests_per_day"] * days
            if abs(told[w["name"]]["requests_per_month"] / want - 1) > MILLIONTH:
                yield f"{w['name']}: {told[w['name']]['requests_per_month']} requests a month, not {want}"
            if w.get("api") == "forbidden" and told[w["name"]]["api_flows"]:
                yield f"{w['name']}: goes to an API although that is forbidden"
            if "shed" not in w and told[w["name"]]["shed_flows"]:
                yield f"{w['name']}: is shed although that is not allowed"
            pool = next(p for p in self.plan["pools"] if w["name"] in p["workloads"])
            offers = {d["deployment"]["offer"] for d in pool["deployments"]}
            yield from (
                f"{w['name']}: runs on {o}" for o in offers if o.split("@")[1] not in w.get("regions", menu["regions"])
            )
        yield from (f"buys {f['purchase']}" for f in self.plan["fleet"] if f["purchase"] not in menu["purchase"])
        yield from (f"rents {f['gpu']}" for f in self.plan["fleet"] if f["gpu"] not in menu["gpus"])
        for gpu, most in policy.get("max_gpus", {}).items():
            lines = [f for f in self.plan["fleet"] if f["gpu"] == gpu]
            peak = max(
                (
                    sum(f["instances_by_slot"][t] * f["gpus_per_instance"] for f in lines)
                    for t in range(len(self.slots))
                ),
                default=0,
            )
            if peak > most:
                yield f"{peak} GPUs of {gpu}, {most} allowed"
        for instance, most in policy.get("max_instances", {}).items():
            for offer in {f["offer"] for f in self.plan["fleet"] if f["offer"].startswith(f"{instance}@")}:
                counts = [f["instances_by_slot"] for f in self.plan["fleet"] if f["offer"] == offer]
                if max(map(sum, zip(*counts, strict=True))) > most:
                    yield f"more than {most} instances of {offer}"
        if len({f["gpu"] for f in self.plan["fleet"]}) > policy.get("max_gpu_types", 99):
            yield "too many kinds of GPU"
        budget = policy.get("budget_usd_per_month", float("inf"))
        yield from (
            f"month {m} is over its budget"
            for m in range(self.months)
            if self.usd_of_month(m) > budget * (1 + MILLIONTH)
        )


def _request_usd(tiers: list[dict[str, Any]], w: dict[str, Any], b: dict[str, Any]) -> float:
    """All its tokens at the price of the tier that its prompt falls into; prefixes at the provider's cached price."""
    tier = tiers[0]
    for other in sorted(tiers, key=lambda t: t["above_input_tokens"]):
        if b["input_tokens"] > other["above_input_tokens"] or other["above_input_tokens"] == 0:
            tier = other
    found = w["prefix_hit_frac"] * min(w["shared_prefix_tokens"], b["input_tokens"])
    cached = tier.get("cached_input_usd_per_1m")
    usd = (b["input_tokens"] - found) * tier["input_usd_per_1m"] + b["output_tokens"] * tier["output_usd_per_1m"]
    return (usd + found * (tier["input_usd_per_1m"] if cached is None else cached)) / 1e6


def _most_load(d: dict[str, Any], n: int, scv: float) -> float:
    """The mean load of each of n replicas behind their router that TTFT allows (docs/evidence/verification.md)."""
    lone, routing = d["most_load_frac"], d["routing"]
    if routing is None or lone >= 1 or not n:
        return lone
    s2, gamma = routing["prompt_share_frac"], routing["exponent"]
    limits = [(1 - (1 - s2**0.5 * lone) / n**gamma) / s2**0.5]
    c = scv / n if gamma else scv
    if c > 2:
        limits.append(c * (routing["burst_room_frac"] * math.gamma(1 + 1 / c)) ** c / s2)
    return min(1.0, 0.95 * min(limits))


def _add(total: list[int], counts: list[int], times: int) -> None:
    for t, n in enumerate(counts):
        total[t] += n * times
