"""Bills of FOCUS 1.0, as providers write them: types in own columns or in words, GPU-hours, other currencies."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planner.catalog.entries import shipped_catalog
from planner.catalog.importing.focus import instance_of
from planner.catalog.importing.importing import import_prices
from planner.catalog.importing.quotes import Rate
from planner.io.errors import InputError
from planner.plan.plan import Plan
from planner.plan.saved import read_plan
from planner.reports.markdown import as_markdown
from planner.reports.page import as_page
from planner.reports.review import review_document
from planner.reports.tables.bill import bill_sentences, effective_costs
from planner.reports.text import as_text
from planner.review import bill_advice
from planner.review.bills.bill import Bill, BillSpec, at_prices_of_bill, read_bill
from planner.review.bills.reconciliation import reconcile
from planner.review.bills.records import BillReview
from planner.review.quarter import Reviewed, review_fleet
from planner.review.review_file import read_review
from planner.review.savings_plans import with_savings_plans
from tests.support.bill_data import Charge, as_focus, charge
from tests.support.places import ROOT
from tests.support.review_data import as_csv, planned_rows
from tests.support.rows import for_each
from tests.support.shown import in_every_format

EXAMPLE = ROOT / "examples" / "quarterly-review"
L40S, L4 = "aws/g6e.xlarge@us-east-1", "gcp/g2-standard-48@europe-west4"
DAY = date(2026, 9, 10)
PERIOD = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
EUR = {"EUR": Rate(Decimal("1.10"), date(2026, 9, 30))}
COLUMNS = (
    "BilledCost", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd", "ChargeCategory", "ChargeDescription",
    "ChargePeriodStart", "ChargePeriodEnd", "CommitmentDiscountId", "CommitmentDiscountStatus",
    "CommitmentDiscountType", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "EffectiveCost", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "RegionId", "ResourceId",
    "ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "Tags", "x_InstanceType",
)  # fmt: skip
ON_DEMAND = "$1.861 per On Demand Linux g6e.xlarge Instance Hour"


def hours(number: float, cost: str, described: str = ON_DEMAND, **cells: object) -> Charge:
    """Hours of a day, with words only to say of what."""
    usual: Charge = {
        "EffectiveCost": Decimal(cost), "ChargeDescription": described, "ConsumedQuantity": number,
        "ConsumedUnit": "Hours", "PricingQuantity": number, "PricingUnit": "Hours", "PricingCategory": "Standard",
        "ListUnitPrice": "1.861", "SkuId": "A1", "SkuPriceId": "A1.OD",
    }  # fmt: skip
    return charge(DAY, **(usual | cells))


def savings_plan(status: str, cost: str, number: float = 0, **cells: object) -> Charge:
    words = "USD 1.1 effective hourly, Linux g6e.xlarge" if status == "Used" else "Unused commitment"
    of = {
        "BilledCost": 0, "CommitmentDiscountId": "sp-7", "CommitmentDiscountStatus": status,
        "CommitmentDiscountType": "Compute Savings Plan", "PricingCategory": "Committed", "SkuId": "",
        "SkuPriceId": "",
    }  # fmt: skip
    if status == "Unused":
        of |= {"ConsumedQuantity": "", "PricingQuantity": ""}
    return hours(number, cost, words, **(of | cells))


def google(
    number: float, cost: str, described: str = "Nvidia L4 GPU running in Netherlands", **cells: object
) -> Charge:
    usual: Charge = {
        "ProviderName": "Google Cloud", "RegionId": "europe-west4", "ServiceName": "Compute Engine",
        "ResourceId": "vm-9", "SkuId": "L4-GPU", "SkuPriceId": "L4-GPU.OD", "ListUnitPrice": "",
    }  # fmt: skip
    return hours(number, cost, described, **(usual | cells))


@pytest.fixture(scope="module")
def plan() -> Plan:
    """The example's, with a machine of four L4 on its menu."""
    last = read_plan(EXAMPLE / "last-plan.json")
    offers = last.case.offers | {L4: shipped_catalog().offers[L4]}
    return last.model_copy(update={"case": last.case.model_copy(update={"offers": offers})})


