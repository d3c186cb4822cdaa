"""Caps on what vendors are paid, in every quarter and scenario of a horizon: from the demand file to the checker."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import planner
from planner.checker import check_plan
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.reports.horizon import horizon_document
from planner.reports.text import as_text

TEXT = """\
starts: 2027-01-01
horizon: 2 quarters
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 720k, shape: flat, variation: 0%, burstiness: 1}
    tokens: {input: 900, output: 180}
scenarios:
  - {name: low, probability: 50%}
  - {name: high, probability: 50%, changes: {workloads.chat.steps: [{from: 2027-04-01, times: 2}]}}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y], max_deployments: 1}
baseline: openai/gpt-4o-mini
policy:
  max_instances: {aws/g6e.12xlarge: 0, aws/g6e.48xlarge: 0}
"""
HOURS = 730.0


@cache
def planned(cap: str = "") -> HorizonPlan:
    text = TEXT + (f"  vendors: {{max_usd_per_month: {cap}}}\n" if cap else "")
    return planner.plan_fleet(planner.case_from_text(text), planner.Options(gap_frac=0.1))


def paid_aws(horizon: HorizonPlan) -> list[float]:
    """The most expensive month of each quarter's plan: what is committed to, and instances by the hour."""
    most = []
    for q in horizon.quarters:
        committed = HOURS * sum(h.instances * h.usd_per_h for h in q.plan.case.held or ())
        months = dict.fromkeys((s.month for s in q.plan.slots), 0.0)
        for line in q.plan.fleet:
            n = line.instances_by_slot
            for t, s in enumerate(q.plan.slots if line.purchase == "on-demand" else ()):
                hours = (5 if s.day == "weekday" else 2) / 7 * HOURS / 24
                started = max(0, n[t] - (n[t - 1] if s.hour else n[t + 23])) * q.plan.case.start.instance_s / 3600
                months[s.month] += hours * line.usd_per_h * (n[t] + started)
        most.append(committed + max(months.values()))
    return most


def test_every_quarter_of_every_scenario_keeps_the_cap() -> None:
    free = planned()
    before = paid_aws(free)
    assert max(before) > 1500, before
    capped = planned("{aws: 1500}")
    assert check_plan(capped.as_json()) == []
    assert max(paid_aws(capped)) <= 1500 + 1e-6
    assert max(free.bound_usd, capped.bound_usd) <= capped.counted_usd
    assert f"aws is paid at most ${max(paid_aws(capped)):,.0f} in a month (quarter" in as_text(horizon_document(capped))


def lowered_everywhere(data: Any) -> None:
    """The cap, so that what is signed is more than it."""
    for case in (data["case"], *(q["plan"]["case"] for q in data["quarters"])):
        case["limits"]["vendor_cap_usd_per_month"] = {"provider aws": 500.0}


def test_what_is_signed_beyond_a_cap_is_refused() -> None:
    free = planned()
    assert sum(c.instances for c in free.signed_now)
    data = json.loads(free.to_json())
    lowered_everywhere(data)
    words = "commitments to the provider aws cost $"
    assert any(words in problem and "$500.00 allowed" in problem for problem in check_plan(data))
