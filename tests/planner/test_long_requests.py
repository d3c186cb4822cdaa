"""Requests that are longer than a context are routed, refused or a reason to reject, and every report says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import planner
from planner.candidates.enumerate import enumerate_candidates
from planner.case.case import Case
from planner.checker import check_plan
from planner.explanations.relaxations import Infeasible
from planner.export.export import export_plan
from planner.export.hosted import Settings
from planner.io.errors import InputError
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from planner.reports.html import html_report
from tests.support.shared_plans import fleet_plan
from tests.support.shown import first_screen, plan_markdown, plan_text, unwrapped
from tests.support.tampering import Json, rehashed

CONTEXT, OVER = 131_072, 0.0150
"""of llama-3.1-8b, and the share of the requests below that are longer"""
TEXT = """\
workloads:
  - name: docs
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 20k, shape: flat}
    tokens: {input: {p50: 28k, p95: <p95>}, output: {p50: 300, p95: 1200}<tokens>}
    slo: {ttft_p95: 30s, tpot_p95: 80ms}
    api: <api>
menu: {gpus: [<gpus>], quantizations: [fp8], purchase: [on-demand], apis: [<apis>]}
baseline: openai/gpt-4.1-mini
"""
USUAL = {"p95": "90k", "tokens": "", "api": "forbidden", "gpus": "l40s", "apis": "openai/gpt-4.1-mini"}
ARRIVING = 20_000 * 730 / 24


def filled(text: str, changes: dict[str, str]) -> str:
    for key, value in (USUAL | changes).items():
        text = text.replace(f"<{key}>", value)
    return text


def case_of(tokens: str = "", **changes: str) -> Case:
    return planner.case_from_text(filled(TEXT, {"tokens": tokens} | changes))


@pytest.fixture(scope="module")
def refusing() -> Plan:
    return planner.plan_fleet(case_of(f", longest: {CONTEXT}"))


@pytest.fixture(scope="module")
def passing_on() -> Plan:
    return planner.plan_fleet(case_of(api="allowed"))


def test_nothing_serves_requests_that_no_context_holds_and_the_reason_names_their_share() -> None:
    case = case_of()
    whole = [c for c in enumerate_candidates(case).accepted["docs"] if c.replica.serves_all]
    assert whole == []
    (why,) = {(r.reason, r.limit, r.value) for r in enumerate_candidates(case).rejected if "context" in r.reason}
    assert why == ("context too short", "131,072 tokens", "1.50% of requests are longer")
    with pytest.raises(Infeasible) as found:
        planner.plan_fleet(case)
    assert "refuse 1.50% of docs, longer than 131,072 tokens (tokens.longest: 131072)" in str(found.value)


def test_an_api_takes_what_the_deployments_cannot_hold(passing_on: Plan) -> None:
    (docs,) = passing_on.workloads
    assert (docs.refused_share_frac, docs.requests_per_month) == (None, pytest.approx(ARRIVING))
    assert docs.api_share_frac >= OVER
    assert all(None in d.deployment.seconds_per_request for p in passing_on.pools for d in p.deployments)
    assert check_plan(passing_on.as_json()) == []


def test_refused_requests_are_counted_and_nothing_is_planned_for_them(refusing: Plan) -> None:
    (docs,) = refusing.workloads
    assert docs.longest_request_tokens == CONTEXT
    assert docs.refused_share_frac is not None
    assert docs.refused_share_frac == pytest.approx(OVER, rel=1e-3)
    assert docs.refused_requests_per_month == pytest.approx(docs.refused_share_frac * ARRIVING)
    assert docs.requests_per_month == pytest.approx((1 - docs.refused_share_frac) * ARRIVING)
    assert docs.requests_per_month * CONTEXT > docs.tokens_per_month
    assert check_plan(refusing.as_json()) == []


def test_hardly_any_long_requests_are_refused_unasked_and_that_is_said() -> None:
    case = case_of(p95="60k")
    (docs,) = case.workloads
    assert docs.length_limit is not None
    assert docs.length_limit.tokens == CONTEXT
    assert docs.length_limit.refused_frac == pytest.approx(0.000444, rel=1e-2)
    said = next(a for a in case.assumptions if a.key == "workloads.docs.tokens.longest")
    assert (said.value, "0.04% of requests spread by these percentiles are longer" in said.why) == (
        "131,072 tokens",
        True,
    )


def test_next_to_no_long_requests_change_nothing() -> None:
    (docs,) = case_of(p95="50k").workloads
    assert (docs.length_limit, docs.length_cuts, len(docs.buckets)) == (None, None, 16)


def test_requests_that_kv_memory_does_not_hold_are_not_sent_there() -> None:
    """The engine's --max-model-len is what fits: the mean of the longest requests does, some of them do not."""
    case = case_of(p95="60k", tokens=f", longest: {CONTEXT}", gpus="l4")
    found = enumerate_candidates(case)
    small = next(c for c in found.accepted["docs"] if c.machine.gpus == 1)
    holds = small.machine.longest_request
    (docs,) = case.workloads
    means = [b.input_tokens + b.output_tokens for b in docs.buckets]
    assert CONTEXT > holds > min(means)
    assert not small.replica.serves_all
    longest = max(n for n, serves in zip(means, small.replica.serves, strict=True) if serves)
    assert longest < holds
    assert any(r.reason == "no room for the KV cache" and "% of requests are longer" in r.value for r in found.rejected)


