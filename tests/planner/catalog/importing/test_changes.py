"""What an import changes: jumps, derived prices, and the comparison itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.case.demand.overrides import own_offers
from planner.catalog.entries import HourlyPrice, Offer, OfferPrices, UpfrontPrice, shipped_catalog
from planner.catalog.importing.importing import catalog_text, import_prices
from planner.catalog.importing.offers import changes_between
from planner.io.strict_yaml import parse_yaml
from tests.support import price_files as files
from tests.support.rows import for_each

P5 = "aws/p5.48xlarge@us-east-1"


def offer(**prices: float) -> Offer:
    hourly = {way: HourlyPrice(usd_per_h=usd) for way, usd in prices.items()}
    return Offer(provider="a", instance="b", region="c", gpu="h100", gpus=1, prices=OfferPrices(**hourly))  # type: ignore[arg-type]


def test_the_shipped_catalog_does_not_differ_from_itself() -> None:
    changes = changes_between(shipped_catalog().offers, shipped_catalog().offers)
    assert (changes.new_offers, changes.gone_offers, changes.prices) == ((), (), ())
    assert changes.unchanged == len(shipped_catalog().offers)


def test_changes_come_largest_first_and_rounding_is_none() -> None:
    before = {"a": offer(on_demand=10), "b": offer(on_demand=10, reserved_1y=6), "c": offer(on_demand=1)}
    after = {"a": offer(on_demand=10.001), "b": offer(on_demand=15.1, reserved_1y=5), "d": offer(on_demand=1)}
    changes = changes_between(before, after)
    assert (changes.new_offers, changes.gone_offers, changes.unchanged) == (("d",), ("c",), 1)
    found = [(c.offer, c.way, c.change_frac, c.is_jump) for c in changes.prices]
    assert found == [
        ("b", "on-demand", pytest.approx(0.51), True),
        ("b", "reserved-1y", pytest.approx(-1 / 6), False),
    ]


@for_each(("after", "jumps"), [(15.0, False), (15.1, True), (5.0, False), (4.9, True)])
def test_a_jump_is_more_than_half_up_or_down(after: float, jumps: bool) -> None:
    changes = changes_between({"a": offer(on_demand=10)}, {"a": offer(on_demand=after)})
    assert bool(changes.jumps) == jumps


def test_a_payment_up_front_counts_by_the_hour() -> None:
    upfront = UpfrontPrice(upfront_usd=8760 * 2.0, usd_per_h=1.0)
    paid = offer().model_copy(update={"prices": OfferPrices(reserved_1y_upfront=upfront)})
    (change,) = changes_between({"a": offer()}, {"a": paid}).prices
    assert (change.way, change.before_usd_per_h, change.after_usd_per_h) == ("reserved-1y-upfront", None, 3.0)
    assert not change.is_jump


def test_assumed_discounts_follow_a_new_price_and_published_prices_lose_the_assumption(tmp_path: Path) -> None:
    assumed = Offer.model_validate(
        offer(on_demand=55.04).model_dump()
        | {"prices": {"on_demand": {"usd_per_h": 55.04}, "reserved_1y": {"usd_per_h": 38.528, "assumption": "a guess"}}}
    )
    from planner.catalog.importing.offers import offers_of
    from planner.catalog.importing.quotes import Gathering, Quote

    def quoted(way: str, usd: float) -> Quote:
        return Quote("aws", "p5.48xlarge", "us-east-1", way, usd, "a list", "2026-08-01")  # type: ignore[arg-type]

    half = offers_of([quoted("on_demand", 27.52)], Gathering(), None, {P5: assumed})[P5].prices.reserved_1y
    assert half is not None and half.usd_per_h == pytest.approx(19.264) and half.assumption == "a guess"
    both = [quoted("on_demand", 27.52), quoted("reserved_1y", 20.0)]
    published = offers_of(both, Gathering(), None, {P5: assumed})[P5].prices.reserved_1y
    assert published is not None and (published.usd_per_h, published.assumption) == (20.0, None)


def test_what_is_written_is_read_back_with_source_and_date_on_every_price(tmp_path: Path) -> None:
    page = files.azure_page(
        tmp_path / "page.json",
        files.azure_item("Standard_ND96isr_H100_v5", 98.32),
        files.azure_item("Standard_ND96isr_H100_v5", 525600.0, type="Reservation", reservationTerm="1 Year"),
    )
    imported = import_prices(page, "azure-retail")
    read = own_offers(parse_yaml(catalog_text(imported, "azure-retail")))
    assert read == imported.offers
    for entry in read.values():
        for price in filter(None, (price for _, price in entry.prices)):
            assert price.source.startswith("Azure Retail Prices, page.json") and price.date == "2026-07-01"


def test_a_price_of_ones_own_does_not_keep_what_was_said_of_the_shipped_one() -> None:
    text = f"offers: {{{P5}: {{prices: {{spot: {{p50_usd_per_h: 9, p95_usd_per_h: 10, source: mine}}}}}}}}"
    mine = own_offers(parse_yaml(text))[P5].prices
    shipped = shipped_catalog().offers[P5].prices
    assert mine.spot is not None and (mine.spot.source, mine.spot.date, mine.spot.notes) == ("mine", None, None)
    assert mine.on_demand == shipped.on_demand
