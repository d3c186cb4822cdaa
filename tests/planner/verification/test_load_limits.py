"""The load that is planned with, served request by request."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")

import planner
from planner.candidates.pools import groups_alone
from planner.candidates.replica import Replica
from planner.candidates.step_budget import replica_for
from planner.catalog.variant import Variant
from planner.verification import engine, steps
from planner.verification.arrivals import drawn_stream
from planner.verification.step_times import step_times

pytestmark = pytest.mark.slow

HURRIED = """
workloads:
  - name: w
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 1M, shape: flat, burstiness: 1.5, variation: 0%}
    tokens: {input: {p50: 2165, p95: 12256}, output: {p50: 346, p95: 1039}, longest: 64k}
    slo: {ttft_p95: 2537ms, tpot_p95: 70ms}
    quality: {max_loss: 5%}
menu: {gpus: [l4], quantizations: [fp8]}
baseline: openai/gpt-4o
"""
"""a lone prompt of the 95th percentile takes 2054 ms: 3 of 100 requests are late whatever the load"""
BUDGET, HOURS = 8192, 80


def in_time(replica: Replica, replicas: int, load: float) -> float:
    """Share of requests that get their first token in time."""
    w = replica.traffic.members[0]
    rate = replicas * load / float(replica.traffic.shares @ replica.seconds_per_request)
    stream = drawn_stream(w, np.full(HOURS, rate), np.ones(60 * HOURS), range(HOURS), np.random.default_rng(1))
    longest = float((stream.prompt + stream.output).max())
    sequences = int(1.5 * replica.batch)
    times = step_times(replica.machine, sequences, BUDGET, longest, 0.0)
    requests = steps.Requests(stream.arrival_s, stream.prompt, stream.found, stream.output, stream.critical)
    capacity = engine.Capacity(np.zeros(1), np.array([replicas]), np.zeros(1, dtype=np.int64))
    outcome = engine.serve(requests, capacity, times, sequences, BUDGET, engine.LEAST_REQUESTS, 1)
    return float(np.mean(outcome.first_s - requests.arrival_s <= w.ttft.seconds))


@pytest.mark.parametrize("replicas", [1])
def test_prompts_that_are_late_by_themselves_leave_less_load_to_the_others(replicas: int) -> None:
    case = planner.case_from_text(HURRIED)
    replica = replica_for(case, groups_alone(case)[0].traffic, Variant("llama-3.1-8b", "fp8", "l4", 1))
    load = float(replica.routing.most_load(replica.max_utilization, 1.5, np.array(replicas)))
    assert in_time(replica, replicas, load) > 0.95
    assert in_time(replica, replicas, load + 0.2) < 0.945
    assert in_time(replica, replicas, load + 0.4) < 0.92
