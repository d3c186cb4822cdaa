"""A deployment that is too slow for some lengths serves the others, and an API answers the rest."""

from __future__ import annotations

import pytest

import planner

ONE_BOX = """\
catalog:
  offers:
    colo/l4-1x@home:
      provider: colo
      instance: l4-1x
      region: home
      gpu: l4
      gpus: 1
      prices: {on_demand: {usd_per_h: 0.80, source: internal rate card, date: "2026-09-01"}}
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 1M, shape: flat}
    tokens:
      buckets:
        - {share: 95%, input: 600, output: 150}
        - {share: 5%, input: 60000, output: 300}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
menu: {providers: [colo], regions: [home], gpus: [l4], quantizations: [fp8], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
"""one kind of box, which no other can be mixed with: 60,000 tokens take too long on it"""


def test_short_requests_stay_though_nothing_serves_the_long_ones() -> None:
    """All of it went to the API for $19,162, which was called optimal: such a deployment needed another to be mixed
    with."""
    plan = planner.plan_fleet(planner.case_from_text(ONE_BOX))
    (pool,) = plan.pools
    (deployment,) = pool.deployments
    assert deployment.deployment.seconds_per_request[1] is None
    (chat,) = plan.workloads
    assert chat.api_share_frac == pytest.approx(0.05)
    api_alone = next(o.cost_usd_per_month for o in plan.options if o.gpu is None)
    assert api_alone is not None
    long_ones = 0.05 * 1e6 * 730 / 24 * (60_000 * 0.15 + 300 * 0.60) / 1e6
    gpus = max(deployment.replicas_by_slot) * 0.80 * 730
    assert plan.cost_usd_per_month == pytest.approx(long_ones + gpus)
    assert plan.cost_usd_per_month < 0.9 * api_alone
    assert [o.chosen for o in plan.options if o.gpu == "l4"] == [True]


def test_what_nothing_serves_is_shed() -> None:
    shedding = ONE_BOX.replace("    slo:", "    api: forbidden\n    shed: {priority: normal}\n    slo:")
    plan = planner.plan_fleet(planner.case_from_text(shedding))
    (chat,) = plan.workloads
    assert (chat.api_share_frac, chat.shed_share_frac) == (0, pytest.approx(0.05))
    assert [(o.gpu, o.chosen) for o in plan.options] == [("l4", True)]
