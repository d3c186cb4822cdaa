"""Small plans that use every lever: what several tests look at, each planned once."""

from __future__ import annotations

from functools import cache

import planner
from planner.plan.plan import Plan
from solvers.search.fleet_solution import Options
from tests.support.shared_plans import plan_of

TOGETHER = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 200k, growth_per_month: 3%}
    tokens: {input: 900, output: 150}
    tenancy: shared
    caching: {shared_prefix_tokens: 500, prefix_hit_rate: 60%, semantic_hit_rate: 30%}
    spot: {critical_share: 70%}
    quality: {max_loss: 2%}
    api: forbidden
  - name: tuned
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 150k, shape: consumer}
    tokens: {buckets: [{input: 400, output: 100, share: 60%}, {input: 2000, output: 200, share: 40%}]}
    tenancy: shared
    adapter: 100MB
    spot: {critical_share: 60%}
    quality: {max_loss: 2%}
    api: forbidden
menu: {gpus: [l4], quantizations: [fp8], purchase: [on-demand, spot]}
policy:
  tenancy: {max_share: 80%, correlation: 0.3}
  startup: 5m
  max_gpu_types: 1
  cache_costs: {tier_usd_per_month: 50, vector_store_usd_per_month: 10}
prices: {aws/g6.xlarge@us-east-1: {spot: $0.6/h}}
catalog: {offers: {aws/g6.xlarge@us-east-1: {spot_zones: 2}}}
baseline: openai/gpt-4o-mini
"""
"""two workloads on the same replicas, one with an adapter, one behind caches; spot in two zones"""

MIXED = """
workloads:
  - name: documents
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 4M}
    tokens: {buckets: [{input: 300, output: 100, share: 99.98%}, {input: 110k, output: 500, share: 0.02%}]}
    slo: {ttft_p50: 90s, tpot_p95: 60ms}
    quality: {max_loss: 2%}
    spot: {critical_share: 40%}
menu: {gpus: [l4], quantizations: [fp8], purchase: [on-demand, spot], apis: [openai/gpt-4o]}
prices: {aws/g6.xlarge@us-east-1: {on_demand: $0.15/h, spot: $0.06/h}}
policy: {min_replicas: 1}
baseline: openai/gpt-4o
"""
"""most requests are short; the cheap deployment has no room for the few long ones"""

WAITING = """
workloads:
  - name: night
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 120k}
    tokens: {buckets: [{input: 400, output: 100, share: 60%}, {input: 2000, output: 200, share: 40%}]}
    deadline: 2h
    quality: {max_loss: 2%}
menu: {gpus: [l4], quantizations: [fp8], purchase: [on-demand], apis: [own/mini]}
policy: {max_gpus: {l4: 1}, min_replicas: 1}
catalog:
  apis:
    own/mini:
      provider: own
      model: mini
      tiers: [{input_usd_per_1m: 0.15, output_usd_per_1m: 0.6}]
      batch: {turnaround_h: 2, tiers: [{input_usd_per_1m: 0.075, output_usd_per_1m: 0.3}]}
baseline: own/mini
"""
"""work that may wait for two hours, and an API that takes it at half its price"""

SHEDDING = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 500k}
    tokens: {buckets: [{input: 400, output: 100, share: 60%}, {input: 2000, output: 200, share: 40%}]}
    quality: {max_loss: 2%}
    shed: {priority: low}
    api: forbidden
menu: {gpus: [l4], quantizations: [fp8], purchase: [on-demand, reserved-1y-upfront]}
prices: {aws/g6.xlarge@us-east-1: {reserved_1y_upfront: {upfront: $2500, per_hour: $0.05/h}}}
policy: {max_gpus: {l4: 6}}
baseline: openai/gpt-4o-mini
"""
"""fewer GPUs than the demand needs, and commitments that are paid up front"""

DEMANDS = {"together": TOGETHER, "mixed": MIXED, "waiting": WAITING, "shedding": SHEDDING}
ROUGHLY = Options(gap_frac=0.3, node_limit=200)


@cache
def lever_plan(name: str) -> Plan:
    """Checked, and good enough: how near it is to the optimum is for other tests."""
    return plan_of(planner.case_from_text(DEMANDS[name]), ROUGHLY)
