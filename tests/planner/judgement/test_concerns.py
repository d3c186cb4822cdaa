"""Concerns: each rule on a plan that gives rise to it, and on one that does not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import planner
from planner.case.case import Assumption
from planner.io.formatting import usd
from planner.judgement.concern import Concern
from planner.judgement.concerns import concerns_of
from planner.plan.plan import Plan, Sampled, Served
from planner.plan.signing import to_be_signed
from tests.support.rows import for_each
from tests.support.shared_plans import plan_of

CHAT = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 300k, shape: flat}
    tokens: {input: 800, output: 200}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
    api: forbidden
menu: {gpus: [l40s], quantizations: [fp8], providers: [aws], regions: [us-east-1], purchase: [on-demand, reserved-1y]}
baseline: openai/gpt-4o-mini
"""
QUOTED = CHAT + "prices: {aws/g6e.xlarge: {reserved_1y: $1.20/h}}\n"


@cache
def planned(text: str) -> Plan:
    return plan_of(planner.case_from_text(text))


def found(plan: Plan, key: str) -> list[Concern]:
    return [c for c in concerns_of(plan) if c.key == key]


def served(kept: bool, *missed: str) -> Served:
    return Served(kept=kept, requests=1, seeds=(1,), rounds=1, first_bound_usd_per_month=0.0,
                  first_cost_usd_per_month=0.0, missed=missed)  # fmt: skip


def changed(plan: Plan, **fields: object) -> Plan:
    return plan.model_copy(update=fields)


def test_a_guessed_price_stops_signing_and_a_quote_lets_it_through() -> None:
    plan = planned(CHAT)
    (signature,) = to_be_signed(plan)
    assert signature.whole_term_usd == pytest.approx(signature.commitment.instances * signature.line.usd_per_h * 8760)
    (concern,) = found(plan, "guessed-price")
    assert concern.stops_signing and concerns_of(plan)[0] == concern
    assert usd(signature.whole_term_usd) in concern.sentence and "assumed" in concern.sentence
    assert signature.line.offer in concern.remedy and usd(signature.line.usd_per_h) in concern.remedy
    quoted = planned(QUOTED)
    assert quoted.commitments and not found(quoted, "guessed-price")


def test_a_stale_price_stops_signing() -> None:
    plan = planned(QUOTED)
    line = next(f for f in plan.fleet if f.purchase == "reserved-1y")
    offer = plan.case.offers[line.offer]
    price = offer.prices.reserved_1y
    assert price is not None
    aged = offer.model_copy(
        update={"prices": offer.prices.model_copy(update={"reserved_1y": price.model_copy(update={"stale": True})})}
    )
    old = changed(plan, case=plan.case.model_copy(update={"offers": plan.case.offers | {line.offer: aged}}))
    (concern,) = found(old, "guessed-price")
    assert "stale" in concern.sentence and "assumed" not in concern.sentence


def test_nothing_to_sign_asks_for_no_quote_and_no_serving() -> None:
    by_the_hour = planned(CHAT.replace(", reserved-1y", ""))
    assert not by_the_hour.commitments
    assert not {c.key for c in concerns_of(by_the_hour)} & {"guessed-price", "not-served", "short-log"}


def test_commitments_of_a_plan_that_was_not_served() -> None:
    plan = planned(QUOTED)
    (concern,) = found(plan, "not-served")
    assert usd(sum(s.whole_term_usd for s in to_be_signed(plan))) in concern.sentence
    assert not found(changed(plan, verified=served(True)), "not-served")


def test_a_promise_that_was_missed_when_served() -> None:
    plan = planned(QUOTED)
    (concern,) = found(changed(plan, verified=served(False, "chat: TTFT")), "missed-promise")
    assert "chat: TTFT" in concern.sentence and concern.usd_per_month == plan.workloads[0].cost_usd_per_month
    assert not found(changed(plan, verified=served(True)), "missed-promise")


