"""Limits that nobody gave: priced where they bind, silent where they do not, refused where they are made up."""

from __future__ import annotations

from functools import cache

import pytest

import planner
from planner.judgement.concern import Concern
from planner.judgement.concerns import concerns_of
from planner.judgement.spending import assumptions_that_bind
from planner.optimization.assumed_limits import assumed_limits
from planner.plan.plan import Plan

CLASSIFIER = """\
workloads:
  - name: classifier
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 20M, shape: consumer, burstiness: 2}
    tokens: {input: {p50: 420, p95: 1300}, output: 24}
    slo: {ttft_p95: 500ms}
    quality: {max_loss: 1%}
    api: forbidden
menu: {gpus: [l40s], providers: [aws], regions: [us-east-2], quantizations: [int8], purchase: [on-demand]}
policy: {min_replicas: 2, spread: true}
baseline: openai/gpt-4o-mini
"""


@cache
def plan_with(slo: str = "ttft_p95: 500ms") -> Plan:
    plan = planner.plan_fleet(planner.case_from_text(CLASSIFIER.replace("ttft_p95: 500ms", slo)))
    assert isinstance(plan, Plan)
    return plan


def concerns(plan: Plan) -> list[Concern]:
    return [concern for concern in concerns_of(plan) if concern.key == "assumed-limit"]


def test_a_limit_that_nobody_gave_and_that_binds_is_priced_by_a_plan_without_it() -> None:
    plan = plan_with()
    (concern,) = concerns(plan)
    assert plan.assumed_limits is not None
    (limit,) = plan.assumed_limits.limits
    assert (limit.key, limit.value, limit.workloads) == ("slo.tpot_p95", "50 ms", ("classifier",))
    free = plan_with("ttft_p95: 500ms, tpot_p95: 1s")
    assert limit.without_usd_per_month == pytest.approx(free.cost_usd_per_month, rel=0.006)
    assert concern.usd_per_month == plan.cost_usd_per_month - plan.assumed_limits.without_usd_per_month
    assert "TPOT of 50 ms for classifier" in concern.sentence and "'slo.tpot_p95'" in concern.remedy


def test_what_the_file_gives_is_no_concern_however_much_it_binds() -> None:
    plan = plan_with("ttft_p95: 500ms, tpot_p95: 50ms")
    assert plan.cost_usd_per_month == pytest.approx(plan_with().cost_usd_per_month, rel=0.002)
    assert plan.assumed_limits is None and not concerns(plan)
    assert not assumed_limits(plan.case)


def test_a_limit_that_does_not_bind_is_no_concern() -> None:
    plan = plan_with("tpot_p95: 50ms")
    assert [default.key for default in assumed_limits(plan.case)] == ["slo.ttft_p95"]
    assert plan.assumed_limits is None and not concerns(plan)


def test_an_objective_for_whole_answers_leaves_no_pace_to_be_assumed() -> None:
    keys = [default.key for default in assumed_limits(plan_with("ttft_p95: 500ms, e2e_p95: 3s").case)]
    assert keys == []


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("key", "slo.e2e_p95", "is called an assumed limit"),
        ("workloads", ["nobody"], "is called an assumed limit"),
        ("without_usd_per_month", 1.0, "no less than with them"),
    ],
)
def test_the_checker_refuses_assumed_limits_that_cannot_be(key: str, value: object, refused: str) -> None:
    data = plan_with().as_json()
    data["assumed_limits"]["limits"][0][key] = value
    assert any(refused in problem for problem in planner.check_plan(data))


def test_a_plan_without_assumed_limits_costs_no_more() -> None:
    data = plan_with().as_json()
    data["assumed_limits"]["without_usd_per_month"] = data["cost_usd_per_month"] * 1.1
    assert any("no less than with them" in problem for problem in planner.check_plan(data))


def test_several_limits_stand_in_one_concern() -> None:
    plan = plan_with()
    assert plan.assumed_limits is not None
    one = plan.assumed_limits.limits[0]
    other = one.model_copy(update={"key": "policy.min_replicas", "value": "2", "workloads": ()})
    both = plan.assumed_limits.model_copy(update={"limits": (one, other)})
    (concern,) = assumptions_that_bind(plan.model_copy(update={"assumed_limits": both}))
    assert "at least 2 replicas (costs" in concern.sentence
    assert "'slo.tpot_p95' and 'policy.min_replicas'" in concern.remedy
    none = both.model_copy(update={"limits": ()})
    (concern,) = assumptions_that_bind(plan.model_copy(update={"assumed_limits": none}))
    assert "limits that bind only together" in concern.sentence