def test_apis_with_a_short_context_do_not_answer() -> None:
    case = case_of(api="allowed", apis="openai/gpt-4o-mini")
    (why,) = [r for r in enumerate_candidates(case).rejected if r.candidate.startswith("api")]
    assert (why.reason, why.limit) == ("context too short", "128,000 tokens")
    assert why.value == "1.63% of requests are longer"
    held = case_of(api="allowed", apis="openai/gpt-4o-mini", tokens=", longest: 128k")
    assert not [r for r in enumerate_candidates(held).rejected if r.candidate.startswith("api")]


def test_several_contexts_of_one_workload_cut_its_lengths() -> None:
    text = TEXT.replace("[llama-3.1-8b]", "[llama-3.1-8b, {name: qwen3-8b, quality_loss: 1%}]")
    (docs,) = planner.case_from_text(filled(text, {})).workloads
    assert docs.length_cuts == (40_960, CONTEXT)


def test_every_report_says_what_is_refused(refusing: Plan) -> None:
    said = "1.50% of docs (9.13k requests longer than 131,072 tokens)"
    assert f"REFUSED every month: {said}; figures are for the rest" in plan_text(refusing)
    assert said in html_report(refusing)
    assert "1.50% of docs" in plan_markdown(refusing)
    readme = export_plan(refusing, "kubernetes", Settings())["README.md"]
    assert "docs: refuse requests of more than 131,072 tokens" in readme
    assert "about 9,132 a month" in readme
    (command,) = serve_commands(refusing)
    assert f"--max-model-len {CONTEXT} " in command.command
    assert any("requests of more than 131,072 tokens" in note for note in command.notes)


def test_every_report_says_what_is_passed_on(passing_on: Plan) -> None:
    said = "1.50% of docs (9.13k requests longer than 131,072 tokens, the most its deployments accept) go to openai"
    assert said in plan_text(passing_on)
    assert said in html_report(passing_on)
    concern = "1.50% of docs (requests longer than 131,072 tokens) go to openai"
    assert concern in unwrapped(first_screen(passing_on)) and concern in html_report(passing_on)
    assert "1.50% of docs" in plan_markdown(passing_on).replace("\\", "")
    readme = export_plan(passing_on, "kubernetes", Settings())["README.md"]
    assert "longer than its deployments accept: send them to openai/gpt-4.1-mini" in readme


def test_a_baseline_that_cannot_hold_all_requests_is_no_price_to_buy_at() -> None:
    text = filled(TEXT, {"api": "allowed"}).replace("baseline: openai/gpt-4.1-mini", "baseline: openai/gpt-4o-mini")
    plan = fleet_plan(planner.case_from_text(text))
    said = (
        "1.63% of the requests of docs are longer than the 128,000 tokens that openai/gpt-4o-mini accepts, so the "
        "baseline is for comparison only"
    )
    assert said in unwrapped(first_screen(plan))
    assert said in html_report(plan)
    assert said in plan_markdown(plan).replace("\\", "")


