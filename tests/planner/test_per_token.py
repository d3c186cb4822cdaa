"""Promises on the end-to-end time per output token: its percentile over requests, and plans that keep it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import planner
from planner.candidates.per_token import PerToken, answers_of, per_token_of
from planner.candidates.pools import groups_alone
from planner.candidates.step_budget import replica_for
from planner.case.case import Case, LatencyTarget
from planner.case.length_buckets import prompts_of
from planner.checker import check_plan
from planner.checker.per_token import times_per_token_are_kept
from planner.export.hosted import Settings, hosted_fleet
from planner.export.promises import POD, checks
from planner.io.errors import InputError
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

DEMAND = """workloads:
  - name: w
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 100k}
    tokens: {input: {p50: 8k, p95: 30k}, output: {p50: 80, p95: 400}}
    slo: {ttft_p95: 20s, e2e_per_token_p90: 40ms}
    api: forbidden
menu: {gpus: [h100, l40s], purchase: [on-demand], regions: [us-east-1], providers: [aws]}
baseline: openai/gpt-4o
"""
GIVEN = """tokens: {buckets: [{share: 30%, input: 2k, output: 20}, {share: 70%, input: 500, output: 300}]}"""


def case_of(slo: str = "ttft_p95: 20s, e2e_per_token_p90: 40ms", tokens: str = "") -> Case:
    text = DEMAND.replace("ttft_p95: 20s, e2e_per_token_p90: 40ms", slo)
    if tokens:
        text = "\n".join(f"    {tokens}" if "tokens:" in line else line for line in text.splitlines())
    return planner.case_from_text(text)


@cache
def planned(slo: str = "ttft_p95: 20s, e2e_per_token_p90: 40ms") -> Plan:
    return fleet_plan(case_of(slo))


def test_the_percentile_is_that_of_requests_drawn_one_by_one() -> None:
    """Prompts and answers by chance, a fifth of the prompts waiting: no formula, only requests that are sorted."""
    rng, n = np.random.default_rng(1), 400_000
    shares, first_s, pace_s = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.4, 2.0]), 0.01
    w = case_of().workloads[0]
    found = per_token_of(w, shares, first_s, pace_s)
    spread = w.output_spread
    assert spread is not None
    sigma = np.log(spread.p95 / spread.p50) / 1.6449
    answers = np.maximum(spread.p50 * np.exp(sigma * rng.standard_normal(n)), 1.0)
    waits = np.where(rng.random(n) < 0.2, rng.exponential(1.5, n), 0.0)
    each = (rng.choice(first_s, n, p=shares) + waits + (answers - 1) * pace_s) / answers
    for percentile in (0.5, 0.9, 0.95, 0.99):
        exact = float(np.quantile(each, percentile))
        assert found.percentile_s(0.2 * 1.5, 0.2, percentile) == pytest.approx(exact, rel=0.03)


def test_a_percentile_without_waiting_is_the_time_of_a_request() -> None:
    two = PerToken(np.array([[0.9], [0.1]]), np.array([[1.0], [1.0]]), np.array([[100.0], [10.0]]))
    assert two.percentile_s(0.0, 0.0, 0.9) == pytest.approx(0.01)
    assert two.percentile_s(0.0, 0.0, 0.95) == pytest.approx(0.1)


def test_lengths_of_a_file_stay_pairs_of_a_prompt_and_an_answer() -> None:
    w = case_of(tokens=GIVEN).workloads[0]
    shares, _, _ = prompts_of(w)
    found = answers_of(w, len(shares))
    assert found.tokens.ravel().tolist() == [20, 300]
    with_prefix = w.model_copy(update={"shared_prefix_tokens": 100.0, "prefix_hit_frac": 0.5})
    assert answers_of(with_prefix, len(prompts_of(with_prefix)[0])).tokens.ravel().tolist() == [20, 300, 20, 300]


def test_a_target_that_alone_binds_makes_another_plan_that_keeps_it() -> None:
    free, tight = planned("ttft_p95: 20s, tpot_p95: 100ms"), planned()
    assert tight.cost_usd_per_month > 1.1 * free.cost_usd_per_month
    (without,), (d,) = free.pools[0].deployments, tight.pools[0].deployments
    assert without.deployment.e2e_per_token_ms is None
    assert d.deployment.e2e_per_token_ms is not None
    assert 20 < d.deployment.e2e_per_token_ms <= 40
    assert d.deployment.tpot_ms < d.deployment.e2e_per_token_ms  # what is left is for prompts that wait
    assert d.deployment.ttft_ms is not None and d.deployment.ttft_ms < 5000


def test_looser_targets_never_cost_more() -> None:
    costs = [planned(f"ttft_p95: 20s, e2e_per_token_p90: {ms}ms").cost_usd_per_month for ms in (40, 80, 300)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


def test_where_nothing_keeps_it_the_reason_says_so() -> None:
    with pytest.raises(planner.Infeasible, match="E2E per token"):
        planned("ttft_p95: 20s, e2e_per_token_p90: 2ms")


def test_more_load_takes_more_time_per_token() -> None:
    case = case_of()
    replica = next(
        r
        for g in groups_alone(case)
        for r in [replica_for(case, g.traffic, planned().pools[0].deployments[0].deployment.variant)]
    )
    times = [replica.e2e_per_token_s(load) or 0.0 for load in (0.05, 0.2, 0.4, 0.8)]
    assert times == sorted(times) and times[0] < times[-1]
    assert (replica.e2e_per_token_s(replica.max_utilization) or 1.0) <= 0.04 * (1 + 1e-6)


def test_one_deployment_serves_all_lengths_since_the_promise_is_for_all_of_them() -> None:
    case = case_of()
    assert not any(g.may_mix(case) for g in groups_alone(case))
    without = case_of("ttft_p95: 20s, tpot_p95: 100ms")
    assert all(g.may_mix(without) for g in groups_alone(without))


def test_the_checker_counts_late_requests_by_itself() -> None:
    plan = planned()
    account = account_of(plan)
    pool = plan.pools[0]
    (d,), members, replica = pool.deployments, account.members(pool), account.replica(pool, 0)
    assert not list(times_per_token_are_kept(members, d, replica))
    loads = zip(d.load_by_slot, d.replicas_by_slot, strict=True)
    busier = d.model_copy(update={"load_by_slot": tuple(min(0.99 * n, 1.6 * load) for load, n in loads)})
    assert "end to end for each token" in next(times_per_token_are_kept(members, busier, replica))


def test_a_plan_whose_promise_is_tighter_than_it_keeps_is_refused() -> None:
    plan = planned()
    assert check_plan(plan.as_json()) == []
    (w,) = plan.case.workloads
    tighter = w.model_copy(update={"e2e_per_token": LatencyTarget(seconds=0.03, percentile=0.9)})
    changed = plan.model_copy(update={"case": plan.case.model_copy(update={"workloads": (tighter,)})})
    assert check_plan(changed.as_json())


def test_without_a_pace_of_its_own_none_is_assumed() -> None:
    case = case_of()
    (w,) = case.workloads
    assert (w.tpot.seconds, w.tpot.percentile) == (0.04, 0.9)
    assert {a.key: a.value for a in case.assumptions}["workloads.w.slo.tpot_p95"] == "none"


@for_each(
    ("slo", "message"),
    [
        ("e2e_per_token_p90: 40ms, e2e_per_token_p95: 50ms", "second objective in addition to 'e2e_per_token_p90'"),
        ("e2e_per_token_p90: 0ms", "must be above zero"),
        ("e2e_per_token_p90: 40", "unit"),
        ("e2e_per_token_p80: 40ms", "Did you mean 'e2e_per_token_p90'"),
        ("e2e_per_token_p90: 40ms}\n    deadline: 12h\n    spot: {critical_share: 0%", "somebody waits for"),
    ],
)
def test_mistakes_are_shown_where_they_are(slo: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        case_of(slo)
    assert ":6:" in str(caught.value) or "line 6" in str(caught.value)


def test_an_export_says_what_can_be_seen_of_it() -> None:
    fleet = hosted_fleet(planned(), Settings())
    (shown,) = [c for c in checks(fleet, POD) if "per token" in c.what]
    assert "request_generation_tokens_sum" in shown.query and "0.04 s" in shown.holds


def test_served_requests_keep_it() -> None:
    pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")
    served = planner.verify(planned(), most_requests=60_000)
    promises = {p.what: p for w in served.runs[0].workloads for p in w.promises}
    assert promises["E2E per token"].kept and promises["E2E per token"].within_frac >= 0.9
    assert promises["E2E per token"].target_s == 0.04