@for_each(("days", "concerns"), [("13", 1), ("27.9", 1), ("28", 0), (None, 0)])
def test_commitments_on_a_short_log(days: str | None, concerns: int) -> None:
    text = QUOTED.replace("shape: flat", f"shape: flat, log_days: {days}") if days else QUOTED
    shown = found(planned(text), "short-log")
    assert len(shown) == concerns
    assert all(f"is known from only {days} days of log" in c.sentence for c in shown)


def test_growth_that_a_short_log_cannot_show_though_nothing_is_signed() -> None:
    text = CHAT.replace(", reserved-1y", "").replace("shape: flat", "shape: flat, log_days: 6, growth_per_month: 20%")
    (concern,) = found(planned(text), "short-log")
    assert "is known from only 6 days of log, too short to show that it grows by 20% a month" in concern.sentence
    assert concern.usd_per_month == pytest.approx(0.2 * planned(text).cost_usd_per_month)
    assert not found(planned(text.replace(", growth_per_month: 20%", "")), "short-log"), "nothing rests on it for long"
    assert not found(planned(text.replace("log_days: 6", "log_days: 40")), "short-log")


LONG = CHAT.replace("{input: 800, output: 200}", "{buckets: [{share: 98%, input: 700, output: 150}, {share: 2%, "
                    "input: 100000, output: 400}]}").replace("[on-demand, reserved-1y]", "[on-demand]")  # fmt: skip


def test_prompts_too_long_to_be_in_time() -> None:
    plan = planned(LONG)
    assert not found(plan, "late-prompts"), "2% are what an objective for 95% leaves"
    (w,) = plan.case.workloads
    strict = w.model_copy(update={"ttft": w.ttft.model_copy(update={"percentile": 0.985})})
    (concern,) = found(changed(plan, case=plan.case.model_copy(update={"workloads": (strict,)})), "late-prompts")
    assert "100,000 tokens or more (2.0% of its requests)" in concern.sentence


def test_requests_longer_than_the_context_are_named() -> None:
    capped = LONG.replace("400}]}", "400}], longest: 20000}")
    (concern,) = found(planned(capped), "context-exceeded")
    assert "REFUSED" in concern.sentence and "20,000 tokens" in concern.sentence
    assert concern.usd_per_month == pytest.approx(0.02 * planned(capped).cost_usd_per_month)
    assert not found(planned(LONG), "context-exceeded")


BOXES = CHAT.replace("gpus: [l40s]", "gpus: [h100], max_gpus_per_replica: 1").replace(
    "[on-demand, reserved-1y]", "[on-demand]"
)
TWO = BOXES + "policy: {min_replicas: 2}\n"


def on_one_box(plan: Plan) -> Plan:
    """The same plan with one instance of eight GPUs in every hour."""
    (line,) = {f.offer: f for f in plan.fleet}.values()
    alone = line.model_copy(update={"instances_by_slot": (1,) * len(plan.slots)})
    return changed(plan, fleet=(alone,))


def test_a_machine_that_is_held_is_one_machine() -> None:
    """It is a line of the fleet, and no machine besides."""
    have = "starts: 2027-01-01\nhave: [{offer: aws/p5.48xlarge, purchase: reserved-1y, instances: 1, price: $30/h, "
    plan = planned(
        BOXES + "policy: {min_replicas: 2, spread: false}\n" + have + "until: 2028-01-01}]\n"
    )  # fmt: skip
    assert [line.purchase for line in plan.fleet] == ["held"]
    (concern,) = found(plan, "one-machine")
    assert "in 730 hours a month" in concern.sentence


def test_replicas_that_stand_on_one_machine() -> None:
    plan = planned(TWO)
    assert not found(plan, "one-machine")
    (concern,) = found(on_one_box(plan), "one-machine")
    assert "all replicas run on one machine in 730 hours a month, though the plan keeps at least 2" in concern.sentence
    one = on_one_box(plan)
    limits = one.case.limits.model_copy(update={"min_replicas": 1})
    assert not found(changed(one, case=one.case.model_copy(update={"limits": limits})), "one-machine")
    assert not found(on_one_box(planned(BOXES)), "one-machine"), "nobody asked for two"


