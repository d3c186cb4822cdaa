"""Savings plans and provisioned units: what is signed and covered, by hand, and that a changed plan is refused."""

from __future__ import annotations

import copy
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.case.allowances import tokens_per_usd
from planner.case.changes import with_api_prices, with_gpu_prices
from planner.checker import check_plan
from planner.checker.policy import check_policy
from planner.checker.policy.schema import policy_from_text
from planner.levers import LEVERS
from planner.plan.account.account import account_of
from planner.plan.account.other_demand import other_demand
from planner.plan.diff import diff_plans
from planner.plan.plan import Plan
from planner.reports.diff import diff_document
from planner.reports.document import Lines
from planner.reports.first_screen import signing
from planner.reports.focus import focus_csv, focus_rows_of
from planner.reports.phrases import fleet_notes
from planner.reports.tables.answers import to_sign
from planner.reports.tables.plan import allowances
from planner.review.bills.bill import BillSpec, read_bill
from planner.review.bills.reconciliation import reconcile
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan
from tests.support.tampering import rehashed

HOURS = 730.0
DOLLARS = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 2M, shape: business-hours}
    tokens: {input: 800, output: 150}
    quality: {max_loss: 2%}
    api: forbidden
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand]}
prices: {aws/g6e.xlarge: {on_demand: $2/h}}
savings_plans: [{name: compute-1y, provider: aws, discount: 40%}]
policy: {startup: 0s}
baseline: openai/gpt-4o-mini
"""
UNITS = """
workloads:
  - name: support
    models: [llama-3.3-70b]
    forecast: {requests_per_day: 400k, shape: business-hours}
    tokens: {input: 1200, output: 300}
  - name: documents
    models: [llama-3.3-70b]
    forecast: {requests_per_day: 60k}
    tokens: {input: 6000, output: 400}
