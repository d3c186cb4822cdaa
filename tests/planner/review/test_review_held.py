"""The next quarter planned around what is held: what it costs by hand, what to do about it, and the bridge."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import planner
from planner.case.case import Case, Holding
from planner.case.prices import HELD
from planner.io.errors import InputError
from planner.plan.plan import Plan
from planner.reports.review import review_document
from planner.reports.text import as_text
from planner.review.bridge import bridge
from planner.review.quarter import Reviewed, review_fleet
from planner.review.records import Review, point_of
from planner.review.review_file import read_review
from tests.support.places import ROOT
from tests.support.review_data import as_csv, planned_rows
from tests.support.rows import for_each
from tests.support.shown import in_every_format

EXAMPLE = ROOT / "examples" / "quarterly-review"
GPU = "aws/g6e.xlarge@us-east-1"
SIGNED = 1.1724
"""$/h of reserved-1y in the last plan"""
STARTS = "next: {starts: 2026-10-01}\n"
"""of a quarter of 92 days"""


@pytest.fixture(scope="module")
def last() -> Plan:
    plan = planner.read_plan(EXAMPLE / "last-plan.json")
    (reserved,) = (f for f in plan.fleet if f.purchase == "reserved-1y")
    assert (max(reserved.instances_by_slot), reserved.usd_per_h) == (4, SIGNED)
    return plan


@pytest.fixture(scope="module")
def log(last: Plan) -> str:
    return as_csv(planned_rows(last.case, 28))


def reviewed(folder: Path, plan: Plan, log: str, more: str) -> Reviewed:
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "usage.csv").write_text(log)
    (folder / "REVIEW.yaml").write_text(f"name: q\nlast_plan: plan.json\nusage: usage.csv\n{more}")
    return review_fleet(read_review(folder / "REVIEW.yaml"))


def committed(*held: tuple[int, str], more: str = "") -> str:
    lines = (f"{{offer: {GPU}, purchase: reserved-1y, instances: {n}, lapses: {day}{more}}}" for n, day in held)
    return f"committed: [{', '.join(lines)}]\n"


def advice(review: Review) -> list[tuple[str, int]]:
    return [(line.act, line.instances) for line in review.commitments]


def adds_up(found: Reviewed) -> None:
    """Every figure of the next quarter is its plan and what is held."""
    review, plan, b = found.review, found.next_plan, found.review.bridge
    total = plan.cost_usd_per_month + plan.held_usd_per_month
    assert review.next.figures.cost_usd_per_month == total
    assert review.next.held_usd_per_month == plan.held_usd_per_month
    assert review.next.figures.usd_per_1m_tokens == pytest.approx(1e6 * total / plan.tokens_per_month)
    assert review.trend[-1].next_usd_per_month == total - review.next.overlap_usd_per_month
    parts = (b.volume_usd_per_month, b.mix_usd_per_month, b.price_usd_per_month, b.efficiency_usd_per_month)
    assert b.from_usd_per_month + sum(parts) == pytest.approx(b.to_usd_per_month, abs=1e-6)
    assert b.to_usd_per_month == pytest.approx(total, abs=0.006)
    assert review.next.p90_cost_usd_per_month is None or review.next.p90_cost_usd_per_month >= 0.999 * total


# -- hand arithmetic ------------------------------------------------------------------------------------------


def test_a_held_box_that_is_used_costs_what_it_cost_when_it_was_bought(tmp_path: Path, last: Plan, log: str) -> None:
    found = reviewed(tmp_path, last, log, committed((4, "2027-06-30")) + STARTS)
    adds_up(found)
    assert found.next_plan.held_usd_per_month == pytest.approx(4 * 730 * SIGNED)
    assert {f.purchase: max(f.instances_by_slot) for f in found.next_plan.fleet}[HELD] == 4
    assert not any(f.purchase.startswith("reserved") for f in found.next_plan.fleet)
    assert found.next_plan.total_usd_per_month == pytest.approx(last.cost_usd_per_month, rel=2e-3)
    assert advice(found.review) == [("keep", 4)]
    assert (found.review.next.besides_usd_per_month, found.review.next.overlap_usd_per_month) == (0, 0)
    (line,) = found.review.commitments
    assert line.usd_per_month == pytest.approx(4 * 730 * SIGNED)
    b = found.review.bridge
    assert (b.volume_usd_per_month, b.mix_usd_per_month, b.price_usd_per_month) == (0, 0, 0)
    for text in in_every_format(review_document(found.review)):
        assert "$3,423 / month of the next plan is paid in any case for what is already held" in text


def test_held_boxes_that_stay_idle_are_paid_and_named(tmp_path: Path, last: Plan, log: str) -> None:
    found = reviewed(tmp_path, last, log, committed((20, "2027-06-30")) + STARTS)
    adds_up(found)
    plan = found.next_plan
    used = max(sum(n) for n in zip(*(d.replicas_by_slot for p in plan.pools for d in p.deployments), strict=True))
    assert all(d.deployment.gpus_per_replica == 1 for p in plan.pools for d in p.deployments)
    assert 4 < used < 20
    assert advice(found.review) == [("more than needed", 20 - used), ("keep", used)]
    assert found.review.next.besides_usd_per_month == pytest.approx((20 - used) * 730 * SIGNED)
    assert plan.held_usd_per_month == pytest.approx(20 * 730 * SIGNED)
    assert {f.purchase for f in plan.fleet} == {HELD}
    assert any("paid for commitments that the plan does not use" in r.text for r in found.review.risks)


def test_a_box_that_lapses_in_the_quarter_is_paid_for_its_days(tmp_path: Path, last: Plan, log: str) -> None:
    """Until 2026-11-15: 46 of the 92 days from 2026-10-01 to 2026-12-31."""
    found = reviewed(tmp_path, last, log, committed((4, "2026-11-15")) + STARTS)
    adds_up(found)
    half = 4 * 730 * SIGNED * 46 / 92
    assert found.next_plan.held_usd_per_month == pytest.approx(half)
    assert found.next_plan.case.held is None
    assert advice(found.review) == [("renew", 4)]
    assert found.next_plan.cost_usd_per_month == pytest.approx(last.cost_usd_per_month, rel=2e-3)
    assert found.review.next.besides_usd_per_month == pytest.approx(half)
    assert found.review.next.overlap_usd_per_month == pytest.approx(half)  # signed anew at the same price
    approved = found.next_plan.total_usd_per_month - half
    assert found.review.next.approved_usd_per_month == pytest.approx(approved)
    assert found.review.next.idle_usd_per_month == pytest.approx(0)  # all of them serve until they lapse
    first = f"${approved:,.0f} / month if expiring commitments are used until they lapse"
    for text in in_every_format(review_document(found.review)):
        assert first in text and f"${found.next_plan.total_usd_per_month:,.0f} / month if their replacements" in text
    assert f"to approve for the next plan: ${approved:,.0f} / month" in as_text(review_document(found.review))
    assert found.review.decisions[0].text.startswith(f"approve ${approved:,.0f} a month for the next plan")
    assert not any("does not use" in r.text for r in found.review.risks)
    (line,) = found.review.commitments
    assert (line.lapses, line.usd_per_month) == ("2026-11-15", pytest.approx(4 * 730 * SIGNED))


def test_what_lapses_and_is_not_bought_again_is_let_go(tmp_path: Path, last: Plan, log: str) -> None:
    found = reviewed(tmp_path, last, log, committed((4, "2027-06-30"), (3, "2026-10-31")) + STARTS)
    adds_up(found)
    assert found.next_plan.held_usd_per_month == pytest.approx((4 + 3 * 31 / 92) * 730 * SIGNED)
    assert found.review.next.besides_usd_per_month == pytest.approx(3 * 31 / 92 * 730 * SIGNED)
    assert sum(n for act, n in advice(found.review) if act == "let lapse") == 3
    assert ("keep", 4) in advice(found.review)
    # Until then they can replace up to three of those that are rented.
    (rented,) = (f for f in found.next_plan.fleet if f.purchase == "on-demand")
    hours = sum(
        min(3, n) * s.hours_per_month for n, s in zip(rented.instances_by_slot, found.next_plan.slots, strict=True)
    )
    months = found.next_plan.slots[-1].month + 1
    expected = 31 / 92 * hours / months * rented.usd_per_h
    assert found.review.next.overlap_usd_per_month == pytest.approx(expected)


def test_signed_prices_are_paid(tmp_path: Path, last: Plan, log: str) -> None:
    found = reviewed(tmp_path, last, log, committed((4, "2027-06-30"), more=", price: $9/h") + STARTS)
    adds_up(found)
    assert found.next_plan.held_usd_per_month == pytest.approx(4 * 730 * 9)
    # Its price went up, though nobody pays that who buys now.
    assert found.review.bridge.price_usd_per_month == pytest.approx(4 * 730 * (9 - SIGNED), abs=0.01)


# -- what is held, by whom it is said -------------------------------------------------------------------------


def test_what_the_last_plan_reserved_is_taken_as_bought_and_stays_held(tmp_path: Path, last: Plan, log: str) -> None:
    taken = reviewed(tmp_path, last, log, "")
    assert [(c.act, c.instances, c.lapses) for c in taken.review.commitments] == [("keep", 4, "2027-06-27")]
    assert any("under 'committed'" in d.text for d in taken.review.decisions)
    # The next review takes over what that plan held, without asking.
    (tmp_path / "bill.csv").write_text((EXAMPLE / "bill.csv").read_text())
    again = reviewed(tmp_path, taken.next_plan, log, "bill: bill.csv\nnext: {prices_of_bill: false}\n")
    adds_up(again)
    assert [(c.act, c.instances, c.lapses) for c in again.review.commitments] == [("keep", 4, "2027-06-27")]
    assert not any("under 'committed'" in d.text for d in again.review.decisions)
    assert again.review.planned.cost_usd_per_month == taken.next_plan.total_usd_per_month
    assert again.review.hindsight is not None
    assert again.review.hindsight.cost_usd_per_month == taken.next_plan.total_usd_per_month
    assert again.review.bill is not None
    (reserved,) = (x for x in again.review.bill.instances if x.purchase == "reserved")
    assert (reserved.planned_hours, reserved.planned_usd) == (4 * 672, pytest.approx(4 * 672 * SIGNED, abs=0.01))


@pytest.mark.parametrize(
    ("held", "expected"),
    [("committed: []\n", [("buy", 4)]), (committed((3, "2026-08-31")), [("buy", 1), ("renew", 3)])],
)
def test_without_commitments_the_plan_is_the_last_one(
    tmp_path: Path, last: Plan, log: str, held: str, expected: list[tuple[str, int]]
) -> None:
    found = reviewed(tmp_path, last, log, held)
    assert found.next_plan.case_hash == last.case_hash
    assert advice(found.review) == expected
    assert found.review.decisions[0].text == "keep the last plan: none of its inputs has changed"


HAVE = "have: [{offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 2, price: $1/h, until: 2026-11-30}]\n"


def test_a_demand_file_says_what_is_held(tmp_path: Path, last: Plan, log: str) -> None:
    """Nothing that the last plan reserved is counted besides, and its first day is that of the quarter."""
    (tmp_path / "next.yaml").write_text("starts: 2026-10-01\n" + HAVE + (EXAMPLE / "demand.yaml").read_text())
    found = reviewed(tmp_path, last, log, "next: {demand: next.yaml, forecast: given}\n")
    adds_up(found)
    assert found.next_plan.held_usd_per_month == pytest.approx(2 * 730 * 61 / 92)
    (held,) = planner.load_case(tmp_path / "next.yaml").allowances or ()
    assert (held.held, held.usd_per_h, f"{held.last_day}") == (2, 1.0, "2026-11-30")
    assert advice(found.review) == [("buy", 2), ("renew", 2)]


@for_each(
    ("demand", "more", "message"),
    [
        (HAVE, committed((1, "2027-06-30")), "REVIEW.yaml:4:.*under 'have' in the demand file. Keep one"),
        (
            "policy: {max_gpus: {l40s: 3}}\n",
            committed((4, "2027-06-30")),
            "4 GPUs of l40s are held, more than policy.max_gpus",
        ),
        ("policy: {max_gpus: {l40s: 3}}\n", "", "last_plan: 4 GPUs of l40s are held.* Raise it"),
        ("horizon: 2 quarters\n", "", "it has 'horizon', .*Leave them out"),
    ],
)
def test_what_cannot_be_held_is_named(
    tmp_path: Path, last: Plan, log: str, demand: str, more: str, message: str
) -> None:
    (tmp_path / "next.yaml").write_text("starts: 2026-10-01\n" + demand + (EXAMPLE / "demand.yaml").read_text())
    with pytest.raises(InputError, match=message):
        reviewed(tmp_path, last, log, f"{more}next: {{demand: next.yaml}}\n")


def test_two_first_days_are_one_too_many(tmp_path: Path, last: Plan, log: str) -> None:
    (tmp_path / "next.yaml").write_text("starts: 2026-11-01\n" + (EXAMPLE / "demand.yaml").read_text())
    with pytest.raises(InputError, match=r"next.starts: is 2026-10-01, but the demand file starts on 2026-11-01"):
        reviewed(tmp_path, last, log, "next: {demand: next.yaml, starts: 2026-10-01}\n")


# -- the bridge, and reviews of before ------------------------------------------------------------------------


def priced(case: Case, usd_per_h: float) -> Case:
    offer = case.offers[GPU]
    price = offer.prices.reserved_1y
    assert price is not None
    prices = offer.prices.model_copy(update={"reserved_1y": price.model_copy(update={"usd_per_h": usd_per_h})})
    return case.model_copy(update={"offers": {**case.offers, GPU: offer.model_copy(update={"prices": prices})}})


@for_each(("then", "now", "at_new_price"), [(0, 3, 1), (0, 0, 4), (0, 9, 0), (2, 3, 1), (2, 0, 4)])
def test_what_is_still_held_keeps_its_price(last: Plan, then: int, now: int, at_new_price: int) -> None:
    """Of 4 that were bought, or 2 of them held, so many pay the new price of $2."""

    def holding(n: int, price: float) -> tuple[Holding, ...] | None:
        if not n:
            return None
        return (Holding(offer=GPU, purchase="reserved-1y", instances=n, usd_per_h=price, last_day=date(2027, 6, 30)),)

    lines = tuple(
        f.model_copy(update={"instances_by_slot": (4 - then,) * len(last.slots),
                             "cost_usd_per_month": (4 - then) * 730 * SIGNED})
        if f.purchase == "reserved-1y" else f
        for f in last.fleet
    )  # fmt: skip
    held = last.case.model_copy(update={"held": holding(then, SIGNED)})
    before = last.model_copy(update={"case": held, "fleet": lines, "held_usd_per_month": then * 730 * SIGNED})
    after = last.model_copy(update={"case": priced(last.case, 2.0).model_copy(update={"held": holding(now, SIGNED)})})
    expected = at_new_price * 730 * (2.0 - SIGNED)
    assert bridge(before, after).price_usd_per_month == pytest.approx(expected, abs=0.011)


def test_a_workload_on_held_boxes_is_not_free_in_the_mix(last: Plan) -> None:
    """All instances of a plan held, or all bought at the same price: the same mix."""
    (reserved,) = (f for f in last.fleet if f.purchase == "reserved-1y")
    only = {"gpu_cost_usd_per_month": 0.0}
    usd = {w.name: w.gpu_cost_usd_per_month for w in last.workloads}
    share = 4 * 730 * SIGNED / sum(usd.values())
    bought = tuple(
        w.model_copy(update={"cost_usd_per_month": w.cost_usd_per_month - (1 - share) * usd[w.name]})
        for w in last.workloads
    )
    free = tuple(
        w.model_copy(update={"cost_usd_per_month": w.cost_usd_per_month - usd[w.name], **only}) for w in last.workloads
    )
    holding = Holding(offer=GPU, purchase="reserved-1y", instances=4, usd_per_h=SIGNED, last_day=date(2027, 6, 30))
    held = last.case.model_copy(update={"held": (holding,)})
    before = last.model_copy(update={"workloads": bought})
    around = last.model_copy(update={"workloads": free, "case": held})
    shifted = tuple(
        w.model_copy(update={"tokens_per_month": k * w.tokens_per_month})
        for w, k in zip(last.workloads, (0.5, 2.0), strict=True)
    )
    after = last.model_copy(update={"workloads": shifted, "tokens_per_month": sum(w.tokens_per_month for w in shifted)})
    assert reserved.offer == GPU
    expected = bridge(before, after).mix_usd_per_month
    assert abs(expected) > 1
    assert bridge(around, after).mix_usd_per_month == pytest.approx(expected, rel=1e-3)


def test_a_review_whose_plan_was_made_without_what_is_held_counts_it(last: Plan) -> None:
    made = Review.model_validate_json((EXAMPLE / "reviews" / "2026-Q2.json").read_text())
    old = made.next.model_copy(update={"held_usd_per_month": None, "besides_usd_per_month": 100.0})
    cost = made.next.figures.cost_usd_per_month
    assert point_of(made).next_usd_per_month == cost
    assert point_of(made.model_copy(update={"next": old})).next_usd_per_month == cost + 100
