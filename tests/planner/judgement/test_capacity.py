"""Scarce boxes by the hour: named with the price of reserving them, and limited where a file says what can be had."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import planner
from planner.catalog.entries import shipped_catalog
from planner.catalog.scarcity import by_the_hour, scarcities
from planner.judgement.concern import Concern
from planner.judgement.concerns import concerns_of
from planner.judgement.spending import scarce_instances
from planner.plan.plan import Plan
from tests.support.shared_plans import fleet_plan

BOXES = """\
workloads:
  - name: chat
    models: [llama-3.3-70b]
    forecast: {requests_per_day: 2M, shape: business-hours, burstiness: 2, variation: 20%}
    tokens: {input: 1500, output: 300}
    slo: {ttft_p95: 2s, tpot_p95: 50ms}
    quality: {max_loss: 1%}
    api: forbidden
menu: {gpus: [h200], quantizations: [fp8], purchase: [on-demand], providers: [aws], regions: [us-east-1]}
policy: {min_replicas: 2, spread: true}
baseline: openai/gpt-4o
"""
OFFER = "aws/p5en.48xlarge@us-east-1"


@cache
def plan_with(requests: str = "2M", more: str = "", purchase: str = "[on-demand]") -> Plan:
    text = BOXES.replace("2M", requests).replace("[on-demand]", purchase) + more
    plan = fleet_plan(planner.case_from_text(text))
    assert isinstance(plan, Plan)
    return plan


def concerns(plan: Plan) -> list[Concern]:
    return [concern for concern in concerns_of(plan) if concern.key == "scarce-capacity"]


def test_boxes_beyond_what_may_be_there_are_named_with_the_price_of_reserving_them() -> None:
    plan = plan_with()
    (line,) = plan.fleet
    n, most = np.array(line.instances_by_slot), scarcities()["h200"].by_the_hour
    assert line.offer == OFFER and n.max() > most
    (concern,), (scarce,) = concerns(plan), scarce_instances(plan)
    hours = np.array([slot.hours_per_month for slot in plan.slots])
    assert hours.sum() == pytest.approx(730)
    beyond = int(n.max()) - most
    reserved = shipped_catalog().offers[OFFER].prices.reserved_1y
    assert reserved is not None
    assert scarce.reserved_usd == pytest.approx(beyond * 730 * reserved.usd_per_h)
    assert scarce.replaced_usd == pytest.approx(float(hours @ np.minimum(n, beyond)) * line.usd_per_h)
    more = scarce.reserved_usd - scarce.replaced_usd
    assert concern.usd_per_month >= more
    assert f"up to {n.max()} boxes of 8 x h200" in concern.sentence and f"${abs(more):,.0f} / month" in concern.sentence
    assert f"started {plan.starts_per_month:,.0f} times a month" in concern.sentence


def test_no_more_than_may_be_there_is_no_concern() -> None:
    plan = plan_with("200k")
    assert max(plan.fleet[0].instances_by_slot) == scarcities()["h200"].by_the_hour
    assert not concerns(plan)


def test_what_is_reserved_is_there() -> None:
    plan = plan_with(purchase="[reserved-1y]")
    assert max(plan.fleet[0].instances_by_slot) > 2 and not concerns(plan)


def test_what_can_be_had_is_a_limit_and_no_concern() -> None:
    most = max(plan_with().fleet[0].instances_by_slot)
    told = plan_with(more=f"availability: {{aws/p5en.48xlarge: {most}}}\n")
    assert told.case.limits.max_instances == {OFFER: most} and not concerns(told)
    assert told.cost_usd_per_month == pytest.approx(plan_with().cost_usd_per_month, rel=0.002)
    with pytest.raises(planner.Infeasible, match="p5en"):
        plan_with(more=f"availability: {{aws/p5en.48xlarge: {most - 1}}}\n")
    with pytest.raises(planner.Infeasible, match="p5en"):
        plan_with(more="availability: typical\n")


def test_what_can_be_had_counts_beside_what_is_there_and_the_smaller_limit_holds() -> None:
    have = "starts: 2027-01-01\nhave: [{offer: aws/p5en.48xlarge, purchase: reserved-1y, instances: 3, price: $40/h, "
    text = BOXES + have + "until: 2028-01-01}]\navailability: typical\n"
    assert planner.case_from_text(text).limits.max_instances[OFFER] == 5
    fewer = text.replace("policy: {", "policy: {max_instances: {aws/p5en.48xlarge: 4}, ")
    assert planner.case_from_text(fewer).limits.max_instances[OFFER] == 4


def test_own_offers_say_how_many_can_be_had() -> None:
    own = shipped_catalog().offers[OFFER]
    assert by_the_hour(own) == 2
    assert by_the_hour(own.model_copy(update={"available": 7})) == 7
    assert by_the_hour(own.model_copy(update={"gpus": 1})) is None
    assert by_the_hour(own.model_copy(update={"gpu": "a100-80gb"})) is None


def test_an_unknown_instance_is_a_located_error() -> None:
    with pytest.raises(planner.InputError, match="no instance on the menu is called 'aws/p6'"):
        planner.case_from_text(BOXES + "availability: {aws/p6: 2}\n")


def test_every_entry_has_its_reason_and_is_of_a_gpu_that_is_known() -> None:
    for gpu, scarcity in scarcities().items():
        assert gpu in shipped_catalog().gpus and scarcity.source and scarcity.date and scarcity.assumption
