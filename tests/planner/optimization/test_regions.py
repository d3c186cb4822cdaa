"""More places to run may only help: no bound exceeds what a plan costs that has fewer of them."""

from __future__ import annotations

import pytest

import planner
from planner.plan.plan import Plan

WEST, EAST = "us-west-2", "us-east-1"
EVEN, ODD = ", ".join(["3000", "0"] * 24), ", ".join(["0", "3000"] * 24)


def planned(regions: str) -> Plan:
    """One workload is at work in even hours and stays in the west, one in odd hours; instances start slowly."""
    return planner.plan_fleet(
        planner.case_from_text(f"""
workloads:
  - name: even
    models: [llama-3.1-8b]
    forecast: {{hourly: [{EVEN}]}}
    tokens: {{input: 300, output: 60}}
    quality: {{max_loss: 2%}}
    regions: [{WEST}]
    api: forbidden
  - name: odd
    models: [llama-3.1-8b]
    forecast: {{hourly: [{ODD}]}}
    tokens: {{input: 300, output: 60}}
    quality: {{max_loss: 2%}}
    regions: [{regions}]
    api: forbidden
menu: {{gpus: [l4], quantizations: [fp8], purchase: [on-demand], regions: [{WEST}, {EAST}], max_deployments: 1}}
policy: {{min_replicas: 1, startup: 55m}}
prices: {{aws/g6.xlarge@{EAST}: {{on_demand: $0.80/h}}}}
baseline: openai/gpt-4o-mini
""")
    )


@pytest.mark.smoke
@pytest.mark.parametrize("fewer", [WEST, EAST])
def test_a_region_more_never_makes_the_bound_exceed_the_plan_without_it(fewer: str) -> None:
    """In the west an instance that runs through is cheaper than one that is started for each, whatever the price."""
    narrow, wide = planned(fewer), planned(f"{WEST}, {EAST}")
    assert narrow.status == wide.status == "optimal"
    assert wide.bound_usd_per_month <= narrow.cost_usd_per_month * (1 + 1e-9)
    assert wide.cost_usd_per_month <= narrow.cost_usd_per_month * (1 + 1e-6)
