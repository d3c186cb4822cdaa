"""What is held by quarter and what it costs, and which commitments are for sale, by hand arithmetic."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.case.case import Case, Holding
from planner.case.quarters import block_case, blocks_of, held_in, held_usd, held_usd_per_month
from planner.case.terms import beyond_months, counted_months, inside_months, liability_usd

TEXT = """\
starts: 2027-01-01
workloads: [{name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 100k}}]
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y, reserved-3y]}
baseline: openai/gpt-4o-mini
"""
L40S = "aws/g6e.xlarge@us-east-1"
MID_MAY = "have: [{offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 2, price: $1/h, until: 2027-05-15}]\n"


def case_of(rest: str = "") -> Case:
    return planner.case_from_text(TEXT + rest)


def with_held(case: Case, *held: Holding) -> Case:
    return case.model_copy(update={"held": held})


# -- holdings -------------------------------------------------------------------------------------------------------


def test_a_lapse_in_mid_quarter_is_paid_and_used_to_its_day() -> None:
    case = case_of("horizon: 4 quarters\n" + MID_MAY)
    assert [len(held_in(case, q)) for q in range(4)] == [1, 0, 0, 0]
    # 2 instances at $1 for a quarter of 2,190 h; then for 45 of the 91 days from April to June.
    assert [held_usd(case, q) for q in range(4)] == pytest.approx([4380, 4380 * 45 / 91, 0, 0])
    first, second, third, _ = (block_case(case, block) for block in blocks_of(case))
    assert [h.instances for h in first.held or ()] == [2]
    assert (first.held_besides_usd_per_month, held_usd_per_month(first)) == (None, pytest.approx(1460))
    assert (second.held, second.held_besides_usd_per_month) == (None, None)
    # As dollars an hour at its own rate, in April and the half of May before the quarter is cut; months by their days.
    (part,) = second.allowances or ()
    assert (part.rates, part.held, part.in_months) == ({L40S: 1.0}, 2.0, (0,))
    assert [m.label for m in second.months or ()] == [
        "2027-04 to 2027-05, until 2027-05-15", "2027-05 to 2027-06, from 2027-05-16",
    ]  # fmt: skip
    assert [m.weight for m in second.months or ()] == pytest.approx([2 * 45 / 91, 2 * 46 / 91])
    assert held_usd_per_month(second) == pytest.approx(1460 * 45 / 91)
    assert held_usd_per_month(third) == 0
    [said] = [a for a in case.assumptions if a.key == "have.aws/g6e.xlarge"]
    assert said.value == "used and paid on its days from 2027-04-01 to 2027-06-30"
    assert "its last day 2027-05-15" in said.why


def test_a_holding_that_begins_or_ends_with_a_quarter_leaves_nothing_to_say() -> None:
    have = "{offer: %s, purchase: capacity-reservation, instances: 3, price: $2/h, from: 2027-04-01, until: 2027-09-30}"
    case = case_of(f"horizon: 4 quarters\nhave: [{have % L40S}]\n")
    assert [held_usd(case, q) for q in range(4)] == pytest.approx([0, 13140, 13140, 0])
    assert not any(a.key.startswith("have") for a in case.assumptions)
    assert case.held == (
        Holding(
            offer=L40S,
            purchase="capacity-reservation",
            instances=3,
            usd_per_h=2.0,
            first_day=date(2027, 4, 1),
            last_day=date(2027, 9, 30),
        ),
    )


def test_owned_boxes_cost_nothing_until_they_run() -> None:
    case = case_of("have: [{offer: aws/g6e.xlarge, purchase: owned, instances: 4, price: $0.30/h}]\n")
    assert case.future is None
    assert [(h.purchase, h.instances, h.usd_per_h) for h in case.held or ()] == [("owned", 4, 0.3)]
    assert held_usd_per_month(case) == 0


def test_one_quarter_has_what_covers_it_and_pays_for_the_rest() -> None:
    lapses = "{offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 1, price: $3/h, until: 2027-01-31}"
    stays = "{offer: aws/g6e.xlarge, purchase: reserved-3y, instances: 2, price: $1/h, until: 2029-05-01}"
    case = case_of(f"have: [{lapses}, {stays}]\n")
    assert case.future is None
    assert [h.purchase for h in case.held or ()] == ["reserved-3y"]
    assert case.held_besides_usd_per_month is None
    assert [(a.held, a.in_months) for a in case.allowances or ()] == [(3.0, (0,))]
    assert held_usd_per_month(case) == pytest.approx(730 * 2 + 730 * 3 * 31 / 90)


def test_quotas_are_for_what_is_held_at_one_time() -> None:
    """Two that follow each other are within a quota that two together would break."""
    entry = "{offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 2, price: $1/h, from: %s, until: %s}"
    after = [entry % ("2026-04-01", "2027-03-31"), entry % ("2027-04-01", "2028-03-31")]
    quota = "policy: {max_instances: {aws/g6e.xlarge: 2}, max_gpus: {l40s: 2}}\nhorizon: 4 quarters\n"
    assert len(case_of(f"{quota}have: [{', '.join(after)}]\n").held or ()) == 2
    with pytest.raises(
        planner.InputError, match=r"4 instances of .* more than policy.max_instances allows \(2\)"
    ) as error:
        case_of(f"{quota}have: [{after[0]}, {after[0]}]\n")
    assert "4 GPUs of l40s are held, more than policy.max_gpus allows (2)" in str(error.value)


@settings(max_examples=60, deadline=None)
@given(
    first=st.integers(-200, 500),
    length=st.integers(0, 900),
    month=st.integers(1, 12),
    instances=st.integers(1, 5),
)
def test_payments_are_those_of_a_naive_count_of_days(first: int, length: int, month: int, instances: int) -> None:
    starts = date(2027, month, 1)
    case = planner.case_from_text(TEXT.replace("2027-01-01", str(starts)) + "horizon: 4 quarters\n")
    begins = starts + timedelta(days=first)
    held = Holding(
        offer=L40S,
        purchase="reserved-1y",
        instances=instances,
        usd_per_h=2.0,
        first_day=begins,
        last_day=begins + timedelta(days=length),
    )
    case = with_held(case, held)
    days: dict[int, int] = dict.fromkeys(range(4), 0)
    inside: dict[int, int] = dict.fromkeys(range(4), 0)
    day = starts
    for _ in range(366):
        quarter = ((day.year - 2027) * 12 + day.month - month) // 3
        if quarter < 4:
            days[quarter] += 1
            inside[quarter] += begins <= day <= begins + timedelta(days=length)
        day += timedelta(days=1)
    for q in range(4):
        assert held_usd(case, q) == pytest.approx(instances * 2.0 * 2190 * inside[q] / days[q])
        assert bool(held_in(case, q)) == (inside[q] == days[q])
        block = next(b for b in blocks_of(case) if b.quarter == q)
        assert 3 * held_usd_per_month(block_case(case, block)) == pytest.approx(held_usd(case, q))


# -- terms ----------------------------------------------------------------------------------------------------------


def for_sale(case: Case, quarter: int = 0) -> list[str]:
    return [term for term in ("reserved-1y", "reserved-3y") if counted_months(case, term, quarter) is not None]


def test_three_years_are_not_for_sale_for_one_quarter() -> None:
    case = case_of()
    assert for_sale(case) == ["reserved-1y"]
    assert ("unused_after_horizon", "reserved-3y not bought") in [(a.key, a.value) for a in case.assumptions]
    for rest in ("unused_after_horizon: {worth: 50%}\n", "policy: {max_liability: $0}\n", "horizon: 12 quarters\n"):
        assert "unused_after_horizon" not in [a.key for a in case_of(rest).assumptions]


def test_what_is_left_of_three_years_counts_as_far_as_it_is_not_worth_its_price() -> None:
    case = case_of("unused_after_horizon: {worth: 50%}\n")
    assert case.future is not None and case.future.quarters == 1
    # 3 months inside, half of 33 beyond.
    assert counted_months(case, "reserved-3y") == pytest.approx(19.5)
    assert counted_months(case, "reserved-1y") == 3
    assert liability_usd(case, "reserved-3y", 2.0) == pytest.approx(2 * 730 * 33)
    assert liability_usd(case, "reserved-1y", 2.0) == 0


def test_a_limit_on_what_is_owed_puts_long_terms_on_sale_too() -> None:
    case = case_of("policy: {max_liability: $200k}\n")
    assert case.future is not None and case.future.max_liability_usd == 200_000
    assert counted_months(case, "reserved-3y") == 3
    with pytest.raises(planner.InputError, match="limits what is owed after a horizon, and there is no horizon"):
        planner.case_from_text(TEXT.replace("starts: 2027-01-01\n", "") + "policy: {max_liability: $200k}\n")


def test_terms_that_end_within_the_horizon_are_for_sale() -> None:
    case = case_of("horizon: 12 quarters\n")
    assert for_sale(case, 0) == ["reserved-1y", "reserved-3y"]
    assert for_sale(case, 1) == ["reserved-1y"]
    assert [inside_months(case, "reserved-1y", q) for q in (0, 8, 9, 11)] == [12, 12, 9, 3]
    assert [beyond_months(case, "reserved-3y", q) for q in (0, 1, 11)] == [0, 3, 33]


def test_a_horizon_weighs_the_rest_of_long_terms() -> None:
    case = case_of("horizon: 4 quarters\nunused_after_horizon: {worth: 25%}\n")
    assert counted_months(case, "reserved-3y", 1) == pytest.approx(9 + 0.75 * 27)
    assert counted_months(case, "reserved-1y", 3) == 3


def test_owned_boxes_are_an_offer_of_their_own() -> None:
    """It costs what running a box costs, and there are as many as are owned."""
    case = case_of("have: [{offer: aws/g6e.xlarge, purchase: owned, instances: 4, price: $0.30/h}]\n")
    key = "aws/g6e.xlarge@us-east-1+owned"
    price = case.offers[key].prices.on_demand
    assert price is not None and price.usd_per_h == 0.3
    assert case.offers[key].prices.spot is None and not case.offers[key].prices.reserved()
    assert case.limits.max_instances[key] == 4


def test_owned_boxes_need_a_menu_that_runs_them() -> None:
    owned = "have: [{offer: aws/g6e.xlarge, purchase: owned, instances: 4, price: $0.30/h}]\n"
    text = re.sub(r"purchase: \[[^\]]*\]", "purchase: [spot]", TEXT, count=1)
    with pytest.raises(planner.InputError, match="owned boxes run by the hour"):
        planner.case_from_text(text + owned)
