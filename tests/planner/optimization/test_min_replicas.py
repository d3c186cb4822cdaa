"""The fewest replicas of a workload hold for work with a deadline too, while it runs."""

from __future__ import annotations

import copy
from functools import cache

import pytest

import planner
from planner.checker import check_plan
from planner.pipeline import attempt
from planner.plan.plan import Plan
from tests.support.lever_plans import ROUGHLY, WAITING
from tests.support.tampering import rehashed

LIMITED = "policy: {max_gpus: {l4: 1}, min_replicas: 1}"


@cache
def planned(fewest: int) -> Plan:
    """Work that needs a GPU or two, and no API to leave it to."""
    assert LIMITED in WAITING
    text = WAITING.replace(LIMITED, f"policy: {{max_gpus: {{l4: 8}}, min_replicas: {fewest}}}")
    case = planner.case_from_text(text.replace("deadline: 2h", "deadline: 24h\n    api: forbidden"))
    plan = attempt(case, ROUGHLY).plan
    assert plan is not None
    return plan


@pytest.mark.parametrize("fewest", [1, 2])
def test_work_with_a_deadline_runs_on_the_fewest_replicas_or_on_none(fewest: int) -> None:
    replicas = planned(fewest).pools[0].deployments[0].replicas_by_slot
    assert set(replicas) <= {0, *range(fewest, 9)}
    assert any(replicas)


def test_the_checker_refuses_fewer() -> None:
    lonely = copy.deepcopy(planned(1).as_json())
    assert 1 in lonely["pools"][0]["deployments"][0]["replicas_by_slot"]
    lonely["case"]["limits"]["min_replicas"] = 2
    rehashed(lonely)
    assert any("1 replica where 2 are needed" in problem for problem in check_plan(lonely))
