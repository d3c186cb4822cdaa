"""Plans with attention data parallel keep their promises where a rank has memory for a few long requests only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import planner
from planner.candidates.step_budget import FEWEST_OF_RANKS, replica_for
from planner.catalog.variant import Parallelism
from planner.checker import check_plan
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.plan.serve_commands import engine_settings
from planner.verification import serving
from tests.support.lever_plans import ROUGHLY
from tests.support.shared_plans import fleet_plan

LONG = """
workloads:
  - name: reports
    models: [glm-4.5]
    forecast: {requests_per_day: 60k, shape: flat}
    tokens: {input: {p50: 8000, p95: 30000}, output: {p50: 500, p95: 2000}}
    slo: {ttft_p95: 10s, tpot_p95: 120ms}
    api: forbidden
menu: {gpus: [h200], quantizations: [fp8], purchase: [on-demand], parallelism: [data], max_deployments: 1}
baseline: openai/gpt-4o
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return fleet_plan(planner.case_from_text(LONG), ROUGHLY)


def test_ranks_with_little_memory_keep_their_promises(plan: Plan) -> None:
    assert list(check_plan(plan.as_json())) == []
    (served,) = serving.verify_plan(plan, replace(serving.AS_PLANNED, days=1, seed=2)).workloads
    assert [p.what for p in served.promises if not p.kept] == []
    assert served.preempted_frac < 0.01


def test_a_rank_takes_prompts_in_larger_chunks_than_a_replica_that_splits_them(plan: Plan) -> None:
    (pool,) = plan.pools
    assert engine_settings(plan, pool, pool.deployments[0].deployment).batched_tokens >= FEWEST_OF_RANKS


@pytest.mark.parametrize(("way", "ranks"), [("data", 4), ("expert", 1)])
def test_the_memory_of_ranks_varies_as_that_of_small_replicas(plan: Plan, way: Parallelism, ranks: int) -> None:
    """What requests hold, weighted by their time in flight, in each of the ranks."""
    view, (pool,) = account_of(plan), plan.pools
    variant = replace(pool.deployments[0].deployment.variant, gpus_per_replica=4, parallelism=way)
    r = replica_for(plan.case, view.traffic(pool), variant)
    lengths, served = r.traffic.lengths, r.throughput
    weight = r.traffic.shares * (served.prefill_s + lengths.output_tokens * served.tpot_s) * r.serves
    held = lengths.input_tokens + lengths.output_tokens / 2
    mean = np.average(held, weights=weight)
    cv2 = np.average(held**2 * (1 + r.prompt_cv2_within), weights=weight) / mean**2 - 1
    bound = sum(s for s, why in zip(r.load_shares, served.bound_by, strict=True) if why == "KV memory")
    assert bound > 0
    assert r.batch / r.staffing_batch == pytest.approx(1 + ranks * bound * cv2)
