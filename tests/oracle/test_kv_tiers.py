"""Tiers of KV cache against the whole truth: every choice of caching with every deployment, counted one by one."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import planner
from planner.candidates.candidate import Candidate
from planner.candidates.pools import PoolSpec, groups_alone
from planner.candidates.screen import Screen
from planner.case.case import Case, kinds_of
from planner.case.slots import slots_of
from planner.optimization.formulate import pool_of
from planner.plan.plan import Plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

DEMAND = """
workloads:
  - name: agent
    models: [llama-3.1-8b]
    forecast: {{sessions_per_day: {sessions}k, shape: {shape}}}
    sessions:
      turns: {{p50: 12, p95: 40}}
      first_prompt: {{p50: {first}k, p95: {long}k}}
      appended: {{p50: 200, p95: 1k}}
      answers: {{p50: 150, p95: 600}}
      waits: {{tools: {{p50: 10s, p95: 1min}}, people: {{p50: 3min, p95: 30min}}, people_share: 20%}}
      longest: {{tokens: 65536, then: compact}}
    caching: {{shared_prefix_tokens: 2k, prefix_hit_rate: 100%, kv_tiers: [host, disk]}}
    slo: {{ttft_p95: 3s, tpot_p95: 60ms}}
    quality: {{max_loss: 2%}}
    api: forbidden
menu: {{providers: [aws], regions: [us-east-1], gpus: [h100], quantizations: [fp8], purchase: [on-demand],
       max_deployments: 1}}
policy: {{routing: prefix-aware, kv_disk: {{size: {disk}, read_gb_per_s: 12}}}}
baseline: anthropic/claude-sonnet-4-6
"""
CASES = (
    (5, "flat", 6, "2TB"),
    (40, "business-hours", 6, "2TB"),
    (60, "flat", 20, "500GB"),
    (60, "business-hours", 20, "8TB"),
)


@cache
def case_of(sessions: int, shape: str, first: int, disk: str) -> Case:
    return planner.case_from_text(DEMAND.format(sessions=sessions, shape=shape, first=first, long=2 * first, disk=disk))


@cache
def plan_of(which: int) -> Plan:
    return fleet_plan(case_of(*CASES[which]), planner.Options(gap_frac=0.0))


@cache
def least_by_option(which: int) -> dict[str, float]:
    """What a month costs at least with each choice of caching."""
    case = case_of(*CASES[which])
    groups = groups_alone(case)
    verdicts = Screen(case, groups, frozenset(), lambda: None, look_at=None).verdicts()
    least: dict[str, float] = {}
    for group in groups:
        each = [_usd(case, group, c) for c in verdicts[group.key].accepted]
        least[group.caching_name] = min(each, default=math.inf)
    return least


def _usd(case: Case, group: PoolSpec, c: Candidate) -> float:
    """A month of one deployment on demand: replicas one by one until they carry an hour, and whole boxes for them."""
    slots = slots_of(case)
    pool = pool_of(case, group, (c,), slots)
    (d,) = pool.deployments
    price = case.offers[c.offer_key].prices.on_demand
    assert price is not None
    in_a_box, months, boxes = case.offers[c.offer_key].gpus // d.gpus_per_replica, slots[-1].month + 1, []
    for t in range(len(slots)):
        load, n = float(pool.rate_rps[t] @ d.seconds_per_request), 1
        while float(d.staffing.carried_load(np.full(len(slots), n))[t]) < load * (1 - 1e-9):
            n += 1
        boxes.append(math.ceil(n / in_a_box))
    total = 0.0
    for t, slot in enumerate(slots):
        day = [other for other, s in enumerate(slots) if (s.month, s.day) == (slot.month, slot.day)]
        started = max(0, boxes[t] - boxes[day[day.index(t) - 1]]) * case.start.instance_s / 3600
        usd_per_h = (boxes[t] + started) * price.usd_per_h + pool.fixed_usd_per_h[t]
        total += slot.hours_per_month / months * float(usd_per_h)
    return total


@for_each("which", range(len(CASES)))
def test_the_plan_is_the_best_of_every_tier_and_deployment(which: int) -> None:
    plan, least = plan_of(which), least_by_option(which)
    assert plan.cost_usd_per_month == pytest.approx(min(least.values()), rel=1e-6)
    assert least[plan.workloads[0].caching] == pytest.approx(min(least.values()), rel=1e-6)
    assert plan.bound_usd_per_month <= min(least.values()) * (1 + 1e-9)


def test_tiers_decide() -> None:
    """Otherwise agreement would say little: memory of the box makes some plans cheaper, and disks others still."""
    worth: dict[str, int] = {"host": 0, "disk": 0}
    for which in range(len(CASES)):
        least = least_by_option(which)
        with_host = [usd for option, usd in least.items() if "disk" not in kinds_of(option)]
        without = [usd for option, usd in least.items() if not kinds_of(option) & {"host", "disk"}]
        worth["host"] += min(with_host) < 0.99 * min(without)
        worth["disk"] += min(least.values()) < 0.99 * min(with_host)
    assert worth["host"] >= 2
    assert worth["disk"] >= 1
