"""Where each kind of charge goes: nothing is counted twice, nothing is lost, whatever the version of FOCUS."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.io.errors import InputError
from planner.plan.plan import Plan
from planner.plan.saved import read_plan
from planner.reports.focus import focus_csv
from planner.reports.tables.bill import other_services
from planner.review.bills.bill import Bill, BillSpec, at_prices_of_bill, read_bill
from planner.review.bills.cells import in_cents, rounded
from planner.review.bills.reconciliation import reconcile
from planner.review.bills.records import BillReview
from planner.review.review_file import read_review
from tests.support.bill_data import COLUMNS, RESERVED, Charge, as_focus, charge, hours, tags
from tests.support.places import ROOT
from tests.support.rows import for_each

EXAMPLE = ROOT / "examples" / "quarterly-review"
L40S = "aws/g6e.xlarge@us-east-1"
DAY = date(2026, 9, 10)
PERIOD = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
TEN, PRICE = Decimal(10), Decimal("1.75")
SAVINGS: dict[str, Any] = {
    "CommitmentDiscountId": "sp-1", "CommitmentDiscountName": "sp-compute", "PricingCategory": "Committed",
}  # fmt: skip


@pytest.fixture(scope="module")
def plan() -> Plan:
    return read_plan(EXAMPLE / "last-plan.json")


def read(folder: Path, plan: Plan, *files: list[Charge], columns: tuple[str, ...] = COLUMNS, **spec: Any) -> Bill:
    names = [f"bill-{k}.csv" for k in range(len(files))]
    for name, charges in zip(names, files, strict=True):
        (folder / name).write_text(as_focus(charges, columns), encoding="utf-8")
    found = BillSpec(focus=tuple(names), **spec)
    return read_bill([folder / name for name in names], found, plan.case.offers, plan.case.apis, PERIOD)


def reviewed(folder: Path, plan: Plan, *files: list[Charge], **options: Any) -> BillReview:
    return reconcile(read(folder, plan, *files, **options), plan, options.get("team_tag", "team"), 720, ())


def paid(bill: BillReview) -> dict[str, float]:
    return {x.purchase: x.paid_usd for x in bill.instances if x.paid_usd}


def kinds(bill: BillReview) -> dict[str, tuple[float, float]]:
    return {k.kind: (k.billed_usd, k.effective_usd) for k in bill.kinds}


def test_a_commitment_bought_and_used_counts_once(tmp_path: Path, plan: Plan) -> None:
    bought = charge(DAY, 30, BilledCost=500, EffectiveCost=0, ChargeCategory="Purchase", **RESERVED)
    used = hours(DAY, "g6e.xlarge", TEN, PRICE, "Committed", BilledCost=0, EffectiveCost=11, **RESERVED,
                 CommitmentDiscountStatus="Used")  # fmt: skip
    bill = reviewed(tmp_path, plan, [bought, used])
    assert paid(bill) == {"reserved": 11.0}
    assert kinds(bill)["commitments bought"] == (350.0, 0.0)  # 21 of its 30 days
    assert kinds(bill)["outside the period"] == (150.0, 0.0)
    twice = bought | {"EffectiveCost": 500}
    bill = reviewed(tmp_path, plan, [twice, used])
    assert paid(bill) == {"reserved": 11.0}
    assert "has an EffectiveCost in addition to the hours that amortize it" in bill.notes[-1]


def test_a_purchase_that_nothing_amortizes_counts_itself(tmp_path: Path, plan: Plan) -> None:
    bought = charge(DAY, BilledCost=500, EffectiveCost=500, ChargeCategory="Purchase", **RESERVED,
                    SkuMeter="Reservation:g6e.xlarge")  # fmt: skip
    busy = hours(DAY, "g6e.xlarge", TEN, PRICE)
    assert paid(reviewed(tmp_path, plan, [bought, busy])) == {"reserved": 500.0, "on-demand": 17.5}
    unnamed = bought | {"SkuMeter": ""}
    bill = reviewed(tmp_path, plan, [unnamed, busy])
    assert paid(bill) == {"on-demand": 17.5}
    assert [(x.what, x.effective_usd) for x in bill.no_offer] == [("ri-g6e-1y", 500.0)]


def test_hours_whose_cost_is_nowhere_are_named(tmp_path: Path, plan: Plan) -> None:
    free = hours(
        DAY, "g6e.xlarge", TEN, PRICE, "Committed", EffectiveCost=0, **RESERVED, CommitmentDiscountStatus="Used"
    )
    bill = reviewed(tmp_path, plan, [free])
    assert "ri-g6e-1y covered 10 hours whose EffectiveCost is 0" in bill.notes[-1]


def test_what_a_savings_plan_left_unused_goes_where_it_was_used(tmp_path: Path, plan: Plan) -> None:
    ours, theirs = (
        hours(DAY, instance, TEN, PRICE, "Committed", BilledCost=0, EffectiveCost=cost, **SAVINGS,
              CommitmentDiscountStatus="Used")
        for instance, cost in (("g6e.xlarge", 30), ("m7i.large", 10))
    )  # fmt: skip
    unused = charge(DAY, BilledCost=0, EffectiveCost=Decimal("0.02"), CommitmentDiscountStatus="Unused", **SAVINGS)
    bill = reviewed(tmp_path, plan, [ours, theirs, unused])
    assert (kinds(bill)["instances"], kinds(bill)["other services"]) == ((0.0, 30.02), (0.0, 10.0))  # 1.5 and 0.5 cents
    (c,) = bill.commitments
    assert (c.used_usd, c.unused_usd, c.used_hours, c.coverage_frac) == (40.0, 0.02, 20.0, 1.0)
    alone = reviewed(tmp_path, plan, [unused, hours(DAY, "g6e.xlarge", TEN, PRICE)])
    assert [(x.what, x.why) for x in alone.no_offer] == [("sp-compute", "a commitment that nothing in the bill used")]


def test_a_savings_plan_of_the_payer_is_shared_with_the_accounts_that_used_it(tmp_path: Path, plan: Plan) -> None:
    used: dict[str, Any] = {"BilledCost": 0, "CommitmentDiscountStatus": "Used", **SAVINGS}
    ours = hours(DAY, "g6e.xlarge", TEN, PRICE, "Committed", **used | {"EffectiveCost": 30})
    theirs = hours(DAY, "g6e.xlarge", TEN, PRICE, "Committed", SubAccountName="web", **used | {"EffectiveCost": 10})
    unused = charge(DAY, BilledCost=0, EffectiveCost=4, CommitmentDiscountStatus="Unused", SubAccountName="payer",
                    **SAVINGS)  # fmt: skip
    where = {"SubAccountName": "llm-serving"}
    bill = reviewed(tmp_path, plan, [ours, theirs, unused], where=where)
    assert kinds(bill) == {"instances": (0.0, 33.0), "other accounts": (0.0, 11.0)}
    assert bill.commitments[0].used_for == (L40S, "other accounts")
    busy = hours(DAY, "g6e.xlarge", TEN, PRICE)
    assert kinds(reviewed(tmp_path, plan, [busy, unused], where=where))["other accounts"] == (0.0, 4.0)


def test_reserved_capacity_that_idles_is_paid_and_not_used(tmp_path: Path, plan: Plan) -> None:
    idle = hours(DAY, "g6e.xlarge", TEN, PRICE, CapacityReservationStatus="Unused", **tags(team="a"))
    columns = (*COLUMNS, "CapacityReservationStatus")
    bill = reviewed(tmp_path, plan, [idle, hours(DAY, "g6e.xlarge", TEN, PRICE)], columns=columns)
    line = next(x for x in bill.instances if x.purchase == "on-demand")
    assert (line.paid_usd, line.unused_usd, line.paid_hours, line.paid_usd_per_h) == (35.0, 17.5, 10.0, 1.75)


@for_each(
    ("cells", "kind"),
    [
        ({"ChargeCategory": "Tax"}, "taxes"),
        ({"ChargeCategory": "Credit"}, "credits"),
        ({"ChargeCategory": "Adjustment"}, "adjustments"),
        ({"ChargeClass": "Correction"}, "corrections"),
        ({"ChargeCategory": "Tax", "ChargeClass": "Correction"}, "corrections"),
        ({"ChargeCategory": "Purchase", "ServiceName": "Support"}, "other services"),
        ({"SubAccountName": "training"}, "other accounts"),
        (
            {"ChargePeriodStart": "2026-10-01T00:00:00Z", "ChargePeriodEnd": "2026-10-02T00:00:00Z"},
            "outside the period",
        ),
        ({"SkuMeter": "BoxUsage:g6e.xlarge", "RegionId": "eu-west-1"}, "no offer"),
        ({"SkuMeter": "BoxUsage:p5.48xlarge"}, "no offer"),
        ({"SkuMeter": "EBS:VolumeUsage.gp3", "ServiceName": "EC2 - Other"}, "other services"),
        ({"SkuMeter": "BoxUsage:g6e.xlarge", "SkuPriceDetails": '{"OperatingSystem": "Windows"}'}, "no offer"),
        ({"ProviderName": "OpenAI", "PricingUnit": "1M Tokens", "ResourceId": "gpt-99"}, "no offer"),
        ({"ProviderName": "OpenAI", "PricingUnit": "1000 Tokens", "ResourceId": "gpt-4o-mini"}, "apis"),
        ({"SkuId": "OUR-SKU"}, "instances"),
    ],
)
def test_each_charge_has_its_place(tmp_path: Path, plan: Plan, cells: Charge, kind: str) -> None:
    charges = [hours(DAY, "g6e.xlarge", TEN, PRICE), charge(DAY, BilledCost=7, EffectiveCost=5, **cells)]
    options = {"where": {"SubAccountName": "llm-serving"}, "skus": {"OUR-SKU": L40S}}
    bill = reviewed(tmp_path, plan, charges, columns=(*COLUMNS, "SkuPriceDetails"), **options)
    expected = {"instances": (17.5, 17.5)}
    was = expected.get(kind, (0.0, 0.0))
    assert kinds(bill) == expected | {kind: (was[0] + 7, was[1] + 5)}


@for_each(
    ("cells", "tokens"),
    [
        ({"PricingUnit": "1M Tokens", "PricingQuantity": 2, "ConsumedUnit": "", "ConsumedQuantity": ""}, 2e6),
        ({"PricingUnit": "1K tokens", "PricingQuantity": "2.5", "ConsumedUnit": ""}, 2500),
        ({"PricingUnit": "Units", "ConsumedUnit": "Tokens", "ConsumedQuantity": 77}, 77),
        ({"PricingUnit": "1,000,000 Tokens", "PricingQuantity": 3, "ConsumedUnit": "Requests"}, 3e6),
    ],
)
def test_tokens_are_counted_in_whatever_unit(tmp_path: Path, plan: Plan, cells: Charge, tokens: float) -> None:
    gemini = {"google/gemini-2.5-flash": plan.case.apis["openai/gpt-4o-mini"]}
    case = plan.case.model_copy(update={"apis": plan.case.apis | gemini})
    rows = [
        charge(
            DAY, EffectiveCost=3, ProviderName="Google Cloud", ResourceId="gemini-2.5-flash", SkuMeter=meter, **cells
        )
        for meter in ("Input tokens", "Cached input tokens", "Output tokens")
    ]
    bill = reviewed(tmp_path, plan.model_copy(update={"case": case}), rows)
    api = next(x for x in bill.apis if x.paid_usd)
    assert (api.api, api.paid_usd) == ("google/gemini-2.5-flash", 9.0)
    assert (api.input_tokens, api.cached_input_tokens, api.output_tokens) == (2 * tokens, tokens, tokens)


def test_versions_of_focus_name_things_otherwise(tmp_path: Path, plan: Plan) -> None:
    rows = [hours(DAY, "g6e.xlarge", TEN, PRICE), hours(DAY, "g6e.xlarge", TEN, Decimal("0.9"), "Dynamic")]
    expected = paid(reviewed(tmp_path, plan, rows))
    assert expected == {"on-demand": 17.5, "spot": 9.0}
    first = [row | {"x_UsageType": row["SkuMeter"]} for row in rows]
    columns = (*(c for c in COLUMNS if c not in ("SkuMeter", "PricingCategory")), "x_UsageType")
    assert paid(reviewed(tmp_path, plan, first, columns=columns)) == expected
    later = [row | {"ServiceProviderName": row["ProviderName"], "ChargeClass": "NULL"} for row in rows]
    columns = (*(c for c in COLUMNS if c != "ProviderName"), "ServiceProviderName")
    assert paid(reviewed(tmp_path, plan, later, columns=columns)) == expected


def test_rows_that_two_files_have_in_another_order_of_columns_count_once(tmp_path: Path, plan: Plan) -> None:
    rows = [hours(DAY + timedelta(days=k), "g6e.xlarge", TEN, PRICE) for k in range(2)]
    files = [tmp_path / "first.csv", tmp_path / "second.csv"]
    files[0].write_text(as_focus(rows, COLUMNS), encoding="utf-8")
    files[1].write_text(as_focus(rows[1:], COLUMNS[::-1]), encoding="utf-8")
    bill = read_bill(files, BillSpec(focus=("first.csv",)), plan.case.offers, plan.case.apis, PERIOD)
    assert bill.ledger.kinds["repeated"].billed == Decimal("17.5")


def test_the_export_of_a_plan_says_that_its_months_have_730_hours(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "budget.csv").write_text(focus_csv(plan, date(2026, 9, 1)), encoding="utf-8")
    spec = BillSpec(focus=("budget.csv",))
    bill = read_bill([tmp_path / "budget.csv"], spec, plan.case.offers, plan.case.apis, PERIOD)
    assert any("730 h in every month" in note and "+1.4% in a month of 720 h" in note for note in bill.ledger.notes)
    assert not any("730 h" in note for note in reviewed(tmp_path, plan, [hours(DAY, "g6e.xlarge", TEN, PRICE)]).notes)


def test_rows_that_two_files_have_count_once(tmp_path: Path, plan: Plan) -> None:
    rows = [hours(DAY + timedelta(days=k), "g6e.xlarge", TEN, PRICE) for k in range(3)]
    bill = reviewed(tmp_path, plan, rows[:2], rows[1:])
    assert paid(bill) == {"on-demand": 52.5}
    assert kinds(bill)["repeated"] == (17.5, 17.5)
    assert "1 row repeated in several files, counted once" in bill.notes[-1]
    assert paid(reviewed(tmp_path, plan, [rows[0], rows[0]])) == {"on-demand": 35.0}  # one file may say it twice


def test_days_without_charges_and_a_short_bill_are_named(tmp_path: Path, plan: Plan) -> None:
    rows = [hours(DAY + timedelta(days=k), "g6e.xlarge", TEN, PRICE) for k in (0, 1, 3)]
    bill = reviewed(tmp_path, plan, rows)
    assert (bill.hours, bill.paid_usd_per_month) == (96.0, pytest.approx(52.5 * 730 / 96))
    assert "the bill has 96 of the 720 hours under review" in bill.notes[0]
    assert "the bill has no usage on 2026-09-12" in bill.notes[1]


def test_teams_go_by_the_tag_that_is_named(tmp_path: Path, plan: Plan) -> None:
    pairs = {"Tags": json.dumps([{"key": "squad", "value": "b"}])}
    rows = [
        hours(DAY, "g6e.xlarge", TEN, PRICE, **of) for of in (tags(squad="a"), pairs, tags(team="a"), tags(squad=""))
    ]
    assert {t.team: t.usd for t in reviewed(tmp_path, plan, rows, team_tag="squad").teams} == {
        "a": 17.5, "b": 17.5, None: 35.0,
    }  # fmt: skip
    assert (
        "no charge carries the tag 'crew'; there are 'squad' and 'team'"
        in reviewed(tmp_path, plan, rows, team_tag="crew").notes
    )


def test_tags_are_compared_without_regard_to_case(tmp_path: Path, plan: Plan) -> None:
    both = {"Tags": json.dumps({"Team": "b", "team": "a"})}
    rows = [hours(DAY, "g6e.xlarge", TEN, PRICE, **of) for of in (tags(Team="a"), tags(TEAM="b"), both)]
    bill = reviewed(tmp_path, plan, rows)
    assert {t.team: t.usd for t in bill.teams} == {"a": 35.0, "b": 17.5}
    assert "tags are compared without regard to case: 'TEAM', 'Team' and 'team' count as 'team'" in bill.notes
    assert "'Team' counts as 'team'" in reviewed(tmp_path, plan, rows[:1]).notes[-1]
    exact = [hours(DAY, "g6e.xlarge", TEN, PRICE, **tags(team="a"))]
    assert not any("regard to case" in note for note in reviewed(tmp_path, plan, exact).notes)


@for_each(
    ("sku", "kind"),
    [
        ("gpt-4o-mini-input", "input"),
        ("gpt-4o-mini-output", "output"),
        ("gpt-4o-mini-cached-input", "cached"),
        ("gpt-4o-mini-2024-07-18, cached input", "cached"),
        ("gpt-4o-mini-2024-07-18-output", "output"),
        ("gpt-4o-mini.OutputTokens", "output"),
        ("gpt-4o-mini_completion_tokens", "output"),
    ],
)
def test_a_sku_that_ends_with_the_kind_of_its_tokens_is_of_the_model(
    tmp_path: Path, plan: Plan, sku: str, kind: str
) -> None:
    row = charge(DAY, EffectiveCost=3, ProviderName="OpenAI", ServiceName="OpenAI API", SkuId=sku, RegionId="",
                 ServiceCategory="AI and Machine Learning", PricingUnit="Tokens", PricingQuantity=5)  # fmt: skip
    (api,) = (x for x in reviewed(tmp_path, plan, [row]).apis if x.paid_usd)
    found = {"input": api.input_tokens - api.cached_input_tokens, "cached": api.cached_input_tokens,
             "output": api.output_tokens}  # fmt: skip
    assert (api.api, {name for name, n in found.items() if n}) == ("openai/gpt-4o-mini", {kind})


def test_a_price_of_the_bill_replaces_the_menu_s(tmp_path: Path, plan: Plan) -> None:
    old = hours(DAY, "g6e.xlarge", TEN, Decimal("1.60"))
    spot = hours(DAY, "g6e.xlarge", TEN, Decimal("0.8"), "Dynamic")
    bill = read(tmp_path, plan, [old, hours(DAY + timedelta(days=1), "g6e.xlarge", TEN, PRICE), spot])
    case, prices = at_prices_of_bill(plan.case, bill)
    before = plan.case.offers[L40S].prices
    assert before.on_demand is not None and before.spot is not None
    # Reserved follows on demand as long as its discount is an assumption; spot is not on this menu.
    assert {p.purchase for p in prices} <= {"on-demand", "reserved-1y"}
    assert case.offers[L40S].prices.on_demand.usd_per_h == 1.75  # type: ignore[union-attr]
    assert case.offers[L40S].prices.spot == before.spot
    # A list price never counts beside a contracted one, however late.
    listed = hours(DAY + timedelta(days=2), "g6e.xlarge", TEN, Decimal("2.5"), ContractedUnitPrice="")
    case, _ = at_prices_of_bill(plan.case, read(tmp_path, plan, [old, listed]))
    assert case.offers[L40S].prices.on_demand.usd_per_h == 1.6  # type: ignore[union-attr]
    same = hours(DAY, "g6e.xlarge", TEN, Decimal(str(before.on_demand.usd_per_h)))
    assert at_prices_of_bill(plan.case, read(tmp_path, plan, [same])) == (plan.case, ())


CHARGES = st.builds(
    lambda day, days, billed, effective, cells: charge(
        date(2026, 8, 25) + timedelta(days=day), days, BilledCost=billed, EffectiveCost=effective, **cells
    ),
    st.integers(0, 45),
    st.sampled_from([1, 1, 1, 31]),
    st.decimals(-500, 5000, places=7),
    st.decimals(-500, 5000, places=7),
    st.sampled_from([
        {"SkuMeter": "BoxUsage:g6e.xlarge"}, {"SkuMeter": "SpotUsage:g6e.xlarge", "PricingCategory": "Dynamic"},
        {"SkuMeter": "BoxUsage:p5.48xlarge"}, {"SkuMeter": "BoxUsage:m7i.large"}, {"ChargeCategory": "Tax"},
        {"ChargeCategory": "Credit"}, {"ChargeClass": "Correction"}, {"ChargeCategory": "Purchase", **SAVINGS},
        {"CommitmentDiscountStatus": "Unused", **SAVINGS}, {"BillingCurrency": "EUR"},
        {"CommitmentDiscountStatus": "Used", "SkuMeter": "BoxUsage:g6e.xlarge", **SAVINGS},
        {"CommitmentDiscountStatus": "Used", "SkuMeter": "BoxUsage:m7i.large", **SAVINGS},
        {"ProviderName": "OpenAI", "PricingUnit": "Tokens", "ResourceId": "gpt-4o-mini"},
    ]),
)  # fmt: skip


@given(charges=st.lists(CHARGES, max_size=25))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_charges_all_of_them_are_somewhere(tmp_path: Path, plan: Plan, charges: list[Charge]) -> None:
    charges = [*charges, hours(DAY, "g6e.xlarge", Decimal(10**6), PRICE)]  # so that most of it is of the plan
    bill = reviewed(tmp_path, plan, charges)
    usd = [c for c in charges if c["BillingCurrency"] == "USD"]
    for column, total, parts in (
        ("BilledCost", bill.total_billed_usd, [k.billed_usd for k in bill.kinds]),
        ("EffectiveCost", bill.total_effective_usd, [k.effective_usd for k in bill.kinds]),
    ):
        exact = sum((Decimal(str(c[column])) for c in usd), Decimal(0))
        assert round(100 * total) == rounded(exact) == sum(round(100 * part) for part in parts)
    assert sum(k.rows for k in bill.kinds) == len(usd)
    counted = sum(round(100 * k.effective_usd) for k in bill.kinds if k.counted)
    lines = [x.paid_usd for x in bill.instances] + [x.paid_usd for x in bill.apis]
    assert round(100 * bill.paid_usd) == counted == sum(round(100 * x) for x in lines)
    assert counted == sum(round(100 * t.usd) for t in bill.teams)


@given(parts=st.lists(st.decimals(-1000, 1000, places=5), max_size=12))
def test_cents_add_up_and_are_near(parts: list[Decimal]) -> None:
    cents = in_cents(parts)
    assert sum(cents) == rounded(sum(parts, Decimal(0)))
    assert all(abs(c - 100 * part) < 1 for c, part in zip(cents, parts, strict=True))


# -- bills that are none --------------------------------------------------------------------------------------


def complaint(folder: Path, plan: Plan, *charges: Charge, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        read(folder, plan, list(charges), **options)
    return str(error.value)


@for_each(
    ("cells", "message"),
    [
        ({"BilledCost": ""}, "bill-0.csv:3: BilledCost: expected an amount of money, got ''"),
        ({"EffectiveCost": "1,200.50"}, "bill-0.csv:3: EffectiveCost: expected an amount of money, got '1,200.50'"),
        ({"EffectiveCost": "nan"}, "bill-0.csv:3: EffectiveCost: expected an amount of money"),
        ({"EffectiveCost": "1e300"}, "bill-0.csv:3: EffectiveCost: expected an amount of money"),
        ({"ConsumedQuantity": "ten"}, "bill-0.csv:3: ConsumedQuantity: expected a number, got 'ten'"),
        ({"ContractedUnitPrice": "-3"}, "bill-0.csv:3: ContractedUnitPrice: expected a price in USD, got '-3'"),
        ({"ChargePeriodStart": "yesterday"}, "bill-0.csv:3: ChargePeriodStart: expected a time such as"),
        ({"ChargePeriodEnd": "2026-09-01"}, "bill-0.csv:3: ChargePeriodEnd: is before ChargePeriodStart"),
        ({"ChargeCategory": "Refund"}, "bill-0.csv:3: ChargeCategory: expected Usage, Purchase, Tax, Credit or"),
        ({"Tags": "team=a"}, "bill-0.csv:3: Tags: expected a JSON object, got 'team=a'"),
        ({"SkuPriceDetails": "[1]"}, "bill-0.csv:3: SkuPriceDetails: expected a JSON object, got '[1]'"),
    ],
)
def test_a_bad_cell_is_named_by_file_row_and_column(tmp_path: Path, plan: Plan, cells: Charge, message: str) -> None:
    good = hours(DAY, "g6e.xlarge", TEN, PRICE)
    assert message in complaint(tmp_path, plan, good, good | cells, good, columns=(*COLUMNS, "SkuPriceDetails"))


def test_all_bad_rows_are_named_at_once(tmp_path: Path, plan: Plan) -> None:
    bad = [hours(DAY, "g6e.xlarge", TEN, PRICE, BilledCost=f"x{k}") for k in range(4)]
    with pytest.raises(InputError) as error:
        read(tmp_path, plan, bad)
    assert [d.line for d in error.value.diagnostics] == [2, 3, 4, 5]


def test_files_that_are_no_bill_of_the_period_are_refused(tmp_path: Path, plan: Plan) -> None:
    good = hours(DAY, "g6e.xlarge", TEN, PRICE)
    assert "has no rows" in complaint(tmp_path, plan)
    assert "has no column 'EffectiveCost'" in complaint(
        tmp_path, plan, good, columns=tuple(c for c in COLUMNS if c != "EffectiveCost")
    )
    assert "has no column 'ProviderName'" in complaint(
        tmp_path, plan, good, columns=tuple(c for c in COLUMNS if c != "ProviderName")
    )
    assert "has no column 'CostCenter'" in complaint(tmp_path, plan, good, where={"CostCenter": "7"})
    assert "has no charge in USD, but in EUR" in complaint(tmp_path, plan, good | {"BillingCurrency": "EUR"})
    late = hours(date(2026, 12, 1), "g6e.xlarge", TEN, PRICE)
    message = complaint(tmp_path, plan, late)
    assert "has no usage from 2026-09-01 to 2026-09-30; it goes from 2026-12-01 to 2026-12-02" in message


def test_parquet_without_a_reader_of_it_says_what_to_install(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bill.parquet").write_bytes(b"PAR1" + b"\0" * 20)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"needs a reader of Parquet. Install it: pip install 'fleetplan\[parquet\]'"):
        read_bill([tmp_path / "bill.parquet"], BillSpec(focus=("bill.parquet",)), {}, {}, PERIOD)


@for_each(
    ("more", "said"),
    [
        ("bill: nowhere.csv\n", "REVIEW.yaml:4:.*bill: 'nowhere.csv': there is no such file"),
        (
            "bill: bill.csv\nbill_usd_per_month: 5\n",
            "REVIEW.yaml:5.*is given in addition to 'bill'. Keep one of the two",
        ),
        ("bill: [bill.csv, bill.csv]\n", "REVIEW.yaml:4.*'bill.csv' is named twice"),
        (
            "bill: {focus: bill.csv, skus: {A: aws/g6e.xlarg@us-east-1}}\n",
            "is called.*Did you mean 'aws/g6e.xlarge@us-",
        ),
        ("bill: {focus: bill.csv, where: {SubAccountName: [a, b]}}\n", "bill.csv: has no usage from 2026-08-31"),
        ("bill: {focus: bill.csv, where: {SubAccountName: 7}}\n", "REVIEW.yaml:4.*bill.where"),
        ("bill: {file: bill.csv}\n", "REVIEW.yaml:4.*unknown key 'file'"),
        ("bill: 12\n", "REVIEW.yaml:4"),
        ("bill: []\n", "REVIEW.yaml:4"),
    ],
)
def test_mistakes_of_the_review_file_are_at_their_line(tmp_path: Path, more: str, said: str) -> None:
    for name in ("last-plan.json", "usage.csv", "bill.csv"):
        (tmp_path / name).symlink_to(EXAMPLE / name)
    (tmp_path / "REVIEW.yaml").write_text(f"name: q\nlast_plan: last-plan.json\nusage: usage.csv\n{more}")
    with pytest.raises(InputError, match=said):
        read_review(tmp_path / "REVIEW.yaml")


def test_long_lists_are_short_for_people_and_whole_in_files(tmp_path: Path, plan: Plan) -> None:
    others = [charge(DAY, EffectiveCost=k + 1, ServiceName=f"service {k:02d}") for k in range(40)]
    database = charge(DAY, EffectiveCost=3, CommitmentDiscountStatus="Used", ServiceName="Databases",
                      **SAVINGS | {"CommitmentDiscountId": "db-1"})  # fmt: skip
    bill = reviewed(tmp_path, plan, [hours(DAY, "g6e.xlarge", TEN, PRICE), database, *others])
    table = other_services(bill)
    assert table.view("text").rows[-1] == ("and 29 more", 29, float(sum(range(1, 29)) + 3))
    assert sum(row[2] for row in table.view("csv").rows) == 823.0  # type: ignore[misc]
    assert bill.commitments == ()  # of other services alone
