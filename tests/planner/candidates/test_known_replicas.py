"""Replicas that are known from another case are those that would be worked out for this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from planner.candidates.enumerate import enumerate_candidates
from planner.candidates.known_replicas import KnownReplicas
from planner.candidates.pools import groups_alone
from planner.candidates.replica import Replica
from planner.candidates.step_budget import KNOWN
from planner.candidates.traffic import NO_MATTER
from planner.case.case import Case, LatencyTarget, case_from_json
from planner.case.changes import multiplied, with_limits, with_workloads
from planner.case.demand.load import case_from_text
from planner.case.slots import slots_of
from planner.optimization.formulate import formulate
from tests.support.rows import for_each

CASE = """
workloads:
  - name: chat
    models: [llama-3.1-8b, qwen3-8b]
    forecast: {requests_per_day: 300k, growth_per_month: 5%}
    tokens: {input: {p50: 900, p95: 4000}, output: {p50: 150, p95: 600}}
    caching: {shared_prefix_tokens: 400, prefix_hit_rate: 60%}
  - name: nightly
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 200k}
    tokens: {input: 2000, output: 300}
    deadline: 8h
menu: {gpus: [l4, l40s], quantizations: [fp8, fp16], purchase: [on-demand, spot, reserved-1y]}
baseline: openai/gpt-4o-mini
"""
SESSIONS = """
workloads:
  - name: agent
    models: [llama-3.1-8b]
    forecast: {sessions_per_day: 2k}
    sessions:
      turns: {p50: 3, p95: 6}
      first_prompt: {p50: 2k, p95: 4k}
      appended: {p50: 300, p95: 600}
      answers: {p50: 100, p95: 200}
      waits: {tools: {p50: 9s, p95: 2min}, people: {p50: 2min, p95: 40min}, people_share: 15%}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
OTHER: dict[str, Any] = {
    "weekday_rps": tuple(float(3 + k) for k in range(24)),
    "weekend_rps": (0.25,) * 24,
    "growth_per_month_frac": 0.2,
    "month_factors": (1.0, 2.0, 3.0),
    "api_allowed": False,
    "api_wait_h": 24.0,
    "api_tier": "priority",
    "baseline": "openai/gpt-4o",
    "smaller_apis_forbidden": True,
    "shed_usd_per_request": 0.01,
}
MATTERS: dict[str, Callable[[Case], Case]] = {
    "rate_cv": with_workloads(lambda w: w.model_copy(update={"rate_cv": w.rate_cv + 0.1})),
    "bursts": with_workloads(lambda w: w.model_copy(update={"arrival_scv": 9.0})),
    "prefix": with_workloads(lambda w: w.model_copy(update={"prefix_hit_frac": 0.1})),
    "ttft": with_workloads(lambda w: w.model_copy(update={"ttft": LatencyTarget(seconds=0.4, percentile=0.99)})),
    "router": with_limits(routing="random"),
    "engine": lambda case: case.model_copy(
        update={"engine": case.engine.model_copy(update={"interruption_frac": 0.9})}
    ),
}


@pytest.fixture(scope="module")
def case() -> Case:
    return case_from_text(CASE)


def figures(case: Case) -> list[tuple[object, ...]]:
    """All that a plan takes from replicas, exactly."""
    fleet = formulate(case, enumerate_candidates(case), slots_of(case))
    return [
        (d.key, d.seconds_per_request.tobytes(), *(_exact(s) for s in (d.staffing, d.staffing_in_a_mix)))
        for pool in fleet.pools.values()
        for d in pool.deployments
    ]


def _exact(staffing: object) -> str:
    with np.printoptions(floatmode="unique", threshold=10**6):
        return repr(staffing)


def fresh(monkeypatch: pytest.MonkeyPatch, case: Case) -> list[tuple[object, ...]]:
    with monkeypatch.context() as patch:
        patch.setattr("planner.candidates.step_budget.KNOWN", KnownReplicas())
        return figures(case)


def test_all_that_makes_no_difference_is_tried() -> None:
    assert OTHER.keys() == NO_MATTER.keys()


@for_each("field", OTHER)
def test_what_makes_no_difference_makes_none(case: Case, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figures(case)
    changed = with_workloads(lambda w: w.model_copy(update={field: OTHER[field]}))(case)
    before = len(KNOWN._known)
    assert figures(changed) == fresh(monkeypatch, changed)
    assert len(KNOWN._known) == before, "nothing had to be worked out again"


@for_each("what", MATTERS)
def test_what_makes_a_difference_is_worked_out_again(case: Case, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = figures(case)
    changed = MATTERS[what](case)
    after = figures(changed)
    assert after == fresh(monkeypatch, changed) != before


def test_where_prompts_are_reused_it_matters_how_busy_replicas_are(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = case_from_text(SESSIONS)
    figures(sessions)
    before = len(KNOWN._known)
    figures(with_limits(spread=None)(sessions))
    assert len(KNOWN._known) == before, "nothing had to be worked out again"
    for change in (multiplied(3), with_limits(min_replicas=7)):
        changed = change(sessions)
        assert figures(changed) == fresh(monkeypatch, changed)
        assert len(KNOWN._known) > before
        before = len(KNOWN._known)


def test_what_is_read_again_is_known_and_shares_nothing_with_what_was_planned(case: Case) -> None:
    """The checker reads every plan anew: what it worked out for the last one holds, what the optimizer did does not."""
    planned = figures(case)
    first = case_from_json(case.as_json())
    known = figures(first)
    before = len(KNOWN._known)
    again = case_from_json(case.as_json())
    assert figures(again) == known == planned
    assert len(KNOWN._known) == before
    assert all(again.models[name] is first.models[name] is not case.models[name] for name in case.models)
    other = case.as_json()
    other["engine"]["interruption_frac"] = 0.9
    assert figures(case_from_json(other)) == figures(MATTERS["engine"](case)) != known


def test_a_known_replica_answers_for_the_traffic_that_is_asked_about(case: Case) -> None:
    many = multiplied(7)(case)
    enumerate_candidates(case)
    found = enumerate_candidates(many)
    for pool, candidates in found.accepted.items():
        assert all(c.replica.traffic is found.pools[pool].traffic for c in candidates)


def test_only_the_last_ones_are_kept(case: Case) -> None:
    few = KnownReplicas(most=2)
    traffic = groups_alone(case)[0].traffic
    enumerate_candidates(case)
    variants = list(dict.fromkeys(c.on_gpus for some in enumerate_candidates(case).accepted.values() for c in some))[:3]
    asked: list[str] = []

    def replica(n: int) -> Replica:
        variant = variants[n]

        def work_out(some: Any) -> Any:
            asked.append(str(variant))
            return KNOWN.of(case, some, variant, (), lambda _: iter(()))

        return next(few.of(case, [traffic], variant, (), work_out))

    first = replica(0)
    assert replica(0) is first
    replica(1), replica(2)
    assert len(few._known) == 2
    replica(0)
    assert asked == [str(variants[n]) for n in (0, 1, 2, 0)]
