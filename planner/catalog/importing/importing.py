"""Price files of one format, read, merged and written as a catalog file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date as Day
from pathlib import Path
from typing import Any

import yaml

from planner.catalog.entries import Offer, shipped_catalog
from planner.catalog.importing import aws_price_list, azure_retail, focus, gpuhunt, skypilot
from planner.catalog.importing.offers import offers_of
from planner.catalog.importing.quotes import Gathering, Rate, Reader, check_day
from planner.io.errors import InputError, Problem, did_you_mean, input_error, listed, shown
from planner.io.strict_yaml import MAX_BYTES

READERS: dict[str, Reader] = {
    "skypilot": skypilot.read,
    "gpuhunt": gpuhunt.read,
    "aws-price-list": aws_price_list.read,
    "azure-retail": azure_retail.read,
    "focus": focus.read,
}
CSV_ENDINGS, JSON_ENDINGS = (".csv", ".csv.gz"), (".json", ".json.gz")
ENDINGS = {
    "aws-price-list": JSON_ENDINGS,
    "azure-retail": JSON_ENDINGS,
    "focus": (*CSV_ENDINGS, ".parquet"),
}


@dataclass(frozen=True)
class Imported:
    """Offers of the files that were read, and what of them was left out."""

    files: tuple[Path, ...]
    offers: dict[str, Offer]
    left_out: Counter[tuple[str, str]]
    """Rows by why and by name."""

    @property
    def dates(self) -> tuple[str, ...]:
        """The days that prices are of, in order; an unknown one last."""
        prices = (price for offer in self.offers.values() for _, price in offer.prices if price is not None)
        return tuple(sorted({price.date for price in prices if price.date}))


def import_prices(
    path: Path,
    source: str,
    regions: Collection[str] | None = None,
    gpus: Collection[str] | None = None,
    date: str | None = None,
    spot: bool = True,
    rates: Mapping[str, Rate] | None = None,
) -> Imported:
    """Read the price files of a format; raises InputError with every mistake in them."""
    files = price_files(path, source)
    gathering = Gathering(frozenset(regions) if regions else None, date, rates=rates or {})
    read = READERS[source]
    quotes = (quote for file in files for quote in read(file, gathering) if spot or quote.way != "spot")
    offers = offers_of(quotes, gathering, gpus, shipped_catalog().offers)
    if gathering.mistakes:
        raise InputError(gathering.mistakes)
    _check_rates(gathering)
    for region in sorted(gathering.regions or ()):
        if region not in gathering.seen_regions:
            remedy = did_you_mean(region, sorted(gathering.seen_regions))
            raise input_error("--regions", f"{path} has no price for {shown(region)}", remedy)
    if not offers:
        why = listed(sorted({why for why, _ in gathering.left_out}), "and")
        raise input_error(path, "has no price of a GPU instance" + (f": {why}" if why else ""), "Check --from, --gpus")
    return Imported(files, offers, gathering.left_out)


def _check_rates(gathering: Gathering) -> None:
    """Raise InputError where a rate is of another month than the charges that it converted."""
    for currency, days in gathering.converted.items():
        try:
            first, last = map(Day.fromisoformat, days)
            check_day(gathering.rates[currency], first, last)
        except Problem as problem:
            raise input_error(f"--rate {currency}", problem.message, problem.remedy) from None
        except ValueError:
            continue  # days that are none are mistakes of their rows, or of no price


def price_files(path: Path, source: str) -> tuple[Path, ...]:
    """The file, or every file of the format in a folder and the folders in it."""
    if not path.exists():
        raise input_error(path, "there is no such file or folder", "Check the path")
    if not path.is_dir():
        return (path,)
    endings = ENDINGS.get(source, CSV_ENDINGS)
    files = tuple(sorted(f for f in path.rglob("*") if f.name.endswith(endings) and f.is_file()))
    if source == "skypilot":
        files = tuple(f for f in files if f.name.startswith("vms."))
    if not files:
        expected = "vms.csv" if source == "skypilot" else listed([f"*{e}" for e in endings])
        raise input_error(path, f"holds no price files ({expected})", "Name the folder that you fetched them into")
    return files


def catalog_text(imported: Imported, source: str) -> str:
    """A catalog file of the offers; the same files give the same text."""
    head = (
        f"# Prices from files of {source}, written by fleetplan catalog import; USD per hour of the whole instance.\n"
        "# Name this file in a demand file:  catalog: prices.yaml\n"
    )
    entries = {key: _figures_first(_dumped(offer)) for key, offer in imported.offers.items()}
    text = head + yaml.dump({"offers": entries}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=160)
    if len(text.encode()) > MAX_BYTES:
        remedy = "Narrow it with --regions and --gpus"
        message = f"{len(entries):,} offers are more than a catalog file may hold ({MAX_BYTES // 1_000_000} MB)"
        raise input_error("--out", message, remedy)
    return text


class _Dumper(yaml.SafeDumper):
    """Writes text that could be taken for a number in quotes."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    looks_like_text = text[:1].isalpha() and text.lower() not in ("nan", "inf", "infinity")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if looks_like_text else '"')


_Dumper.add_representer(str, _text)


def _dumped(offer: Offer) -> dict[str, Any]:
    whole = offer.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return {**whole, "prices": {way: _figures_first(price) for way, price in whole["prices"].items()}}


def _figures_first(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with what explains its figures behind them, prices last."""
    behind = ("source", "date", "assumption", "notes", "prices")
    return {k: v for k, v in entry.items() if k not in behind} | {k: entry[k] for k in behind if k in entry}