menu: {gpus: [h100], purchase: [on-demand], apis: [azure/gpt-4.1]}
provisioned: [{name: ptu-1y, api: azure/gpt-4.1, price: $0.3/h, term: 1y}]
policy: {engineers: {count: 4, usd_per_year: 300k}}
baseline: azure/gpt-4.1
"""

ALL_HELD = UNITS.replace("term: 1y", "term: 1y, held: 2000")


@cache
def planned(text: str) -> Plan:
    return fleet_plan(planner.case_from_text(text))


def test_a_savings_plan_by_hand() -> None:
    """One kind of instance: dollars are signed up to where 40% off no longer pays."""
    plan = planned(DOLLARS)
    (line,), (signed,) = plan.fleet, plan.allowances or ()
    hours = account_of(plan).hours
    usd = {
        n: HOURS * n * 1.2 + 2 * sum(h * max(0, k - n) for h, k in zip(hours, line.instances_by_slot, strict=True))
        for n in range(max(line.instances_by_slot) + 1)
    }
    best = min(usd, key=lambda n: usd[n])
    assert 0 < best < max(line.instances_by_slot)
    assert signed.units == pytest.approx(1.2 * best)
    assert plan.cost_usd_per_month == pytest.approx(usd[best])
    assert line.cost_usd_per_month == pytest.approx(usd[best])
    in_use = sum(h * min(k, best) for h, k in zip(hours, line.instances_by_slot, strict=True))
    assert signed.used_frac == pytest.approx(in_use / (best * HOURS))
    assert signed.covered_usd_per_month == pytest.approx(2 * in_use)
    assert signed.beyond_horizon_usd == pytest.approx(9 * HOURS * 1.2 * best)


def test_provisioned_units_by_hand() -> None:
    """Prices and weights of output are as four to one, so a unit takes the same of every dollar."""
    plan = planned(UNITS)
    (signed,) = plan.allowances or ()
    (a,) = plan.case.allowances or ()
    assert (a.tokens_per_minute, a.output_weight, a.fewest, a.step) == (3000, 4, 15, 5)
    rates = [tokens_per_usd(plan.case, w, a) for w in plan.case.workloads]
    assert rates == pytest.approx([500_000, 500_000])
    account = account_of(plan)
    bills = sum(account.money.api_bill_usd_per_h(s) for s in account.served)
    holds = 60 * 3000 / 500_000
    usd = {
        n: HOURS * 0.3 * n + sum(h * max(0.0, bill - n * holds) for h, bill in zip(account.hours, bills, strict=True))
        for n in (0, *range(15, 2000, 5))
    }
    best = min(usd, key=lambda n: usd[n])
    assert best > 15
    assert signed.units == best
    assert plan.cost_usd_per_month == pytest.approx(usd[best])
    assert sum(w.cost_usd_per_month for w in plan.workloads) == pytest.approx(usd[best])


def test_what_is_held_is_paid_in_any_case() -> None:
    held = planned(DOLLARS.replace("discount: 40%", "discount: 40%, held: $6/h"))
    (signed,) = held.allowances or ()
    assert signed.held
    assert held.held_usd_per_month == pytest.approx(6 * HOURS)
    assert signed.usd_per_month == pytest.approx(6 * HOURS)
    free = planned(DOLLARS.replace("savings_plans", "availability: {}\nsavings_plans"))
    assert free.total_usd_per_month <= held.total_usd_per_month + 1e-6


@pytest.mark.parametrize("text", [DOLLARS.replace("discount: 40%", "discount: 40%, held: $99/h"), ALL_HELD])
def test_nothing_is_left_to_pay_where_what_is_held_covers_everything(text: str) -> None:
    """The cost of such a plan is rounding, of which no share may be called a gap."""
    plan = planned(text)
    assert plan.cost_usd_per_month == pytest.approx(0.0, abs=1e-6)
    assert (plan.status, plan.gap_frac) == ("optimal", 0.0)
    assert signing(plan).title == "Nothing to sign: everything beyond what is held is pay-as-you-go"
    assert not check_plan(plan.as_json())


def test_work_that_may_wait_takes_no_provisioned_units() -> None:
    """It goes at batch prices, if at all."""
    plan = planned(UNITS.replace("  - name: documents\n", "  - name: documents\n    deadline: 6h\n"))
    documents = plan.case.workloads[1]
    assert documents.deadline_h == 6
    covered = account_of(plan).money.cover.parts
    assert {item for _, item in covered} <= {"support"}


def test_the_menu_switches_them_off() -> None:
    off = planner.case_from_text(
        DOLLARS.replace("purchase: [on-demand]}", "purchase: [on-demand], savings_plans: false}")
    )
    assert off.allowances is None
    on = planned(DOLLARS)
    assert fleet_plan(off).cost_usd_per_month > on.cost_usd_per_month


@pytest.mark.parametrize("text", [DOLLARS, UNITS])
def test_a_changed_amount_is_refused(text: str) -> None:
    data = planned(text).as_json()
    assert not check_plan(data)
    for factor in (0.5, 1.1):
        other = copy.deepcopy(data)
        other["allowances"][0]["units"] *= factor
        assert check_plan(other)


RULES: tuple[tuple[str, dict[str, Any], str], ...] = (
    (UNITS, {"step": 7000.0}, "sold in steps of 7000"),
    (UNITS, {"fewest": 5000.0, "step": None}, "no fewer than 5000 are sold"),
    (UNITS, {"most": 10.0}, "10 allowed"),
    (DOLLARS, {"most": 0.5}, "0.5 allowed"),
    (DOLLARS, {"held": 2.0}, "2 are held, whatever is planned"),
    (UNITS, {"tokens_per_minute": 1500.0}, "covered_usd_per_month"),
    (DOLLARS, {"rates": {"aws/g6e.xlarge@us-east-1": 1.9}}, "covered_usd_per_month"),
)


@for_each(("text", "change", "why"), RULES)
def test_a_plan_against_the_rules_is_refused(text: str, change: dict[str, Any], why: str) -> None:
    """The case inside is another one: what is signed breaks its rules, or covers less."""
    data = planned(text).as_json()
    for key, value in change.items():
        if value is None:
            data["case"]["allowances"][0].pop(key)
        else:
            data["case"]["allowances"][0][key] = value
    rehashed(data)
    assert any(why in problem for problem in check_plan(data))


def test_a_rate_of_an_unknown_offer_is_refused() -> None:
    data = planned(DOLLARS).as_json()
    data["case"]["allowances"][0]["rates"]["aws/none@nowhere"] = 1.0
    rehashed(data)
    assert any("has a rate for aws/none@nowhere, and the case has no such offer" in p for p in check_plan(data))


def test_an_unknown_allowance_is_refused() -> None:
    data = planned(DOLLARS).as_json()
    data["allowances"][0]["name"] = "another"
    assert any("allowances are not those of the case" in problem for problem in check_plan(data))


@pytest.mark.parametrize("text", [DOLLARS, UNITS])
def test_other_demand_knows_what_is_signed(text: str) -> None:
    """At the forecast it costs what the plan does; less demand leaves some of what is signed unused."""
    plan = planned(text)
    low, same = other_demand(plan, (0.5, 1.0))
    assert same.cost_usd_per_month == pytest.approx(plan.cost_usd_per_month)
    (signed,) = plan.allowances or ()
    assert low.cost_usd_per_month > plan.cost_usd_per_month / 2
    assert low.cost_usd_per_month >= signed.usd_per_month


@pytest.mark.parametrize("text", [DOLLARS, UNITS])
def test_what_is_to_be_signed_adds_up(text: str) -> None:
    plan = planned(text)
    (signed,) = plan.allowances or ()
    rows = to_sign(plan).records
    assert sum(row["cost_usd_per_month"] for row in rows[:-1]) == pytest.approx(plan.cost_usd_per_month)
    assert rows[0]["whole_term_usd"] == pytest.approx(12 * signed.usd_per_month)
    (row,) = allowances(plan).records
    assert row is signed
    assert any(note.startswith(signed.name) for note in fleet_notes(plan))
    assert ("lost" in " ".join(fleet_notes(plan))) == (round(signed.used_frac, 3) < 1)


@pytest.mark.parametrize("text", [DOLLARS, UNITS])
def test_they_are_levers(text: str) -> None:
    plan = planned(text)
    lever = next(x for x in LEVERS if x.key == ("savings plans" if text == DOLLARS else "provisioned throughput"))
    assert lever.used(plan)
    assert lever.switch is not None
    assert lever.without(plan.case).allowances is None


@pytest.mark.parametrize("text", [DOLLARS, UNITS])
def test_a_budget_in_rows_of_a_bill_adds_up(text: str) -> None:
    """What is effective is the cost of the plan; what is billed in a month too, for nothing is paid up front."""
    plan = planned(text)
    rows = [r for r in focus_rows_of(plan, date(2027, 1, 1)) if r["BillingPeriodStart"].startswith("2027-01")]
    for column in ("EffectiveCost", "BilledCost"):
        assert sum(float(row[column]) for row in rows) == pytest.approx(plan.cost_usd_per_month, rel=1e-6)
    (signed,) = plan.allowances or ()
    bought = [row for row in rows if row["ChargeCategory"] == "Purchase"]
    assert sum(float(row["BilledCost"]) for row in bought) == pytest.approx(signed.usd_per_month, rel=1e-6)
    unused = sum(float(r["EffectiveCost"]) for r in rows if r.get("CommitmentDiscountStatus") == "Unused")
    assert unused == pytest.approx((1 - signed.used_frac) * signed.usd_per_month, abs=1e-3)


@pytest.mark.parametrize("text", [DOLLARS, DOLLARS.replace("discount: 40%", "discount: 40%, held: $6/h"), UNITS])
def test_a_bill_with_it_reconciles_to_the_cent(text: str, tmp_path: Path) -> None:
    """A bill of what was planned: paid is planned, line by line, and its commitments are used as the plan says."""
    plan = planned(text)
    (tmp_path / "bill.csv").write_text(focus_csv(plan, date(2027, 1, 1)), encoding="utf-8")
    period = datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 4, 1, tzinfo=UTC)
    spec = BillSpec(focus=("bill.csv",))
    hours = 3 * 730
    read = read_bill([tmp_path / "bill.csv"], spec, plan.case.offers, plan.case.apis, period)
    bill = reconcile(read, plan, "team", hours, ())
    besides = plan.costs.engineers_usd_per_month
    assert bill.paid_usd == pytest.approx(3 * (plan.total_usd_per_month - besides), abs=0.01)
    months = bill.hours / HOURS
    for line in bill.instances:
        assert line.planned_usd * 3 / months == pytest.approx(line.paid_usd, abs=0.02)
        assert line.planned_hours * 3 / months == pytest.approx(line.paid_hours, rel=1e-6)
    (signed,), (used,) = plan.allowances or (), bill.commitments
    assert used.utilization_frac == pytest.approx(signed.used_frac, abs=1e-6)
    assert used.used_usd + used.unused_usd == pytest.approx(3 * signed.usd_per_month, abs=0.01)
    assert used.by_spend == (text != UNITS)
    if text != UNITS:  # of hours, where the plan says it of dollars: one kind of instance, so that is the same
        assert used.coverage_frac == pytest.approx(signed.covered_frac, abs=1e-6)


def test_a_provider_grants_a_discount_on_its_list_prices() -> None:
    """On every way to buy; a price of one's own stands."""
    text = DOLLARS.replace("prices: {aws/g6e.xlarge: {on_demand: $2/h}}\n", "")
    text = text.replace("[on-demand]", "[on-demand, spot]")
    listed = planner.case_from_text(text)
    granted = planner.case_from_text(text + "discounts: {aws: 10%}\n")
    for key, offer in granted.offers.items():
        for way, price in offer.prices.by_way().items():
            before = listed.offers[key].prices.by_way()[way]
            for name in ("usd_per_h", "p50_usd_per_h"):
                if hasattr(price, name):
                    assert getattr(price, name) == pytest.approx(0.9 * getattr(before, name))
    own = planner.case_from_text(DOLLARS + "discounts: {aws: 10%}\n")
    stands = own.offers["aws/g6e.xlarge@us-east-1"].prices.on_demand
    assert stands is not None
    assert stands.usd_per_h == 2
    (a,), (b,) = listed.allowances or (), granted.allowances or ()
    assert all(b.rates[key] == pytest.approx(0.9 * rate) for key, rate in (a.rates or {}).items() if b.rates)


