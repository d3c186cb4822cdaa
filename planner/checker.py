"""The independent check: does this plan hold, and are its figures true? It reads only the plan's JSON.

It shares no code with the optimizer (problems/, solvers/): rates, staffing, packing, limits and money are worked
out again from the case with plain arithmetic. What a replica can do comes from the performance model, asked anew.
An empty list means that the plan holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from planner.candidates import lengths_of
from planner.case import Case, Workload, case_from_json
from planner.lengths import must_hold
from planner.performance.latency import Machine
from planner.performance.throughput import Limits, throughput

HOURS = 730.0
REL = 1e-6
"""figures may differ by a millionth"""


def check_plan(plan: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a plan, in words."""
    return [*_Check(plan).broken()]


def near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=REL, abs_tol=1e-4)


class _Check:
    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.case: Case = case_from_json(plan["case"])
        self.slots = plan["slots"]
        self.months = max(s["month"] for s in self.slots) + 1
        self.gpus_used: dict[str, list[int]] = {}
        self.firm_used: dict[str, list[int]] = {}
        self.api_usd_by_slot = [0.0] * len(self.slots)

    def broken(self) -> Iterator[str]:
        if self.plan["case_hash"] != self.case.hash():
            yield "the case inside is not the one that was planned (its hash differs)"
        yield from self.slots_are_the_quarter()
        if [w["name"] for w in self.plan["workloads"]] != [w.name for w in self.case.workloads]:
            yield "the plan does not serve the workloads of the case, one by one and in order"
            return
        for workload, served in zip(self.case.workloads, self.plan["workloads"], strict=True):
            for problem in self.workload_is_served(workload, served):
                yield f"{workload.name}: {problem}"
        yield from self.gpus_are_bought()
        yield from self.limits_hold()
        yield from self.money_adds_up()
        yield from self.claims_are_honest()

    # -- time -------------------------------------------------------------------------------------------------

    def slots_are_the_quarter(self) -> Iterator[str]:
        grows = any(w.growth_per_month_frac for w in self.case.workloads)
        seen = [(s["month"], s["day"], s["hour"]) for s in self.slots]
        expected = [(m, d, h) for m in range(3 if grows else 1) for d in ("weekday", "weekend") for h in range(24)]
        if seen != expected:
            yield "the slots are not a weekday and a weekend day of each month"
        for s in self.slots:
            days = {"weekday": 5, "weekend": 2}[s["day"]] / 7 * HOURS / 24
            if not near(s["hours_per_month"], days):
                yield f"slot {s['label']} stands for {s['hours_per_month']} h, not {days}"

    def rate_rps(self, w: Workload, t: int) -> float:
        s = self.slots[t]
        by_hour = w.weekday_rps if s["day"] == "weekday" else w.weekend_rps
        return by_hour[s["hour"]] * (1 + w.growth_per_month_frac) ** s["month"]

    # -- serving ----------------------------------------------------------------------------------------------

    def workload_is_served(self, w: Workload, served: dict[str, Any]) -> Iterator[str]:
        to_api = {flow["slot"]: flow["requests_per_s"] for flow in served["api_flows"]}
        if to_api:
            yield from self.api_is_allowed(w, served)
        deployment = served.get("deployment")
        if deployment is not None:
            yield from self.deployment_holds(w, deployment)
        for t in range(len(self.slots)):
            sent = to_api.get(t, [0.0] * len(w.buckets))
            rates = [self.rate_rps(w, t) * b.share_frac for b in w.buckets]
            if any(s < -1e-9 or s > r * (1 + REL) + 1e-9 for s, r in zip(sent, rates, strict=True)):
                yield f"slot {t}: more or less than the demand is sent to the API"
            kept = [max(0.0, r - s) for r, s in zip(rates, sent, strict=True)]
            self.pay_api(w, served, t, sent)
            yield from self.replicas_are_enough(w, served, t, kept)

    def api_is_allowed(self, w: Workload, served: dict[str, Any]) -> Iterator[str]:
        if not w.api_allowed:
            yield "requests go to an API although that is forbidden"
        if served.get("api") not in self.case.menu_apis:
            yield f"requests go to the API {served.get('api')}, which is not on the menu"

    def pay_api(self, w: Workload, served: dict[str, Any], t: int, sent: list[float]) -> None:
        if not any(sent):
            return
        api = self.case.apis[served["api"]]
        for rate, b in zip(sent, w.buckets, strict=True):
            usd = api.request_usd(b.input_tokens, w.cached_tokens(b.input_tokens), b.output_tokens)
            self.api_usd_by_slot[t] += 3600 * rate * usd

    def deployment_holds(self, w: Workload, d: dict[str, Any]) -> Iterator[str]:
        """Quality, hardware, memory, TPOT and TTFT, and that a replica is as fast as the plan says."""
        case = self.case
        model, scheme, offer = case.models[d["model"]], case.quantizations[d["quantization"]], case.offers[d["offer"]]
        gpu = case.gpus[offer.gpu]
        choice = next((m for m in w.models if m.model == d["model"]), None)
        if choice is None:
            yield f"{d['model']} is not one of its models"
            return
        loss = choice.quality_loss_frac + scheme.loss_for(model, d["quantization"]).loss_frac
        if loss > w.max_quality_loss_frac + 1e-12:
            yield f"quality loss {loss:.2%} exceeds {w.max_quality_loss_frac:.2%}"
        if scheme.needs != "none" and scheme.needs not in gpu.dense_tflops:
            yield f"{offer.gpu} has no native {scheme.needs}"
        if offer.gpus % d["gpus_per_replica"]:
            yield f"replicas of {d['gpus_per_replica']} GPUs do not pack into boxes of {offer.gpus}"
        machine = Machine(model, scheme, gpu, d["gpus_per_replica"], case.efficiency[offer.gpu], case.engine)
        z = max(0.0, NormalDist().inv_cdf(w.tpot.percentile))
        estimate = throughput(machine, lengths_of(w), Limits(tpot_s=w.tpot.seconds, z=z))
        if not estimate.requests_per_s.all():
            yield "a replica cannot hold memory and TPOT for every request length"
            return
        if not np.allclose(1 / estimate.requests_per_s, d["seconds_per_request"], rtol=1e-9):
            yield "a replica is not as fast as the plan says"
        for late, seconds in zip(must_hold(w.buckets, w.ttft.percentile), estimate.ttft_s, strict=True):
            if late and seconds > w.ttft.seconds * (1 + REL):
                yield f"TTFT {seconds:.3f} s exceeds {w.ttft.seconds} s"
        load = [b.share_frac * u for b, u in zip(w.buckets, d["seconds_per_request"], strict=True)]
        batch = sum(x * n for x, n in zip(load, estimate.in_flight, strict=True)) / sum(load)
        if not near(batch, d["requests_in_flight"]):
            yield f"requests in flight are {batch:.3f}, not {d['requests_in_flight']:.3f}"

    def replicas_are_enough(self, w: Workload, served: dict[str, Any], t: int, kept: list[float]) -> Iterator[str]:
        d = served.get("deployment")
        replicas, firm = served["replicas_by_slot"][t], served["firm_replicas_by_slot"][t]
        if d is None:
            if replicas or sum(kept) > 1e-9 + REL * self.rate_rps(w, t):
                yield f"slot {t}: nothing serves the requests that are not sent to the API"
            return
        load = sum(rate * u for rate, u in zip(kept, d["seconds_per_request"], strict=True))
        needed = self.staffed(w, load, d["requests_in_flight"])
        if replicas < needed:
            yield f"slot {t}: {replicas} replicas where {needed} are needed"
        critical = self.staffed(w, load * w.critical_share_frac, d["requests_in_flight"])
        spot_works = "spot" in self.case.purchase and w.critical_share_frac < 1
        if not 0 <= firm <= replicas or firm < (min(critical, replicas) if spot_works else replicas):
            yield f"slot {t}: {firm} firm replicas, but the critical load needs {critical}"
        size = d["gpus_per_replica"]
        for used, count in ((self.gpus_used, replicas), (self.firm_used, firm)):
            used.setdefault(d["offer"], [0] * len(self.slots))[t] += count * size

    def staffed(self, w: Workload, load: float, batch: float) -> int:
        """ceil(R + z sqrt(R (1 + c2) / (2 B) + (v R)^2)), at least the minimum; a hair of slack for rounding."""
        if load <= 1e-9:
            return 0
        z = max(0.0, NormalDist().inv_cdf(w.ttft.percentile))
        margin = z * math.sqrt(load * (1 + w.arrival_scv) / (2 * batch) + (w.rate_cv * load) ** 2)
        return max(self.case.limits.min_replicas, math.ceil(load + margin - 1e-6))

    # -- buying -----------------------------------------------------------------------------------------------

    def bought(self, offer: str, t: int, firm_only: bool = False) -> int:
        """GPUs of an offer that are paid for in a slot."""
        return sum(
            line["instances_by_slot"][t] * self.case.offers[offer].gpus
            for line in self.plan["fleet"]
            if line["offer"] == offer and not (firm_only and line["purchase"] == "spot")
        )

    def gpus_are_bought(self) -> Iterator[str]:
        for offer, used in self.gpus_used.items():
            for t, gpus in enumerate(used):
                if gpus > self.bought(offer, t):
                    yield f"slot {t}: {gpus} GPUs of {offer} in use, {self.bought(offer, t)} bought"
                if self.firm_used[offer][t] > self.bought(offer, t, firm_only=True):
                    yield f"slot {t}: too few GPUs of {offer} are safe from a spot reclaim"
        for line in self.plan["fleet"]:
            counts = line["instances_by_slot"]
            if line["purchase"] not in self.case.purchase:
                yield f"{line['purchase']} is not on the menu"
            if min(counts) < 0 or any(n != int(n) for n in counts):
                yield f"{line['offer']}: instances must be whole"
            if line["purchase"].startswith("reserved") and len(set(counts)) > 1:
                yield f"{line['offer']}: reserved instances must be held all the time"

    def limits_hold(self) -> Iterator[str]:
        limits = self.case.limits
        for t in range(len(self.slots)):
            by_gpu: dict[str, int] = {}
            for offer in {line["offer"] for line in self.plan["fleet"]}:
                entry = self.case.offers[offer]
                gpus = self.bought(offer, t)
                by_gpu[entry.gpu] = by_gpu.get(entry.gpu, 0) + gpus
                if gpus > limits.max_instances.get(offer, math.inf) * entry.gpus:
                    yield f"slot {t}: more than {limits.max_instances[offer]} instances of {offer}"
            for gpu, gpus in by_gpu.items():
                if gpus > limits.max_gpus.get(gpu, math.inf):
                    yield f"slot {t}: {gpus} GPUs of type {gpu}, {limits.max_gpus[gpu]} allowed"
        budget = limits.budget_usd_per_month
        for month in range(self.months):
            if budget is not None and self.month_usd(month) > budget * (1 + REL):
                yield f"month {month + 1} costs ${self.month_usd(month):,.2f}, the budget is ${budget:,.2f}"

    # -- money ------------------------------------------------------------------------------------------------

    def price(self, line: dict[str, Any]) -> float:
        """USD per hour of one instance, from the case."""
        prices = self.case.offers[line["offer"]].prices
        if line["purchase"] == "spot":
            return prices.spot.p50_usd_per_h if prices.spot else math.inf
        if line["purchase"] == "on-demand":
            return prices.on_demand.usd_per_h if prices.on_demand else math.inf
        held = prices.reserved().get(line["purchase"])
        return held.usd_per_h if held else math.inf

    def month_usd(self, month: int) -> float:
        usd = self.case.engineers_usd_per_month if any(w.get("deployment") for w in self.plan["workloads"]) else 0.0
        for t, s in enumerate(self.slots):
            if s["month"] == month:
                hourly = sum(line["instances_by_slot"][t] * self.price(line) for line in self.plan["fleet"])
                usd += s["hours_per_month"] * (hourly + self.api_usd_by_slot[t])
        return usd

    def money_adds_up(self) -> Iterator[str]:
        plan = self.plan
        cost = sum(self.month_usd(m) for m in range(self.months)) / self.months
        if not near(cost, plan["cost_usd_per_month"]):
            yield f"the plan costs ${cost:,.4f} a month, not ${plan['cost_usd_per_month']:,.4f}"
        if not near(sum(plan["costs"].values()), plan["cost_usd_per_month"]):
            yield "the parts of the cost do not add up"
        engineers = plan["costs"]["engineers_usd_per_month"]
        by_workload = sum(w["cost_usd_per_month"] for w in plan["workloads"])
        if not near(by_workload + engineers, plan["cost_usd_per_month"]):
            yield "the costs of the workloads do not add up"
        baseline, tokens = 0.0, 0.0
        api = self.case.apis[self.case.baseline]
        for w in self.case.workloads:
            seconds = sum(3600 * s["hours_per_month"] * self.rate_rps(w, t) for t, s in enumerate(self.slots))
            requests = seconds / self.months
            for b in w.buckets:
                usd = api.request_usd(b.input_tokens, w.cached_tokens(b.input_tokens), b.output_tokens)
                baseline += requests * b.share_frac * usd
                tokens += requests * b.share_frac * (b.input_tokens + b.output_tokens)
        if not near(baseline, plan["baseline"]["cost_usd_per_month"]):
            yield f"the baseline costs ${baseline:,.2f} a month, not ${plan['baseline']['cost_usd_per_month']:,.2f}"
        if not near(1 - cost / baseline, plan["baseline"]["savings_frac"]):
            yield "the saving is not baseline less cost"
        if not near(1e6 * cost / tokens, plan["usd_per_1m_tokens"]):
            yield "the cost per token is wrong"

    def claims_are_honest(self) -> Iterator[str]:
        cost, bound, gap = (self.plan[k] for k in ("cost_usd_per_month", "bound_usd_per_month", "gap_frac"))
        if not -REL * cost <= bound <= cost * (1 + REL):
            yield f"the bound {bound} lies outside 0 and the cost {cost}"
        if cost and not near(gap, max(0.0, (cost - bound) / cost)):
            yield "the gap is not (cost - bound) / cost"
        if self.plan["status"] == "optimal" and gap > 1e-5:
            yield f"it is called optimal with a gap of {gap:.3%}"
