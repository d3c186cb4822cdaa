"""Replicas of a deployment stand on two instances, unless the demand file says otherwise."""

from __future__ import annotations

import copy
from functools import cache

import pytest

import planner
from planner.checker import check_plan
from planner.explanations.relaxations import Infeasible
from planner.plan.plan import Plan
from tests.support.places import ROOT
from tests.support.shared_plans import fleet_plan
from tests.support.tampering import rehashed

DEMAND = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 40k, shape: flat}
    tokens: {input: 600, output: 100}
    slo: {ttft_p95: 4s, tpot_p95: 100ms}
    api: forbidden
catalog:
  offers:
    colo/eight@home:
      provider: colo
      instance: eight
      region: home
      gpu: l40s
      gpus: 8
      prices: {on_demand: {usd_per_h: 8.0, source: rate card, date: "2026-09-01"}}
menu: {gpus: [l40s], quantizations: [fp16], regions: [home], providers: [colo], purchase: [on-demand]}
policy: {POLICY}
baseline: openai/gpt-4o-mini
"""


@cache
def planned(policy: str) -> Plan:
    return fleet_plan(planner.case_from_text(DEMAND.replace("POLICY", policy)))


@pytest.mark.parametrize(
    ("policy", "instances"),
    [("min_replicas: 2", 2), ("min_replicas: 2, spread: true", 2), ("min_replicas: 2, spread: false", 1)],
)
def test_two_replicas_take_two_instances_unless_they_may_share_one(policy: str, instances: int) -> None:
    plan = planned(policy)
    (deployment,) = plan.pools[0].deployments
    assert set(deployment.replicas_by_slot) == {2}
    assert set(plan.fleet[0].instances_by_slot) == {instances}
    assert plan.status == "optimal"


def test_a_lone_replica_needs_no_second_instance() -> None:
    plan = planned("min_replicas: 1")
    assert set(plan.fleet[0].instances_by_slot) == {1}
    assert plan.case.limits.spread is None


def test_the_rule_is_listed_where_it_is_assumed() -> None:
    def assumed(policy: str) -> list[str]:
        return [a.value for a in planned(policy).assumptions if a.key == "policy.spread"]

    assert assumed("min_replicas: 2") == ["true"]
    assert assumed("min_replicas: 1") == assumed("min_replicas: 2, spread: false") == []


def test_the_checker_refuses_replicas_on_one_instance() -> None:
    shared = copy.deepcopy(planned("min_replicas: 2, spread: false").as_json())
    assert not check_plan(shared)
    shared["case"]["limits"]["spread"] = True
    rehashed(shared)
    said = "1 x colo/eight@home cannot hold the replicas so that those of no deployment all stand on one instance"
    assert any(said in problem for problem in check_plan(shared))


def test_one_instance_alone_is_refused_by_the_name_of_the_rule() -> None:
    text = DEMAND.replace("POLICY", 'min_replicas: 2, max_instances: {"colo/eight@home": 1}')
    with pytest.raises(Infeasible) as refused:
        fleet_plan(planner.case_from_text(text))
    assert refused.value.proved
    assert {"policy.spread", "policy.min_replicas"} <= {remedy.limit for remedy in refused.value.remedies}
    assert "(policy.spread: false)" in str(refused.value)


ONE_SPOT_INSTANCE = """
workloads:
  - name: firm
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 1272k, shape: flat, variation: 0%, burstiness: 0.01}
    tokens: {input: 1000, output: 200}
    slo: {ttft_p95: 10s, tpot_p95: 100ms}
    api: forbidden
  - name: batch
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 240k, shape: flat, variation: 0%, burstiness: 0.01}
    tokens: {input: 1000, output: 200}
    slo: {ttft_p95: 10s, tpot_p95: 100ms}
    spot: {critical_share: 0%}
    api: forbidden
menu:
  {max_gpus_per_replica: 1, gpus: [a100-80gb], quantizations: [fp16], purchase: [on-demand, spot], providers: [colo]}
catalog:
  offers:
    colo/eight@home:
      provider: colo
      instance: eight
      region: home
      gpu: a100-80gb
      gpus: 8
      prices: {on_demand: {usd_per_h: 16}, spot: {p50_usd_per_h: SPOT, p95_usd_per_h: SPOT}}
profiles: [PROFILE]
policy: {min_replicas: 2, startup: 411s}
baseline: openai/gpt-4o
"""


@pytest.mark.parametrize(("spot_usd", "on_demand", "spot"), [("6", 2, 2), ("9", 3, 0)])
def test_one_spot_instance_does_not_hold_a_whole_deployment(spot_usd: str, on_demand: int, spot: int) -> None:
    """The other workload fills two instances that are not spot, so a third on spot would hold all that may be lost."""
    profile = str(ROOT / "examples" / "profiles" / "one-request-a-second.yaml")
    case = planner.case_from_text(ONE_SPOT_INSTANCE.replace("SPOT", spot_usd).replace("PROFILE", profile))
    plan = fleet_plan(case)
    bought = {line.purchase: set(line.instances_by_slot) for line in plan.fleet}
    assert bought == {way: {n} for way, n in (("on-demand", on_demand), ("spot", spot)) if n}
    assert check_plan(plan.as_json()) == []
    counts = [d.replicas_by_slot[0] for pool in plan.pools for d in pool.deployments]
    assert counts == [16, 3]
    if spot:
        lines = [
            line.model_copy(update={"instances_by_slot": (1,) * len(plan.slots)}) if line.purchase == "spot" else line
            for line in plan.fleet
        ]
        alone = plan.model_copy(update={"fleet": tuple(lines)}).as_json()
        assert any("the one spot colo/eight@home holds all replicas of a deployment" in x for x in check_plan(alone))