def read(folder: Path, plan: Plan, rows: list[Charge], rates: dict[str, Rate] | None = None, **spec: Any) -> Bill:
    columns = (*COLUMNS, *sorted({name for row in rows for name in row if name.startswith("x_")} - {*COLUMNS}))
    (folder / "bill.csv").write_text(as_focus(rows, columns), encoding="utf-8")
    found = BillSpec(focus=("bill.csv",), **spec)
    return read_bill([folder / "bill.csv"], found, plan.case.offers, plan.case.apis, PERIOD, rates)


def reviewed(folder: Path, plan: Plan, rows: list[Charge], **options: Any) -> BillReview:
    return reconcile(read(folder, plan, rows, **options), plan, "team", 720, ())


def costs(bill: BillReview) -> dict[object, tuple[object, ...]]:
    """Hours, used, not used and effective cost by instance."""
    return {row[0]: row[1:] for row in effective_costs(bill).rows}


# -- instance types -------------------------------------------------------------------------------------------


@for_each(
    ("provider", "cells", "expected"),
    [
        ("aws", {"x_InstanceType": "g6e.xlarge"}, "g6e.xlarge"),
        ("aws", {"ChargeDescription": ON_DEMAND}, "g6e.xlarge"),
        ("aws", {"ChargeDescription": "p6-b200.48xlarge Linux/UNIX Spot Instance-hour in US East"}, "p6-b200.48xlarge"),
        ("aws", {"ChargeDescription": "Linux/UNIX (Amazon VPC), g5.metal reserved instance applied"}, "g5.metal"),
        ("aws", {"ChargeDescription": "$0.05 per hour of ml.g5.xlarge hosting"}, ""),
        ("aws", {"ChargeDescription": "$1.20 per db.r5.large instance hour"}, ""),
        ("aws", {"ChargeDescription": "r6g.large.search in us-east-1"}, ""),
        ("aws", {"ChargeDescription": "$0.27 per hour for EMR g5.xlarge", "ServiceCategory": "Analytics"}, ""),
        ("azure", {"x_SkuDetails": '{"ServiceType": "Standard_ND96isr_H100_v5"}'}, "Standard_ND96isr_H100_v5"),
        ("azure", {"x_SkuInstanceType": "Standard_NC40ads_H100_v5"}, "Standard_NC40ads_H100_v5"),
        ("azure", {"x_SkuMeterName": "ND96isr H100 v5 Spot"}, "Standard_ND96isr_H100_v5"),
        ("azure", {"ChargeDescription": "Virtual Machines NCads A100 v4 Series - NC24ads A100 v4 - US East"},
         "Standard_NC24ads_A100_v4"),
        ("azure", {"ChargeDescription": "Virtual Machines Dsv3 Series - D2s v3 - US East"}, ""),
        ("gcp", {"Tags": json.dumps([{"key": "compute.googleapis.com/machine_spec", "value": "g2-standard-48",
                                      "x_type": "system_label"}])}, "g2-standard-48"),
        ("gcp", {"ChargeDescription": "a3-highgpu-8g running in Iowa"}, "a3-highgpu-8g"),
        ("gcp", {"ChargeDescription": "Nvidia L4 GPU running in Netherlands"}, ""),
    ],
)  # fmt: skip
def test_types_are_found_where_exports_have_them(provider: str, cells: dict[str, str], expected: str) -> None:
    details = json.loads(cells.get("x_SkuDetails", "{}"))
    assert instance_of({"ServiceCategory": "Compute", **cells}, provider, details) == expected