def test_a_baseline_that_holds_all_requests_has_no_such_caveat(passing_on: Plan) -> None:
    assert "for comparison only" not in unwrapped(plan_text(passing_on))


def test_the_longest_that_is_let_in_is_what_the_engine_admits() -> None:
    plan = fleet_plan(case_of(", longest: 64k"))
    (command,) = serve_commands(plan)
    assert "--max-model-len 64000 " in command.command


def hidden(plan: Json) -> None:
    """As if nothing were refused: the case keeps its short buckets."""
    del plan["case"]["workloads"][0]["length_limit"]
    told = plan["workloads"][0]
    told |= {"longest_request_tokens": None, "refused_share_frac": None, "refused_requests_per_month": None}


def played_down(plan: Json) -> None:
    plan["case"]["workloads"][0]["length_limit"]["refused_frac"] /= 10
    told = plan["workloads"][0]
    told["refused_share_frac"] /= 10


def forgotten(plan: Json) -> None:
    plan["workloads"][0]["refused_requests_per_month"] = 0.0


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (hidden, "the mean prompt that is let in has"),
        (played_down, "of its requests are longer than 131072 tokens, not 0.1501%"),
        (forgotten, "workloads[docs].refused_requests_per_month is"),
    ],
)
def test_the_checker_refuses_a_plan_that_hides_refusals(
    refusing: Plan, tamper: Callable[[Json], None], problem: str
) -> None:
    data = refusing.as_json()
    tamper(data)
    rehashed(data)
    assert any(problem in found for found in check_plan(data))


def test_the_checker_refuses_a_plan_that_serves_what_is_too_long(passing_on: Plan) -> None:
    data = passing_on.as_json()
    data["case"]["models"]["llama-3.1-8b"]["max_context_tokens"] = 65_536
    rehashed(data)
    assert any("longer than the 65536 tokens that it admits" in found for found in check_plan(data))
    data = passing_on.as_json()
    data["case"]["apis"]["openai/gpt-4.1-mini"]["max_context_tokens"] = 128_000
    rehashed(data)
    assert any("which takes 128000 tokens: 1.63% are longer" in found for found in check_plan(data))


def test_serving_refuses_as_many_as_the_plan_says(refusing: Plan) -> None:
    pytest.importorskip("numba", reason="verify needs numba: pip install fleetplan[verify]")
    from planner.verification.serving import AS_PLANNED, verify_plan

    (docs,) = verify_plan(refusing, replace(AS_PLANNED, days=1)).workloads
    expected = docs.requests * (refusing.workloads[0].refused_share_frac or 0.0)
    assert docs.refused == pytest.approx(expected, abs=4 * expected**0.5)
    assert docs.served + docs.refused + docs.unfinished == docs.requests


def test_a_limit_that_refuses_nearly_all_is_an_error_that_says_where() -> None:
    with pytest.raises(InputError, match="refuses nearly all requests") as found:
        case_of(", longest: 600")
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.line == 5


@pytest.mark.parametrize(
    ("prompts", "answers", "longest"),
    [
        ("{p50: 1k, p95: 20k}", "{p50: 200, p95: 2k}", 512),
        ("{p50: 1k, p95: 100k}", "{p50: 200, p95: 20k}", 4096),
        ("{p50: 2k, p95: 9k}", "{p50: 1k, p95: 5k}", 1000),
    ],
)
def test_the_checker_agrees_where_most_requests_are_refused(prompts: str, answers: str, longest: int) -> None:
    text = filled(TEXT, {"tokens": f", longest: {longest}"})
    text = text.replace("{p50: 28k, p95: 90k}", prompts).replace("{p50: 300, p95: 1200}", answers)
    plan = fleet_plan(planner.case_from_text(text))
    (w,) = plan.workloads
    assert (w.refused_share_frac or 0.0) > 0.3
    assert check_plan(plan.as_json()) == []
