"""A small plan, and one behind a controller whose figures are made up, for tests of what shows and exports them."""

from __future__ import annotations

from functools import cache

import planner
from planner.case.controller import controllers
from planner.plan.operated import Attained, DeploymentOperated, Differing, Operation, Tuned
from planner.plan.plan import Plan
from tests.support.shared_plans import plan_of

CHAT = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 300k, shape: business-hours}
    tokens: {input: 800, output: 200}
    slo: {ttft_p95: 2s, tpot_p95: 100ms}
    api: forbidden
menu: {gpus: [l4], quantizations: [fp8], providers: [aws], regions: [us-east-1], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""


@cache
def small_plan() -> Plan:
    return plan_of(planner.case_from_text(CHAT))


def operated_plan(plan: Plan | None = None, kept: bool = True) -> Plan:
    """With 80% of the planned requests in flight, a replica more, and half as many again at most."""
    plan = plan or small_plan()
    controller = controllers()["keda"].model_copy(
        update={"target": 0.8, "buffer": 1, "most_ratio": 1.5, "more_lead_s": 300.0, "down_window_s": 600.0}
    )
    good = Attained(workload="chat", what="TTFT", target_s=2.0, percentile=0.95, within_frac=0.998, kept=True)
    bad = good.model_copy(update={"within_frac": 0.913, "kept": False})
    (pool,) = plan.pools
    (d,) = pool.deployments
    day = tuple(float(n) for n in d.replicas_by_slot[:24])
    operated = DeploymentOperated(
        pool=pool.key, deployment=d.deployment.key, target=40.0, fewest=2, most=8, start_s=340.0, mean_replicas=3.2,
        planned_mean_replicas=3.0, instance_h_per_month=2400.0, planned_instance_h_per_month=2200.0, load_frac=0.6,
        in_flight=20.0, usd_per_month=1100.0, planned_usd_per_month=1000.0, ups=30, downs=29, added=40, removed=39,
        worst_day=2, demand=tuple(0.8 * n for n in day), wanted=day, ready=day, billed=tuple(n + 0.1 for n in day),
    )  # fmt: skip
    more = Differing(
        differs="20% more on every day", usd_per_month=1.2e3, requests=10_000, attained=(good if kept else bad,)
    )
    operation = Operation(
        controller=controller, differs="", deployments=(operated,), api_usd_per_month=0.0,
        planned_api_usd_per_month=0.0, usd_per_month=plan.cost_usd_per_month + 100,
        planned_usd_per_month=plan.cost_usd_per_month, bound_usd_per_month=plan.bound_usd_per_month, attained=(good,),
        requests=10_000, beside=(good,),
        tuned=Tuned(
            forecast_error_frac=0.2, settings=168, seeds=(1, 2, 3), rounds=1,
            flow_usd_per_month=plan.cost_usd_per_month + 120, differing=(more,),
        ),
    )  # fmt: skip
    return plan.model_copy(update={"operation": operation})