def test_what_a_savings_plan_covers_and_other_currencies_add_up_to_the_cent(tmp_path: Path, plan: Plan) -> None:
    rows = [
        hours(24, "44.66", "", x_InstanceType="g6e.xlarge"),
        hours(24, "44.66", ResourceId="i-02", Tags='{"Team": "search"}'),
        savings_plan("Used", "26.40", 24),
        savings_plan("Unused", "3.10"),
        google(96, "50.00", BillingCurrency="EUR", ConsumedUnit="GPU-Hours", PricingUnit="GPU-Hours"),
    ]
    bill = reviewed(tmp_path, plan, rows, rates=EUR, skus={"vm-9": L4})
    assert costs(bill) == {L40S: (72.0, 115.72, 3.10, 118.82), L4: (24.0, 55.0, 0.0, 55.0)}
    (c,) = bill.commitments
    assert (c.name, c.by_spend, c.used_usd, c.unused_usd) == ("sp-7", True, 26.4, 3.1)
    assert (bill.paid_usd, bill.total_effective_usd) == (173.82, 173.82)
    (converted,) = bill.converted_currencies
    assert (converted.currency, converted.effective, converted.effective_usd) == ("EUR", 50.0, 55.0)
    said = " ".join(bill_sentences(bill))
    assert "50.00 EUR of the bill counts as $55.00, at 1.1 USD on 2026-09-30" in said
    assert "savings plan sp-7: $26.40 used, $3.10 not used" in said
    assert {t.team: t.usd for t in bill.teams} == {"search": 44.66, None: 126.06, "(not used)": 3.1}


def test_words_tell_other_systems_and_spot(tmp_path: Path, plan: Plan) -> None:
    rows = [
        hours(24, "44.66"),
        hours(10, "9.00", "g6e.xlarge Linux/UNIX Spot Instance-hour in US East", PricingCategory=""),
        hours(10, "20.00", "$2 per On Demand Windows g6e.xlarge Instance Hour"),
    ]
    bill = reviewed(tmp_path, plan, rows)
    assert {x.purchase: x.paid_usd for x in bill.instances if x.paid_usd} == {"on-demand": 44.66, "spot": 9.0}
    assert [(x.what, x.why) for x in bill.no_offer] == [(L40S, "operating system other than Linux")]


# -- GPU-hours ------------------------------------------------------------------------------------------------


@for_each("unit", ["GPU-Hours", "GPU Hours", "Hours", "hour", "seconds"])
@for_each("by", ["sku", "resource", "label"])
def test_gpu_hours_are_hours_of_machines_with_so_many_gpus(tmp_path: Path, plan: Plan, unit: str, by: str) -> None:
    label = json.dumps([{"key": "compute.googleapis.com/machine_spec", "value": "g2-standard-48"}])
    cells = {"Tags": label if by == "label" else "{}", "ConsumedUnit": unit, "PricingUnit": unit}
    skus = {"sku": {"L4-GPU": L4}, "resource": {"vm-9": L4}, "label": {}}[by]
    number = 96 * 3600 if unit == "seconds" else 96
    bill = reviewed(tmp_path, plan, [hours(24, "44.66"), google(number, "55.00", **cells)], skus=skus)
    assert costs(bill)[L4] == (24.0, 55.0, 0.0, 55.0)


def test_cores_and_memory_cost_and_are_no_hours(tmp_path: Path, plan: Plan) -> None:
    """As Google Cloud's view has them: a row for each part of a machine, categories in lower case."""
    label = {"Tags": json.dumps([{"key": "compute.googleapis.com/machine_spec", "value": "g2-standard-48"}])}
    google_s = {**label, "ChargeCategory": "usage", "PricingCategory": "standard",
                "ServiceCategory": '["GCP", "Compute", "GCE"]'}  # fmt: skip
    rows = [
        google(96, "50.00", **google_s),
        google(48 * 24, "20.00", "G2 Instance Core running in Netherlands", **google_s),
        google(192 * 24, "6.00", "G2 Instance Ram running in Netherlands", **google_s | {"ConsumedUnit": "GiBy.h"}),
        google(48, "10.00", "Nvidia L4 GPU attached to Spot Preemptible VMs running in Netherlands", **google_s),
    ]
    bill = reviewed(tmp_path, plan, rows)
    assert costs(bill) == {L4: (36.0, 86.0, 0.0, 86.0)}
    assert {x.purchase: (x.paid_hours, x.paid_usd) for x in bill.instances if x.paid_usd} == {
        "on-demand": (24.0, 76.0), "spot": (12.0, 10.0),
    }  # fmt: skip