def on_unknown_gpus(plan: Plan) -> Plan:
    """The same plan on a GPU of a new generation, that no source names."""
    gpus = {key: gpu.model_copy(update={"architecture": "Rubin"}) for key, gpu in plan.case.gpus.items()}
    return changed(plan, case=plan.case.model_copy(update={"gpus": gpus}))


def test_quality_that_nobody_has_measured_on_what_nobody_has_seen_run() -> None:
    borrowed = CHAT.replace("llama-3.1-8b", "mistral-7b").replace("[on-demand, reserved-1y]", "[on-demand]")
    assert not found(planned(borrowed), "unproven-quality"), "fp8 on an L40S runs"
    (concern,) = found(on_unknown_gpus(planned(borrowed)), "unproven-quality")
    assert "is not known to run" in concern.sentence and "borrowed from" in concern.sentence
    measured = planned(CHAT.replace("[on-demand, reserved-1y]", "[on-demand]"))
    assert not found(on_unknown_gpus(measured), "unproven-quality"), "its loss was measured on its own family"


def test_what_is_signed_for_machines_that_nobody_has_seen_run_it() -> None:
    plan = planned(QUOTED)
    assert not found(plan, "signed-unproven")
    (concern,) = found(on_unknown_gpus(plan), "signed-unproven")
    (signature,) = to_be_signed(plan)
    assert usd(signature.whole_term_usd) in concern.sentence and "is not known to run llama-3.1-8b" in concern.sentence
    assert signature.line.offer in concern.sentence and not concern.stops_signing
    by_the_hour = planned(CHAT.replace(", reserved-1y", ""))
    assert not found(on_unknown_gpus(by_the_hour), "signed-unproven"), "nothing is signed"


def test_an_objective_that_nobody_gave_is_not_quoted_as_yours() -> None:
    given = planned(LONG)
    assumed = Assumption(key="workloads.chat.slo.ttft_p95", value="2 s", why="no objective was given")
    (w,) = given.case.workloads
    strict = w.model_copy(update={"ttft": w.ttft.model_copy(update={"percentile": 0.985})})
    for assumptions, words in (((), "a target of 2 s"), ((assumed,), "a target of 2 s (assumed)")):
        case = given.case.model_copy(update={"workloads": (strict,), "assumptions": assumptions})
        (concern,) = found(changed(given, case=case, assumptions=assumptions), "late-prompts")
        assert concern.sentence.endswith(words)


def test_a_part_below_two_percent_of_the_cost() -> None:
    plan = planned(QUOTED)
    assert not found(plan, "small-part"), "one provider, one region, one kind of GPU"
    (line, *_) = plan.fleet
    tiny = line.model_copy(update={"gpu": "l4", "cost_usd_per_month": 0.01 * plan.cost_usd_per_month})
    (concern,) = found(changed(plan, fleet=(*plan.fleet, tiny)), "small-part")
    assert concern.sentence.startswith("GPU l4 accounts for only 1.0% of the cost")
    large = tiny.model_copy(update={"cost_usd_per_month": 0.05 * plan.cost_usd_per_month})
    assert not found(changed(plan, fleet=(*plan.fleet, large)), "small-part")


def test_stops_come_first_and_then_the_money() -> None:
    ranked = concerns_of(planned(CHAT.replace("shape: flat", "shape: flat, log_days: 3")))
    keys = [(not c.stops_signing, -c.usd_per_month) for c in ranked]
    assert keys == sorted(keys) and len(ranked) >= 3
    assert replace(ranked[0], key="x").stops_signing


def test_a_sample_that_was_served_counts_and_what_it_missed_is_said() -> None:
    plan = planned(QUOTED)
    kept, missed = (
        changed(plan, sampled=Sampled(requests=9, seed=1, missed=found_out))
        for found_out in ((), ("chat: TTFT kept for 91.0%, not 95%",))
    )
    assert not found(kept, "not-served") and not found(kept, "missed-promise")
    (concern,) = found(missed, "missed-promise")
    assert "TTFT kept for 91.0%, not 95%" in concern.sentence and not found(missed, "not-served")
    assert not found(changed(missed, verified=served(True)), "missed-promise"), "all of it was served since"
