"""What follows from the case alone, or from one entry of the plan: time, demand, prices and what a replica is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from planner.case import Case, Workload
from planner.catalog import HourlyPrice, SpotPrice
from planner.plan import DeploymentRecord, FleetLine, Plan, SlotRecord, WorkloadPlan
from planner.replica import Replica, replica_for

MONTH_HOURS = 730.0
QUARTER_MONTHS = 3
TERM_MONTHS = {"reserved-1y": 12, "reserved-3y": 36}
REL = 1e-6
"""figures may differ by a millionth"""
BySlot = Sequence[float]


def near(a: float, b: float, of: float = 1.0) -> bool:
    """Equal but for rounding; `of` is the size of what was added or subtracted to get them."""
    return math.isclose(a, b, rel_tol=REL, abs_tol=1e-9 * of)


def differs(what: str, claimed: float | None, true: float | None, of: float = 1.0) -> Iterator[str]:
    """The sentence about a figure that is not so."""
    if claimed is None or true is None:
        if claimed is not true:
            yield f"{what} is {true}, not {claimed}"
    elif not near(claimed, true, of):
        yield f"{what} is {true:.10g}, not {claimed:.10g}"


def is_not(what: str, claimed: object, true: object) -> Iterator[str]:
    """The same for names and words."""
    if claimed != true:
        yield f"{what} is {true}, not {claimed}"


def deviations(percentile: float) -> float:
    """Standard deviations of a normal distribution up to a percentile, at least none."""
    return max(0.0, NormalDist().inv_cdf(percentile))


def hours_of_slot(s: SlotRecord) -> float:
    """An hour of a weekday stands for that hour of five days in seven of a month."""
    return {"weekday": 5, "weekend": 2}[s.day] / 7 * MONTH_HOURS / 24


def replica_of(case: Case, w: Workload, d: DeploymentRecord) -> Replica:
    """What one replica of a deployment does for a workload, asked anew."""
    return replica_for(case, w, d.model, d.quantization, case.offers[d.offer].gpu, d.gpus_per_replica)


def key_of(d: DeploymentRecord) -> str:
    return f"{d.model}/{d.quantization}/{d.gpus_per_replica}x/{d.offer}"


def price_of(case: Case, line: FleetLine) -> HourlyPrice | SpotPrice | None:
    """What the case charges for an instance bought in this way."""
    prices = case.offers[line.offer].prices
    ways = {
        "on-demand": prices.on_demand,
        "spot": prices.spot,
        "reserved-1y": prices.reserved_1y,
        "reserved-3y": prices.reserved_3y,
    }
    return ways.get(line.purchase)


def cached_tokens(w: Workload, input_tokens: float) -> float:
    return w.prefix_hit_frac * min(w.shared_prefix_tokens, input_tokens)


def request_usd(case: Case, w: Workload, api: str) -> list[float]:
    """What one request of each length costs at an API: its input decides the tier of all its tokens."""
    prices = []
    for b in w.buckets:
        tiers = sorted(case.apis[api].tiers, key=lambda t: t.above_input_tokens)
        tier = [t for t in tiers if t.above_input_tokens == 0 or t.above_input_tokens < b.input_tokens][-1]
        found = tier.cached_input_usd_per_1m
        cached, usual = cached_tokens(w, b.input_tokens), tier.input_usd_per_1m
        usd = (b.input_tokens - cached) * usual + cached * (usual if found is None else found)
        prices.append((usd + b.output_tokens * tier.output_usd_per_1m) / 1e6)
    return prices


@dataclass(frozen=True, eq=False)
class Facts:
    """A plan whose names and lengths fit its case."""

    plan: Plan

    @property
    def case(self) -> Case:
        return self.plan.case

    @cached_property
    def workloads(self) -> list[tuple[Workload, WorkloadPlan]]:
        return list(zip(self.case.workloads, self.plan.workloads, strict=True))

    @cached_property
    def months(self) -> int:
        return len({s.month for s in self.plan.slots})

    def a_month(self, per_hour: BySlot) -> float:
        """What an hourly amount [slot] comes to in a month, on average over the months."""
        return sum(s.hours_per_month * x for s, x in zip(self.plan.slots, per_hour, strict=True)) / self.months

    def rates_rps(self, w: Workload) -> list[float]:
        """Requests a second [slot]."""
        by_day = {"weekday": w.weekday_rps, "weekend": w.weekend_rps}
        return [by_day[s.day][s.hour] * (1 + w.growth_per_month_frac) ** s.month for s in self.plan.slots]

    def requests_per_month(self, w: Workload) -> float:
        return 3600 * self.a_month(self.rates_rps(w))

    def tokens_per_month(self, w: Workload) -> float:
        each = sum(b.share_frac * (b.input_tokens + b.output_tokens) for b in w.buckets)
        return self.requests_per_month(w) * each

    def sent_to_api(self, w: Workload, served: WorkloadPlan) -> list[tuple[float, ...]]:
        """Requests a second [slot][bucket]."""
        flows = {flow.slot: flow.requests_per_s for flow in served.api_flows}
        return [flows.get(t, (0.0,) * len(w.buckets)) for t in range(len(self.plan.slots))]

    def kept(self, w: Workload, served: WorkloadPlan) -> list[list[float]]:
        """Requests a second that stay on the GPUs [slot][bucket]."""
        return [
            [max(0.0, rate * b.share_frac - api) for b, api in zip(w.buckets, sent, strict=True)]
            for rate, sent in zip(self.rates_rps(w), self.sent_to_api(w, served), strict=True)
        ]

    def api_usd_per_h(self, w: Workload, served: WorkloadPlan) -> list[float]:
        """[slot]"""
        if served.api is None:
            return [0.0] * len(self.plan.slots)
        usd = request_usd(self.case, w, served.api)
        return [3600 * sum(r * u for r, u in zip(s, usd, strict=True)) for s in self.sent_to_api(w, served)]