def test_gpu_hours_of_no_machine_are_asked_about(tmp_path: Path, plan: Plan) -> None:
    rows = [
        hours(48, "89.32"),
        google(96, "55.00"),
        google(9, "2.00", "G2 Instance Core running in Netherlands"),
        google(9, "3.00", "N2 Instance Core running in Netherlands"),
    ]
    bill = reviewed(tmp_path, plan, rows)
    assert [(x.what, x.gpu_hours, x.hours, x.effective_usd) for x in bill.no_offer] == [
        ("gcp/Nvidia L4 GPU@europe-west4", 96.0, 0.0, 55.0),
        ("gcp/G2 machines@europe-west4", 0.0, 0.0, 2.0),
    ]
    assert [x.service for x in bill.other_services] == ["Compute Engine"]
    (asked,) = (d.text for d in bill_advice.decisions_of(bill) if "GPU-hours" in d.text)
    assert "96 GPU-hours of gcp/Nvidia L4 GPU@europe-west4: name their machine type under bill: skus" in asked


# -- fees on top ----------------------------------------------------------------------------------------------

LABEL = {"Tags": json.dumps({"compute.googleapis.com/machine_spec": "g2-standard-48"}), "ResourceId": "vm-1"}
EKS, EMR = "Amazon Elastic Kubernetes Service", "Amazon Elastic MapReduce"


@for_each(
    "fee",
    [
        hours(24, "5.36", ServiceName=EKS, x_UsageType="USE1-EKS-Auto:g6e.xlarge", ContractedUnitPrice="0.22"),
        hours(24, "5.36", "EKS Auto Mode for g6e.xlarge", ServiceName=EKS),
        hours(24, "5.36", "", ServiceName=EKS, x_InstanceType="g6e.xlarge"),
        hours(24, "5.36", ServiceName=EMR, ServiceCategory="Analytics", x_UsageType="BoxUsage:g6e.xlarge"),
        hours(24, "5.36", x_UsageType="USE1-EBSOptimized:g6e.xlarge"),
        hours(24, "5.36", "", ResourceId="i-01", x_UsageType="USE1-DataTransfer-Out-Bytes", PricingUnit="GB"),
        google(24, "5.36", "External IP Charge on a Standard VM", **LABEL),
        google(24, "5.36", "SSD backed Local Storage in Netherlands", **LABEL),
        google(24, "5.36", "Network Inter Zone Egress", **LABEL | {"ResourceId": "vm-9"}),
        google(24, "5.36", "Licensing Fee for Ubuntu Pro (GPU cost)", **LABEL),
    ],
)
def test_fees_on_top_of_an_instance_are_none_of_its_hours(tmp_path: Path, plan: Plan, fee: Charge) -> None:
    rows = [hours(24, "44.66", x_UsageType="USE1-BoxUsage:g6e.xlarge"), google(96, "55.00", **LABEL), fee]
    found = read(tmp_path, plan, rows, skus={"i-01": L40S, "vm-9": L4})
    bill = reconcile(found, plan, "team", 720, ())
    assert costs(bill) == {L40S: (24.0, 44.66, 0.0, 44.66), L4: (24.0, 55.0, 0.0, 55.0)}
    assert [(x.service, x.effective_usd) for x in bill.other_services] == [(fee["ServiceName"], 5.36)]
    assert {(q.key, q.usd_per_h) for q in found.quotes} == {(L40S, 1.861)}


@for_each(
    "meter", ["BoxUsage", "EU-SpotUsage", "USW2-LAX1-BoxUsage", "UnusedBox", "APN1-UnusedDed", "HostBoxUsage",
              "DedicatedUsage", "Reservation", "EUC1-HeavyUsage"],
)  # fmt: skip
def test_meters_of_instances_are_known_with_their_region(meter: str) -> None:
    row = {"ServiceCategory": "Compute", "ServiceName": "Amazon Elastic Compute Cloud"}
    assert instance_of({**row, "x_UsageType": f"{meter}:p5.48xlarge"}, "aws", {}) == "p5.48xlarge"


@pytest.mark.parametrize("seller", ["Amazon", "Amazon Web Services EMEA SARL"])
def test_sellers_go_by_several_names(tmp_path: Path, plan: Plan, seller: str) -> None:
    assert set(costs(reviewed(tmp_path, plan, [hours(24, "44.66", ProviderName=seller)]))) == {L40S}


