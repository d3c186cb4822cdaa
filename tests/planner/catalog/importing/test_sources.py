"""Each format of price files: which of its rows count, and what they mean."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from planner.catalog.entries import OWN_FIGURE, OfferPrices, shipped_catalog
from planner.catalog.importing.importing import Imported, import_prices
from planner.catalog.importing.instances import instance_types
from tests.support import price_files as files
from tests.support.rows import for_each

DAY = "2026-08-22"
P5 = "aws/p5.48xlarge@us-east-1"


def prices(imported: Imported, key: str) -> OfferPrices:
    return imported.offers[key].prices


def left_out(imported: Imported) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for why, name in imported.left_out:
        found.setdefault(why, set()).add(name)
    return found


# -- SkyPilot ---------------------------------------------------------------------------------------------------------


def test_skypilot_takes_one_price_on_demand_and_the_spot_readings_of_all_zones(tmp_path: Path) -> None:
    file = files.skypilot(
        tmp_path,
        "aws",
        "m7i.large,,,0.1,0.05,eu-west-3,a",
        "p5.48xlarge,H100,8.0,60,20,eu-west-3,a",
        "p5.48xlarge,H100,8.0,60,24,eu-west-3,b",
        "p5.48xlarge,H100,8.0,60,31,eu-west-3,c",
    )
    imported = import_prices(file, "skypilot", date=DAY)
    assert list(imported.offers) == ["aws/p5.48xlarge@eu-west-3"]
    offer = imported.offers["aws/p5.48xlarge@eu-west-3"]
    assert (offer.gpu, offer.gpus, offer.date) == ("h100", 8, DAY)
    assert offer.prices.on_demand is not None and offer.prices.on_demand.usd_per_h == 60
    assert offer.prices.on_demand.source == "SkyPilot catalog, aws/vms.csv"
    spot = offer.prices.spot
    assert spot is not None and (spot.p50_usd_per_h, spot.p95_usd_per_h) == (24, 31)
    assert spot.assumption is not None and spot.assumption.startswith("3 readings, not a history")


@for_each(
    ("folder", "day"),
    [
        ("sky-2026-08-22/catalogs/v8", "2026-08-22"),
        ("2025-01-31/20260822-1", "2026-08-22"),
        ("from-2026-08-01-to-2026-08-31", "2026-08-01"),
        ("account-120260822", "unknown"),
        ("v8-2026-13-45", "unknown"),
    ],
)
def test_a_file_without_a_date_is_of_the_day_in_the_nearest_name(tmp_path: Path, folder: str, day: str) -> None:
    row = "p5.48xlarge,H100,8,55.04,10,us-east-1,a"
    offer = import_prices(files.skypilot(tmp_path / folder, "aws", row), "skypilot").offers[P5]
    assert {offer.date, *(p.date for p in offer.prices.by_way().values())} == {day}
    assert all(p.is_stale == (day == "unknown") for p in offer.prices.by_way().values())


def test_a_price_of_a_known_day_counts_before_one_of_an_unknown_day(tmp_path: Path) -> None:
    files.skypilot(tmp_path / "2020-01-01", "aws", "p5.48xlarge,H100,8,55.04,,us-east-1,a")
    files.skypilot(tmp_path / "copy", "aws", "p5.48xlarge,H100,8,99,,us-east-1,a")
    found = prices(import_prices(tmp_path, "skypilot"), P5).on_demand
    assert found is not None and (found.usd_per_h, found.date) == (55.04, "2020-01-01")


def test_a_page_of_azure_without_the_day_of_a_price_is_of_unknown_date(tmp_path: Path) -> None:
    item = files.azure_item("Standard_ND96isr_H100_v5", 98.32)
    del item["effectiveStartDate"]
    offers = import_prices(files.azure_page(tmp_path / "page.json", item), "azure-retail").offers
    assert [offer.date for offer in offers.values()] == ["unknown"]


def test_a_reading_of_spot_lies_as_far_from_bad_days_as_the_shipped_history(tmp_path: Path) -> None:
    history = shipped_catalog().offers[P5].prices.spot
    assert history is not None
    file = files.skypilot(tmp_path, "aws", "p5.48xlarge,H100,8,55.04,10,us-east-1,a")
    spot = prices(import_prices(file, "skypilot", date=DAY), P5).spot
    assert spot is not None and spot.p50_usd_per_h == 10
    assert spot.p95_usd_per_h == pytest.approx(10 * history.p95_usd_per_h / history.p50_usd_per_h, rel=1e-4)


def test_hosts_and_accelerators_of_google_cloud_are_added_up_in_each_zone(tmp_path: Path) -> None:
    file = files.skypilot(
        tmp_path,
        "gcp",
        "a3-highgpu-8g,,,9.5,5.5,us-west4,us-west4-a",
        "a3-megagpu-8g,,,9.5,5.5,us-west4,us-west4-a",
        "n1-standard-8,,,0.4,0.1,us-west4,us-west4-a",
        ",H100,1,10,6,us-west4,us-west4-a",
        ",H100,8,78.5,47,us-west4,us-west4-a",
        ",H100-MEGA,8,82.5,50,us-west4,us-west4-a",
    )
    imported = import_prices(file, "skypilot", date=DAY)
    high, mega = (prices(imported, f"gcp/a3-{kind}gpu-8g@us-west4") for kind in ("high", "mega"))
    assert high.on_demand is not None and high.on_demand.usd_per_h == pytest.approx(88)
    assert high.spot is not None and high.spot.p50_usd_per_h == pytest.approx(52.5)
    assert mega.on_demand is not None and mega.on_demand.usd_per_h == pytest.approx(92)
    assert high.on_demand.source.endswith("host plus 8 x H100, without local disks")
    assert len(imported.offers) == 2


def test_half_of_a_split_price_is_no_price(tmp_path: Path) -> None:
    file = files.skypilot(
        tmp_path,
        "gcp",
        "a4-highgpu-8g,,,0.0,0.0,us-west4,a",
        ",B200,8,90,40,us-west4,a",
        "a3-highgpu-8g,,,9.5,5.5,us-west4,a",
        "g2-standard-4,,,0.15,0.1,us-west4,a",
        ",L4,1,0.55,,us-west4,a",
        "g4-standard-6,,,0.4,0.1,us-west4,a",
    )
    imported = import_prices(file, "skypilot", date=DAY)
    assert list(imported.offers) == ["gcp/g2-standard-4@us-west4"]
    assert prices(imported, "gcp/g2-standard-4@us-west4").spot is None
    found = left_out(imported)
    assert found["price unknown (0 or empty)"] == {
        "gcp/a4-highgpu-8g@us-west4 on_demand",
        "gcp/a4-highgpu-8g@us-west4 spot",
        "gcp/g2-standard-4@us-west4 spot",
        "gcp/a3-highgpu-8g@us-west4: no row for 8 x H100",
    }
    assert found["instance type not known"] == {"gcp/g4-standard-6"}


def test_unknown_gpus_parts_of_gpus_and_spot_at_the_full_price_are_left_out_by_name(tmp_path: Path) -> None:
    files.skypilot(
        tmp_path,
        "azure",
        "Standard_NC6,K80,1,0.9,0.3,eastus,",
        "Standard_NC40ads_H100_v5,H100,1,6.98,6.98,eastus,",
        "Standard_ND96isr_H100_v5,H100,12,98,98,eastus,",
    )
    files.skypilot(tmp_path, "aws", "g6f.xlarge,L4,0.125,0.25,0.1,us-east-1,a")
    imported = import_prices(tmp_path, "skypilot", date=DAY)
    found = left_out(imported)
    assert found["GPU not in the catalog"] == {"K80", "h100-nvl"}
    assert found["a part of a GPU, or an impossible number of them"] == {"aws/g6f.xlarge"}
    offer = imported.offers["azure/Standard_ND96isr_H100_v5@eastus"]
    assert (offer.gpu, offer.gpus, offer.prices.spot) == ("h100", 8, None)
    assert len(imported.offers) == 1


@for_each(
    ("cloud", "name", "gpu"),
    [
        ("runpod", "H100", "h100-pcie"),
        ("runpod", "H100-SXM", "h100"),
        ("hyperstack", "H100-80G-SXM5", "h100"),
        ("hyperstack", "A100-80G-PCIe", "a100-80gb-pcie"),
        ("oci", "A100", "a100-40gb"),
        ("nebius", "RTX6000", "rtx-pro-6000-server"),
        ("verda", "RTX-PRO-6000", "rtx-pro-6000-server"),
    ],
)
def test_gpus_are_known_by_what_each_provider_calls_them(tmp_path: Path, cloud: str, name: str, gpu: str) -> None:
    file = files.skypilot(tmp_path, cloud, f"a-new-type,{name},2,9,,somewhere,")
    assert import_prices(file, "skypilot", date=DAY).offers[f"{cloud}/a-new-type@somewhere"].gpu == gpu


# -- gpuhunt ----------------------------------------------------------------------------------------------------------


def test_gpuhunt_takes_the_provider_from_the_file_and_the_gpu_with_its_memory(tmp_path: Path) -> None:
    files.gpuhunt(
        tmp_path / "lambdalabs.csv",
        "one,us-x,2.5,1,A100,80,False",
        "two,us-x,2.1,1,A100,40,False",
        "three,us-x,3.5,1,H100,94,False",
        "three,us-x,1.0,,,,False",
        "two,us-x,0,1,A100,40,True",
    )
    imported = import_prices(tmp_path, "gpuhunt", date=DAY)
    assert {key: offer.gpu for key, offer in imported.offers.items()} == {
        "lambda/one@us-x": "a100-80gb",
        "lambda/two@us-x": "a100-40gb",
    }
    assert left_out(imported)["memory differs from the catalog's GPU of this name"] == {"H100 of 94 GiB (lambda/three)"}


# -- AWS Price List ---------------------------------------------------------------------------------------------------


def aws_file(folder: Path) -> Path:
    """The right product of a type among five others, and its commitments."""
    products = [
        files.aws_product("LINUX", "p5.48xlarge"),
        files.aws_product("WIN", "p5.48xlarge", operatingSystem="Windows", operation="RunInstances:0002"),
        files.aws_product("DED", "p5.48xlarge", tenancy="Dedicated"),
        files.aws_product("ODCR", "p5.48xlarge", capacitystatus="AllocatedCapacityReservation"),
        files.aws_product("SQL", "p5.48xlarge", preInstalledSw="SQL Std"),
        files.aws_product("BLOCK", "p5.48xlarge", marketoption="CapacityBlock"),
        files.aws_product("ZONE", "p5.48xlarge", locationType="AWS Local Zone"),
        files.aws_product("OLD", "p2.xlarge"),
        {"sku": "CPU", "attributes": {**files.LINUX, "instanceType": "m7i.large", "regionCode": "us-east-1"}},
    ]
    on_demand = {p["sku"]: files.aws_term(str(k)) for k, p in enumerate(products, start=90)}
    on_demand["LINUX"] = files.aws_term("55.0400000000")

    def term(length: str, option: str, hourly: str, upfront: str | None = None, kind: str = "standard") -> dict:
        return files.aws_term(hourly, upfront, LeaseContractLength=length, OfferingClass=kind, PurchaseOption=option)

    reserved = [
        term("1yr", "No Upfront", "36.3"),
        term("1yr", "No Upfront", "40.1", kind="convertible"),
        term("3yr", "Partial Upfront", "11", "280000"),
        term("3yr", "All Upfront", "0.0000000000", "543866"),
        term("1yr", "Partial Upfront", "17", "150000"),
    ]
    return files.aws_prices(folder / "AmazonEC2.json", products, on_demand, {"LINUX": reserved, "WIN": reserved})


def test_aws_price_list_counts_plain_linux_and_standard_reservations(tmp_path: Path) -> None:
    imported = import_prices(aws_file(tmp_path), "aws-price-list")
    assert list(imported.offers) == [P5]
    found = prices(imported, P5)
    assert found.on_demand is not None and (found.on_demand.usd_per_h, found.on_demand.date) == (55.04, "2026-08-01")
    assert found.reserved_1y is not None and found.reserved_1y.usd_per_h == 36.3
    assert found.reserved_3y is None or found.reserved_3y.assumption  # what the shipped catalog assumes, if anything
    all_up, part = found.reserved_3y_upfront, found.reserved_1y_upfront
    assert all_up is not None and (all_up.upfront_usd, all_up.usd_per_h) == (543866, 0)
    assert found.reserved()["reserved-3y-upfront"].usd_per_h == pytest.approx(543866 / (36 * 730))
    assert part is not None and (part.upfront_usd, part.usd_per_h) == (150000, 17)
    assert left_out(imported)["instance type not known"] == {"aws/p2.xlarge"}


def savings_plans(file: Path) -> Path:
    def plan(sku: str, term: str, option: str, family: str, price: str) -> tuple[dict, dict]:
        about = {"purchaseOption": option, "purchaseTerm": term}
        rates = [
            {
                "discountedUsageType": usage,
                "discountedOperation": operation,
                "rateCode": sku,
                "discountedRate": {"price": price, "currency": "USD"},
            }
            for usage, operation in (
                ("BoxUsage:p5.48xlarge", "RunInstances"),
                ("BoxUsage:p5.48xlarge", "RunInstances:0002"),
                ("DedicatedUsage:p5.48xlarge", "RunInstances"),
                ("BoxUsage:m7i.large", "RunInstances"),
            )
        ]
        return {"sku": sku, "productFamily": family, "attributes": about}, {"sku": sku, "rates": rates}

    plans = [
        plan("A", "1yr", "No Upfront", "EC2InstanceSavingsPlans", "37"),
        plan("B", "1yr", "No Upfront", "ComputeSavingsPlans", "39"),
        plan("C", "3yr", "All Upfront", "EC2InstanceSavingsPlans", "20"),
        plan("D", "3yr", "Partial Upfront", "EC2InstanceSavingsPlans", "22"),
        plan("E", "3yr", "No Upfront", "ComputeSavingsPlans", "30"),
    ]
    document = {
        "publicationDate": "2026-08-02T00:00:00Z",
        "regionCode": "us-east-1",
        "products": [p for p, _ in plans],
        "terms": {"savingsPlan": [t for _, t in plans]},
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_savings_plans_stand_in_where_aws_sells_no_reservation(tmp_path: Path) -> None:
    alone = prices(import_prices(savings_plans(tmp_path / "plans.json"), "aws-price-list"), P5)
    assert alone.on_demand is None
    assert alone.reserved_1y is not None and alone.reserved_1y.usd_per_h == 37
    assert alone.reserved_3y is not None and alone.reserved_3y.usd_per_h == 30
    assert alone.reserved_3y_upfront is not None
    assert alone.reserved_3y_upfront.upfront_usd == pytest.approx(20 * 3 * 8760)
    aws_file(tmp_path)
    both = prices(import_prices(tmp_path, "aws-price-list"), P5)
    assert both.reserved_1y is not None and both.reserved_1y.usd_per_h == 36.3
    assert both.reserved_3y is not None and both.reserved_3y.usd_per_h == 30
    assert both.reserved_3y_upfront is not None and both.reserved_3y_upfront.upfront_usd == 543866


# -- Azure Retail Prices ----------------------------------------------------------------------------------------------


def test_azure_spreads_reservations_over_their_term(tmp_path: Path) -> None:
    sku = "Standard_ND96isr_H100_v5"
    plans = [{"term": "1 Year", "retailPrice": 70.0}, {"term": "3 Years", "retailPrice": 45.0}]
    page = files.azure_page(
        tmp_path / "page1.json",
        files.azure_item(sku, 98.32, savingsPlan=plans),
        files.azure_item(sku, 40.0, skuName="ND96isr H100 v5 Spot"),
        files.azure_item(sku, 30.0, skuName="ND96isr H100 v5 Low Priority"),
        files.azure_item(sku, 120.0, productName="Virtual Machines ND Series Windows"),
        files.azure_item(sku, 80.0, type="DevTestConsumption"),
        files.azure_item(sku, 525600.0, type="Reservation", reservationTerm="1 Year"),
        files.azure_item("Standard_D4s_v5", 0.2),
    )
    imported = import_prices(page, "azure-retail")
    assert list(imported.offers) == [f"azure/{sku}@eastus"]
    found = prices(imported, f"azure/{sku}@eastus")
    assert found.on_demand is not None and (found.on_demand.usd_per_h, found.on_demand.date) == (98.32, "2026-07-01")
    assert found.spot is not None and found.spot.p50_usd_per_h == 40
    assert found.reserved_1y is not None and found.reserved_1y.usd_per_h == pytest.approx(60)
    assert found.reserved_3y is not None and found.reserved_3y.usd_per_h == 45
    assert found.reserved_3y.source.endswith("savings plan")


# -- FOCUS ------------------------------------------------------------------------------------------------------------


def test_focus_gives_contracted_prices_and_a_history_of_spot(tmp_path: Path) -> None:
    g6e = json.dumps({"InstanceType": "g6e.xlarge", "GpuCount": 1, "OperatingSystem": "Linux"})
    spot = [
        files.focus_row(
            "g6e.xlarge",
            PricingCategory="Dynamic",
            ContractedUnitPrice="",
            EffectiveCost=str(24 * (0.5 + day / 100)),
            SkuPriceDetails=g6e,
            ChargePeriodStart=f"2026-08-{day:02}T00:00:00Z",
        )
        for day in range(1, 32)
    ]
    windows = json.dumps({"InstanceType": "p5.48xlarge", "OperatingSystem": "Windows"})
    bill = files.focus(
        tmp_path / "bill.csv",
        files.focus_row("p5.48xlarge"),
        files.focus_row("p5.48xlarge", ContractedUnitPrice="51", ChargePeriodStart="2026-08-02T00:00:00Z"),
        files.focus_row("p5.48xlarge", ContractedUnitPrice="1", ChargeClass="Correction"),
        files.focus_row("p5.48xlarge", ContractedUnitPrice="2", ChargeCategory="Tax"),
        files.focus_row("p5.48xlarge", ContractedUnitPrice="3", CapacityReservationStatus="Unused"),
        files.focus_row("p5.48xlarge", ContractedUnitPrice="4", BillingCurrency="EUR"),
        files.focus_row("p5.48xlarge", ContractedUnitPrice="5", SkuPriceDetails=windows),
        files.focus_row("p4d.24xlarge", ContractedUnitPrice="21", PricingCategory="Committed"),
        files.focus_row("m7i.2xlarge", SkuPriceDetails='{"InstanceType": "m7i.2xlarge"}'),
        *spot,
    )
    imported = import_prices(bill, "focus")
    on_demand = prices(imported, P5).on_demand
    assert on_demand is not None and (on_demand.usd_per_h, on_demand.date) == (51, "2026-08-02")
    committed = prices(imported, "aws/p4d.24xlarge@us-east-1").on_demand
    assert committed is not None and committed.usd_per_h == 21
    history = prices(imported, "aws/g6e.xlarge@us-east-1").spot
    assert history is not None and history.assumption is None
    assert (history.p50_usd_per_h, history.p95_usd_per_h) == (pytest.approx(0.66), pytest.approx(0.80))
    found = left_out(imported)
    assert found["price under a commitment, whose term a bill does not give"] == {"aws/p4d.24xlarge"}
    assert found["operating system other than Linux"] == {"aws/p5.48xlarge"}
    assert found["billed in a currency other than USD, without a --rate"] == {"aws/p5.48xlarge"}
    assert len(imported.offers) == 3


def test_gzipped_files_are_read_as_they_are(tmp_path: Path) -> None:
    plain = files.focus(tmp_path / "bill.csv", files.focus_row("p5.48xlarge"))
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    packed = import_prices(tmp_path / "packed.csv.gz", "focus").offers[P5].prices.on_demand
    assert packed is not None and packed.usd_per_h == 50


# -- what is shipped about instance types -----------------------------------------------------------------------------


def test_instance_types_agree_with_the_shipped_offers_and_have_a_source() -> None:
    known = instance_types()
    for offer in shipped_catalog().offers.values():
        types = known[offer.provider].types if offer.provider in known else {}
        assert types.get(offer.instance, (offer.gpus, offer.gpu)) == (offer.gpus, offer.gpu), offer.instance
    for name, entry in known.items():
        assert entry.date and entry.source != OWN_FIGURE, name
        gpus = {gpu for _, gpu in entry.types.values()} | set(entry.names.values())
        assert gpus <= {*shipped_catalog().gpus, "a10", "h100-nvl"}, name


def test_focus_in_parquet_gives_the_prices_of_its_csv(tmp_path: Path) -> None:
    pacsv, pq = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    rows = [files.focus_row("p5.48xlarge", ContractedUnitPrice=price) for price in ("52", "51.5")]
    bill = files.focus(tmp_path / "bill.csv", *rows, files.focus_row("p5.48xlarge", ContractedUnitPrice=""))
    (tmp_path / "parquet").mkdir()
    pq.write_table(pacsv.read_csv(bill), tmp_path / "parquet" / "bill.parquet")
    offers = [import_prices(path, "focus").offers for path in (bill, tmp_path / "parquet")]
    prices = [offer.prices.on_demand for found in offers for offer in found.values()]
    assert [price and price.usd_per_h for price in prices] == [52.0, 52.0]  # the list price beside them does not count
