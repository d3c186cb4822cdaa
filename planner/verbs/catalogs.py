"""Verbs of the catalog: what is known, a model by its config, prices from files, and what differs between two files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.case.demand.overrides import catalog_with, own_offers
from planner.catalog.entries import names_of, shipped_catalog
from planner.catalog.importing.importing import READERS, Imported, catalog_text
from planner.catalog.importing.importing import import_prices as read_prices
from planner.catalog.importing.offers import Changes, changes_between
from planner.catalog.importing.quotes import Rate, parse_rate
from planner.catalog.model_config.config import parse_parameters, read_config
from planner.catalog.model_config.entry import ModelEntry, file_text, make_entry
from planner.catalog.names import find_gpu
from planner.io.errors import Diagnostic, InputError, Problem, did_you_mean, input_error, shown
from planner.io.strict_yaml import parse_yaml, read_yaml
from planner.verbs.results import Answer, Made

if TYPE_CHECKING:
    from planner.catalog.entries import Offer

SHIPPED = "shipped"
"""stands for the shipped catalog where a catalog file is asked for"""


def catalog_entries(
    kind: str | None = None, name: str | None = None, *, stale_after: str = "180d", as_of: date | str | None = None
) -> Answer:
    """What the catalog knows, with sources and dates: an overview, a kind (gpus, offers, models, ...), or one entry.

    `name` is an entry, or part of the names to list. Prices older than `stale_after` on the day `as_of` (today) are
    flagged.
    """
    from planner.reports.catalog import catalog_document

    day = as_of.isoformat() if isinstance(as_of, date) else as_of
    what = " ".join(["catalog", *(part for part in (kind, name) if part)])
    return Answer(what, catalog_document(kind, name, stale_after, day))


@dataclass(frozen=True, repr=False)
class AddedModel(Made):
    """A catalog file with the entry of a model."""

    notes: tuple[str, ...]
    """what the config leaves in doubt"""
    entry: ModelEntry


def add_model(
    config: Path | str,
    *,
    name: str | None = None,
    parameters: str | float | None = None,
    given: Mapping[str, Any] | None = None,
    into: Path | str | None = None,
    replace: bool = False,
) -> AddedModel:
    """A catalog entry from a model's Hugging Face config.json: weights, KV cache and arithmetic.

    `parameters` is their published number, such as "70.6B", to check the shapes with; `given` has what the config
    leaves open. The text is a new catalog file, or that of `into` with the entry added; nothing is written before
    `.save("models.yaml")`.
    """
    from planner.reports.catalog import added_model_document

    published = None if parameters is None else _parameters(parameters) / 1e9
    entry = make_entry(read_config(Path(config), dict(given or {})), name, published)
    text = file_text(entry, None if into is None else Path(into), replace)
    return AddedModel(entry.key, added_model_document(entry, published), text, entry.warnings, entry)


def _parameters(value: str | float) -> float:
    try:
        return parse_parameters(value)
    except ValueError as error:
        raise input_error("--parameters", str(error).rstrip(".")) from None


@dataclass(frozen=True, repr=False)
class ImportedPrices(Made):
    """Prices of files as a catalog file, and what they change."""

    imported: Imported
    changes: Changes

    def save(self, path: Path | str, accept: bool = False) -> Path:
        """Write the catalog file; refused where a price changes by more than 50%, unless that is accepted."""
        if not accept:
            self.check_jumps(path)
        return super().save(path)

    def check_jumps(self, path: Path | str) -> None:
        """Raise InputError where a price changes by more than 50%."""
        jumps = self.changes.jumps
        if jumps:
            raise InputError(
                Diagnostic(
                    str(path),
                    None,
                    None,
                    jump.offer,
                    f"{jump.way} goes from {jump.before_usd_per_h:.4g} to {jump.after_usd_per_h:.4g} $/h "
                    f"({jump.change_frac:+.0%}); nothing was written",
                    "Check it, then add --accept (for spot alone, --no-spot)",
                )
                for jump in jumps
            )


def import_prices(
    path: Path | str,
    source: str,
    *,
    regions: Iterable[str] | None = None,
    gpus: Iterable[str] | None = None,
    against: Path | str | None = None,
    spot: bool = True,
    as_of: date | str | None = None,
    rates: Iterable[str] = (),
) -> ImportedPrices:
    """Prices from files that you fetched, as a catalog file, and what they change; `.save("prices.yaml")` writes it.

    `source` is their format: skypilot, gpuhunt, aws-price-list, azure-retail or focus. They are compared with the
    shipped catalog, or with the file `against`. `rates` are texts such as "EUR=1.08@2026-10-31".
    """
    from planner.reports.price_imports import import_document

    if source not in READERS:
        raise input_error("--from", f"there is no format {shown(source)}", did_you_mean(source, READERS))
    imported = read_prices(
        Path(path),
        source,
        None if regions is None else list(regions),
        _gpus(gpus),
        _day(as_of),
        spot,
        _rates(rates),
    )
    text = catalog_text(imported, source)
    after = own_offers(parse_yaml(text, "prices.yaml"))
    before = _offers(str(against)) if against else _of(shipped_catalog().offers, after)
    changes = changes_between(before, after)
    compared_with = str(against) if against else "the shipped catalog"
    name = f"{len(imported.offers)} offers from {source}"
    return ImportedPrices(name, import_document(imported, changes, compared_with), text, imported, changes)


@dataclass(frozen=True, repr=False)
class CatalogDiff(Answer):
    """How two catalog files differ."""

    changes: Changes


def diff_catalogs(before: Path | str, after: Path | str) -> CatalogDiff:
    """Compare the offers and prices of two catalog files; the word shipped stands for the shipped catalog."""
    from planner.reports.price_imports import price_diff_document

    old, new = _offers(str(before)), _offers(str(after))
    if before == SHIPPED:
        old = _of(old, new)
    elif after == SHIPPED:
        new = _of(new, old)
    changes = changes_between(old, new)
    name = "the shipped catalog" if before == SHIPPED else str(before)
    return CatalogDiff(f"{before} → {after}", price_diff_document(changes, name), changes)


def _of(offers: dict[str, Offer], others: dict[str, Offer]) -> dict[str, Offer]:
    """Offers that are among the others: a catalog file leaves the rest of the shipped ones as they are."""
    return {key: offer for key, offer in offers.items() if key in others}


def _offers(file: str) -> dict[str, Offer]:
    return catalog_with(None).offers if file == SHIPPED else own_offers(read_yaml(file))


def _gpus(names: Iterable[str] | None) -> list[str] | None:
    known, keys = shipped_catalog().gpus, list[str]()
    for name in names or ():
        key = find_gpu(name, known)
        if key is None:
            raise input_error("--gpus", f"there is no GPU {shown(name)}", did_you_mean(name, names_of(known)))
        keys.append(key)
    return keys or None


def _rates(texts: Iterable[str]) -> dict[str, Rate]:
    rates: dict[str, Rate] = {}
    for text in texts:
        try:
            code, rate = parse_rate(text)
        except Problem as problem:
            raise input_error("--rate", problem.message, problem.remedy) from None
        if code in rates:
            raise input_error("--rate", f"{code} has two rates", "Keep one of them")
        rates[code] = rate
    return rates


def _day(day: date | str | None) -> str | None:
    try:
        return None if day is None else (day if isinstance(day, date) else date.fromisoformat(day)).isoformat()
    except ValueError:
        raise input_error("--as-of", f"expected a date, got {shown(day)}", "Write one such as 2027-01-31") from None