def test_licenses_are_no_price_of_a_machine(tmp_path: Path) -> None:
    machine: Charge = {"ProviderName": "Microsoft", "RegionId": "eastus", "x_InstanceType": "Standard_NC24ads_A100_v4",
                       "ServiceName": "Virtual Machines", "ListUnitPrice": "3.673"}  # fmt: skip
    license_ = machine | {"ServiceName": "Virtual Machines Licenses", "ListUnitPrice": "0.10"}
    rows = [hours(24, "88.15", "NC24ads A100 v4", **machine), hours(24, "2.40", "24 vCPU VM License", **license_)]
    (tmp_path / "bill.csv").write_text(as_focus(reversed(rows), COLUMNS), encoding="utf-8")
    (offer,) = import_prices(tmp_path / "bill.csv", "focus").offers.values()
    assert offer.prices.on_demand is not None and offer.prices.on_demand.usd_per_h == 3.673


# -- bills that match nothing ---------------------------------------------------------------------------------


def test_a_bill_of_which_most_matches_nothing_is_refused(tmp_path: Path, plan: Plan) -> None:
    rows = [hours(24, "44.66"), google(96, "71.00"), hours(3, "30.00", "p5.48xlarge Linux")]
    with pytest.raises(InputError, match="Name it under bill: skus") as error:
        read(tmp_path, plan, rows)
    assert [(d.line, d.where, d.message) for d in error.value.diagnostics] == [
        (3, "gcp/Nvidia L4 GPU@europe-west4",
         "$71.00 of $145.66 match no offer: part of a machine of unknown type"),
        (4, "aws/p5.48xlarge@us-east-1", "$30.00 of $145.66 match no offer: not on the plan's menu"),
    ]  # fmt: skip
    skus = {"L4-GPU": "other", "p5.48xlarge": "other"}
    bill = reviewed(tmp_path, plan, rows, skus=skus)
    assert {k.kind: k.effective_usd for k in bill.kinds} == {"instances": 44.66, "other services": 101.0}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([hours(24, "44.66", "Compute")], "bill.csv:2: .* match no offer: no column says"),
        ([charge(DAY, EffectiveCost=5, ServiceName="Queues", ServiceCategory="Integration")],
         "bill.csv: no charge is for an instance or API of the plan; it has 'Queues'. Check that it is the right bill"),
        ([hours(24, "44.66", BillingCurrency="EUR")], "but in EUR. Give a rate of the period, rates: {EUR: {usd"),
    ],
)  # fmt: skip
def test_a_bill_of_nothing_that_is_known_is_refused(tmp_path: Path, plan: Plan, rows: list[Charge], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(tmp_path, plan, rows)


# -- prices ---------------------------------------------------------------------------------------------------


def test_prices_are_imported_from_the_same_file(tmp_path: Path, plan: Plan) -> None:
    rows = [
        hours(24, "44.66", "", x_InstanceType="g6e.xlarge"),
        savings_plan("Used", "26.40", 24),
        google(96, "50.00", BillingCurrency="EUR", PricingUnit="GPU-Hours"),
        hours(2, "10.00", "On Demand Linux g6e.12xlarge", RegionId="eu-central-1", BillingCurrency="EUR",
              ListUnitPrice="5.00"),
    ]  # fmt: skip
    read(tmp_path, plan, rows, EUR, skus={"L4-GPU": L4})
    imported = import_prices(tmp_path / "bill.csv", "focus", rates=EUR)
    prices = {key: offer.prices.on_demand for key, offer in imported.offers.items()}
    assert {key: price.usd_per_h for key, price in prices.items() if price} == {
        L40S: 1.861, "aws/g6e.12xlarge@eu-central-1": 5.5,
    }  # fmt: skip
    converted = prices["aws/g6e.12xlarge@eu-central-1"]
    assert converted is not None
    assert converted.source == "FOCUS bill, bill.csv: list unit price, EUR at 1.10 USD on 2026-09-30"
    assert any("by the GPU" in why for why, _ in imported.left_out)
    late = {"EUR": Rate(Decimal("1.1"), date(2026, 10, 1))}
    with pytest.raises(InputError, match=r"--rate EUR: 2026-10-01 is outside the period. .* 2026-09-01 to 2026-09-30"):
        import_prices(tmp_path / "bill.csv", "focus", rates=late)


# -- whole reviews --------------------------------------------------------------------------------------------


def review_file(folder: Path, rows: list[Charge], more: str) -> Path:
    last = read_plan(EXAMPLE / "last-plan.json")
    (folder / "plan.json").write_text(last.to_json())
    (folder / "usage.csv").write_text(as_csv(planned_rows(last.case, 28)))
    (folder / "bill.csv").write_text(as_focus(rows, COLUMNS), encoding="utf-8")
    path = folder / "REVIEW.yaml"
    path.write_text(f"name: q\nlast_plan: plan.json\nusage: usage.csv\nbill: bill.csv\n{more}")
    return path


def days_of(rows: list[Charge], number: int = 14) -> list[Charge]:
    """The same charges on each of some days from DAY on."""
    return [
        row | {"ChargePeriodStart": f"{DAY + timedelta(days=k)}T00:00:00Z",
               "ChargePeriodEnd": f"{DAY + timedelta(days=k + 1)}T00:00:00Z"}
        for k in range(number)
        for row in rows
    ]  # fmt: skip


def review_of(folder: Path, rows: list[Charge], more: str = "committed: []\n") -> Reviewed:
    return review_fleet(read_review(review_file(folder, rows, f"{more}next: {{starts: 2026-10-01}}\n")))


def bought(found: Reviewed) -> list[tuple[str, str, int]]:
    return [(c.act, c.purchase, c.instances) for c in found.review.commitments]


COVERED = [savings_plan("Used", "99.00", 90), savings_plan("Unused", "6.60"), hours(50, "93.05")]
"""of a day: 96 h at $1.10, four instances, of which 6 h were not used; and some on demand"""


def test_nothing_is_reserved_on_top_of_a_savings_plan(tmp_path: Path) -> None:
    """The last plan reserves four, and a savings plan pays for four."""
    assert bought(review_of(tmp_path, days_of([hours(140, "260.54")]))) == [("buy", "reserved-1y", 4)]
    found = review_of(tmp_path, days_of(COVERED))
    assert bought(found) == [("keep", "savings-plan", 4)]
    (cover,) = found.review.savings_plans
    assert (cover.offer, cover.held_instances, cover.commitments) == (L40S, 4, ("sp-7",))
    assert cover.covered_instances == pytest.approx(4)
    assert found.next_plan.held_usd_per_month == pytest.approx(105.60 * 730 / 24)
    markdown = as_markdown(review_document(found.review)).replace("\\", "")
    for text in (as_text(review_document(found.review)), markdown, as_page(review_document(found.review))):
        assert "pays for 4.0 x aws/g6e.xlarge@us-east-1" in text
        assert "the next plan counts 4 as held, and reserves only what it needs beyond that" in text
        assert "$1,386.00 used, $92.40 not used" in text
    assert any("confirm that sp-7 runs" in d.text for d in found.review.decisions)


SP_ARN = "arn:aws:savingsplans::1:savingsplan/7"


@for_each(
    ("first", "later"),
    [
        ({"CommitmentDiscountType": "ComputeSavingsPlans"}, {}),
        ({"CommitmentDiscountType": "SavingsPlan"}, {}),
        ({"CommitmentDiscountType": "EC2_Instance-Savings_Plan"}, {}),
        ({"CommitmentDiscountType": ""}, {}),
        ({"CommitmentDiscountType": "", "CommitmentDiscountId": SP_ARN},
         {"CommitmentDiscountType": "", "CommitmentDiscountId": SP_ARN}),
    ],
)  # fmt: skip
def test_savings_plans_are_known_however_they_are_spelled(
    tmp_path: Path, plan: Plan, first: Charge, later: Charge
) -> None:
    rows = [savings_plan("Used", "26.40", 24, **first), savings_plan("Unused", "3.10", **later)]
    (c,) = reviewed(tmp_path, plan, rows).commitments
    assert (c.by_spend, c.used_usd, c.unused_usd) == (True, 26.4, 3.1)


def test_a_reservation_that_lapses_is_not_renewed_where_a_savings_plan_covers_it(tmp_path: Path) -> None:
    lapsing = f"committed: [{{offer: {L40S}, purchase: reserved-1y, instances: 4, lapses: 2026-11-15}}]\n"
    reserved = {"CommitmentDiscountId": "ri-1", "CommitmentDiscountType": "Reserved Instance"}
    held = savings_plan("Used", "112.32", 96, **reserved)
    acts = bought(review_of(tmp_path, days_of([held, *COVERED]), lapsing))
    assert ("keep", "savings-plan", 4) in acts
    assert not [act for act in acts if act[0] in ("buy", "renew")]


def test_a_savings_plan_that_is_listed_as_held_counts_once(tmp_path: Path) -> None:
    listed = f"committed: [{{offer: {L40S}, purchase: reserved-1y, instances: 4, lapses: 2027-06-30}}]\n"
    found = review_of(tmp_path, days_of(COVERED), listed)
    assert bought(found) == [("keep", "reserved-1y", 4)]
    assert "too small to count, or already listed as held" in as_text(review_document(found.review))
    # The next review takes the savings plan from its own bill, not from the plan of this one.
    found = review_of(tmp_path, days_of(COVERED))
    inputs = read_review(review_file(tmp_path, days_of([hours(140, "260.54")]), ""))
    carried = [*(found.next_plan.case.held or ())]
    again = with_savings_plans(inputs.held.__class__(tuple(carried), inputs.held.first, inputs.held.last), inputs.bill,
                               found.next_plan.case)  # fmt: skip
    assert [h.purchase for h in carried] == ["savings-plan"] and again.holdings == ()


def test_without_a_rate_the_headline_says_what_it_lacks(tmp_path: Path) -> None:
    rows = days_of([hours(140, "260.54"), hours(24, "40.00", BillingCurrency="EUR")])
    found = review_of(tmp_path, rows)
    for text in in_every_format(review_document(found.review)):
        assert "by the bill, without 560.00 EUR (14 rows)" in text
    assert "the bill's sums lack 560.00 EUR (14 rows)" in as_text(review_document(found.review))
    rated = review_of(tmp_path, rows, "committed: []\nrates: {EUR: {usd: 1.1, date: 2026-09-01}}\n")
    assert rated.review.bill is not None and found.review.bill is not None
    assert rated.review.bill.paid_usd == pytest.approx(found.review.bill.paid_usd + 560 * 1.1)
    assert "without" not in as_text(review_document(rated.review)).split("decisions")[0]


def test_amounts_in_other_currencies_are_of_what_counts(tmp_path: Path, plan: Plan) -> None:
    euros = {"BillingCurrency": "EUR", "x_Account": "ours"}
    straddling = {"ChargePeriodStart": "2026-08-31T00:00:00Z", "ChargePeriodEnd": "2026-09-02T00:00:00Z"}
    august = {"ChargePeriodStart": "2026-08-01T00:00:00Z", "ChargePeriodEnd": "2026-08-02T00:00:00Z"}
    rows = [
        hours(24, "44.66", x_Account="ours"),
        hours(24, "10.00", **euros),
        hours(24, "8.00", **euros | straddling),
        hours(24, "1000.00", **euros | august),
        hours(24, "500.00", **euros, ChargeCategory="Tax"),
        hours(24, "70.00", **euros | {"x_Account": "theirs"}),
    ]
    where = {"x_Account": "ours"}
    lacking = reviewed(tmp_path, plan, rows, where=where)
    assert "the bill's sums lack 14.00 EUR (2 rows)" in " ".join(bill_sentences(lacking))
    assert {x.currency: x.effective for x in lacking.other_currencies} == {
        "EUR": 14.0, "EUR (outside the period)": 1000.0, "EUR (taxes)": 500.0, "EUR (other accounts)": 70.0,
    }  # fmt: skip
    assert len([r for r in bill_advice.risks_of(lacking) if "another currency" in r.text]) == 1
    (converted,) = reviewed(tmp_path, plan, rows, rates=EUR, where=where).converted_currencies
    assert (converted.effective, converted.effective_usd) == (14.0, 15.4)


def test_a_fee_for_a_reservation_is_no_hours_of_it(tmp_path: Path, plan: Plan) -> None:
    used = savings_plan("Used", "28.14", 24, CommitmentDiscountId="ri-1", CommitmentDiscountType="Reserved Instance")
    fee = hours(24, "0", "USD 1.1724 hourly fee per Linux/UNIX (Amazon VPC), g6e.xlarge instance",
                ChargeCategory="Purchase", BilledCost="28.14", x_UsageType="HeavyUsage:g6e.xlarge")  # fmt: skip
    assert costs(reviewed(tmp_path, plan, [used, fee])) == {L40S: (24.0, 28.14, 0.0, 28.14)}


def test_a_bill_whose_charges_last_no_time_is_refused(tmp_path: Path, plan: Plan) -> None:
    with pytest.raises(InputError, match=r"bill.csv: has no usage that lasts.* Export the bill again"):
        read(tmp_path, plan, [hours(24, "44.66", ChargePeriodEnd=f"{DAY}T00:00:00Z")])


@pytest.mark.parametrize(("price", "taken"), [("1.50", True), ("0.22", False), ("4.00", False)])
def test_a_price_far_from_the_menu_s_is_named_and_not_taken(
    tmp_path: Path, plan: Plan, price: str, taken: bool
) -> None:
    found = read(tmp_path, plan, [hours(24, "44.66", ListUnitPrice=price)])
    case, prices = at_prices_of_bill(plan.case, found)
    on_demand = case.offers[L40S].prices.on_demand
    assert on_demand is not None and on_demand.usd_per_h == (float(price) if taken else 1.861)
    risks = [r.text for r in bill_advice.risks_of(reconcile(found, plan, "team", 720, prices)) if r.about == "prices"]
    assert {p.taken for p in prices} == {taken}  # also of the reserved price that follows from it
    assert len(risks) == (0 if taken else len(prices))


@for_each(
    ("rates", "said"),
    [
        ("{EURO: {usd: 1.1, date: 2026-09-01}}", "REVIEW.yaml:5:.*no currency has the code 'EURO'. Did you mean 'EUR'"),
        ("{eur: {usd: 1.1, date: 2026-09-01}}", "REVIEW.yaml:5:.*no currency has the code 'eur'. Write EUR"),
        ("{USD: {usd: 1, date: 2026-09-01}}", "REVIEW.yaml:5:.*USD needs no rate"),
        ("{EUR: {usd: 0, date: 2026-09-01}}", "REVIEW.yaml:5:.*rates.EUR.usd: must be more than 0, got 0. Write the "
                                              "USD for one unit"),
        ("{EUR: {usd: 1.0e+18, date: 2026-09-01}}", "REVIEW.yaml:5:.*rates.EUR.usd: must be from 0.000001 to 1,000,000 "
                                                    "USD, got .*. Write the USD"),
        ("{EUR: {usd: 1.0e-9, date: 2026-09-01}}", "REVIEW.yaml:5:.*rates.EUR.usd: must be from 0.000001"),
        ("{EUR: {usd: -1.1, date: 2026-09-01}}", "REVIEW.yaml:5:.*rates.EUR.usd: cannot be negative.* Write"),
        ("{EUR: {usd: .inf, date: 2026-09-01}}", "REVIEW.yaml:5:.*"),
        ("{EUR: {usd: .nan, date: 2026-09-01}}", "REVIEW.yaml:5:.*"),
        ("{EUR: {usd: 1.1}}", "REVIEW.yaml:5:.*date"),
        ("{EUR: {usd: 1.1, date: soon}}", "REVIEW.yaml:5:.*rates.EUR.date: expected a date"),
        ("{EUR: {usd: 1.1, date: 2026-07-31}}", "REVIEW.yaml:5:.*date: 2026-07-31 is outside the period. Give the rate "
                                                "of a day from 2026-08-01 to 2026-09-30"),
        ("{EUR: {usd: 1.1, date: 2026-10-01}}", "REVIEW.yaml:5:.*date: 2026-10-01 is outside the period"),
    ],
)  # fmt: skip
def test_rates_that_cannot_be_are_named_at_their_line(tmp_path: Path, rates: str, said: str) -> None:
    path = review_file(tmp_path, days_of([hours(140, "260.54")]), f"rates: {rates}\n")
    with pytest.raises(InputError, match=said):
        read_review(path)