def test_prices_scale_with_their_allowances() -> None:
    case = planner.case_from_text(DOLLARS)
    (before,), (after,) = case.allowances or (), with_gpu_prices(0.5)(case).allowances or ()
    assert after.rates == {key: 0.5 * rate for key, rate in (before.rates or {}).items()}
    held = planner.case_from_text(DOLLARS.replace("discount: 40%", "discount: 40%, held: $3/h"))
    assert held.allowances and with_gpu_prices(0.5)(held).allowances == held.allowances
    units = planner.case_from_text(UNITS)
    (more,) = with_api_prices(2.0)(units).allowances or ()
    assert more.usd_per_h == pytest.approx(0.6)


def test_a_diff_names_what_is_signed() -> None:
    before, after = planned(DOLLARS), planned(DOLLARS.replace("discount: 40%", "discount: 50%"))
    found = {(change.of, change.key): (change.before, change.after) for change in diff_plans(before, after).inputs}
    (a,), (b,) = before.allowances or (), after.allowances or ()
    assert found["signed", "compute-1y, units"] == (a.units, b.units)
    assert found["allowances", "compute-1y, aws/g6e.xlarge@us-east-1, $/h"] == (pytest.approx(1.2), pytest.approx(1.0))


def test_a_diff_says_what_is_held_besides() -> None:
    """The cost falls by what is held now and is paid nevertheless."""
    before, after = planned(DOLLARS), planned(DOLLARS.replace("discount: 40%", "discount: 40%, held: $6/h"))
    diff = diff_plans(before, after)
    assert diff.attribution.total_usd_per_month < 0
    more = after.total_usd_per_month - before.total_usd_per_month
    assert more > 0
    (lead,) = diff_document(diff).lead
    assert isinstance(lead, Lines)
    assert f"besides, what is held: $0.00 → $4,380 / month; with it +${more:,.0f}" in lead.lines


def test_a_policy_counts_what_is_owed() -> None:
    plan = planned(DOLLARS)
    (signed,) = plan.allowances or ()
    check = check_policy(plan, policy_from_text("max_commitment_usd: 1000"), None, date(2026, 11, 19))
    rule = next(rule for rule in check.rules if rule.rule == "max_commitment_usd")
    assert not rule.passed
    assert rule.value == pytest.approx(signed.beyond_horizon_usd)
