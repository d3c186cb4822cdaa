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
HOURS = 80


def in_time(replica: Replica, replicas: int, load: float) -> float:
    """Share of requests that get their first token in time."""
    w = replica.traffic.members[0]
    rate = replicas * load / float(replica.traffic.shares @ replica.seconds_per_request)
    stream = drawn_stream(w, np.full(HOURS, rate), np.ones(60 * HOURS), range(HOURS), np.random.default_rng(1))
    longest = float((stream.prompt + stream.output).max())
    sequences = int(1.5 * replica.batch)
    budget = replica.machine.engine.chunk_tokens
    times = step_times(replica.machine, sequences, budget, longest, 0.0)
    requests = steps.Requests(stream.arrival_s, stream.prompt, stream.found, stream.output, stream.critical)
    capacity = engine.Capacity(np.zeros(1), np.array([replicas]), np.zeros(1, dtype=np.int64))
    outcome = engine.serve(requests, capacity, times, sequences, budget, engine.LEAST_REQUESTS, 1)
    return float(np.mean(outcome.first_s - requests.arrival_s <= w.ttft.seconds))


@pytest.fixture(scope="module")
def hurried() -> tuple[Replica, float]:
    """A lone replica, and the mean load up to which it is planned."""
    case = planner.case_from_text(HURRIED)
    replica = replica_for(case, groups_alone(case)[0].traffic, Variant("llama-3.1-8b", "fp8", "l4", 1))
    return replica, float(replica.routing.most_load(replica.max_utilization, 1.5, np.array(1)))


def test_prompts_that_are_late_by_themselves_leave_less_load_to_the_others(hurried: tuple[Replica, float]) -> None:
    replica, load = hurried
    assert in_time(replica, 1, load) > 0.94
    assert in_time(replica, 1, load + 0.2) < 0.935
    assert in_time(replica, 1, load + 0.4) < 0.92


@pytest.mark.xfail(
    strict=True, reason="94.2 to 94.5% are in time: docs/evidence/verification.md lists it among what is not safe yet"
)
def test_a_lone_replica_keeps_ttft_where_some_prompts_are_late_by_themselves(hurried: tuple[Replica, float]) -> None:
    assert in_time(hurried[0], 1, hurried[1]) > 0.95
