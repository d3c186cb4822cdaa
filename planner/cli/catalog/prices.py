"""`fleetplan catalog import` and `fleetplan catalog diff`: price files become a catalog file, and two are compared."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import Format, FormatOption, examples, note, refuse
from planner.cli.emit import Outputs, emit

if TYPE_CHECKING:
    from planner.catalog.entries import Offer
    from planner.catalog.importing.changes import Changes
    from planner.catalog.importing.currencies import Rate

SHIPPED = "shipped"
"""stands for the shipped catalog where a catalog file is asked for"""
IMPORT_EXAMPLES = examples(
    "fleetplan catalog import sky/ --from skypilot --as-of 2026-11-15 --out prices.yaml",
    "fleetplan catalog import bill.csv.gz --from focus --against prices.yaml --rate EUR=1.08@2026-10-31",
)
DIFF_EXAMPLES = examples("fleetplan catalog diff shipped prices.yaml", "fleetplan catalog diff old.yaml new.yaml")


class PriceSource(StrEnum):
    skypilot = "skypilot"
    gpuhunt = "gpuhunt"
    aws_price_list = "aws-price-list"
    azure_retail = "azure-retail"
    focus = "focus"


def import_prices(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A price file, or a folder of them.", show_default=False)
    ],
    source: Annotated[PriceSource, typer.Option("--from", help="Their format; docs/prices.md says how to fetch them.")],
    regions: Annotated[str | None, typer.Option(help="These regions only, a,b.")] = None,
    gpus: Annotated[str | None, typer.Option(help="These GPUs only, a,b.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the catalog file here.")] = None,
    against: Annotated[Path | None, typer.Option(help="Compare with this catalog file, not the shipped one.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Write prices that change by over 50% too.")] = False,
    spot: Annotated[bool, typer.Option("--spot/--no-spot", help="Take spot prices too.")] = True,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", "--date", help="The day of the prices, in place of the files' own."),
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="EUR=1.08@DAY", help="USD for one unit of a currency, on a day; may be repeated."),
    ] = None,
    format: FormatOption = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """Turn price files that you fetched into a catalog file, and say what they change.

    A demand file takes what it writes: `catalog: prices.yaml`. Nothing is written if a price jumps by more than 50%,
    unless you --accept that; without --out, nothing is written at all.
    """
    from planner.case.demand.overrides import own_offers
    from planner.catalog.entries import UNKNOWN_DATE, shipped_catalog
    from planner.catalog.importing.changes import changes_between
    from planner.catalog.importing.importing import catalog_text, price_files
    from planner.catalog.importing.importing import import_prices as read_prices
    from planner.io.files import check_targets, write_whole
    from planner.io.strict_yaml import parse_yaml
    from planner.reports.price_changes import import_document

    check_targets({"--out": out}, [*price_files(path, source), *([against] if against else [])])
    imported = read_prices(path, source, _names(regions), _gpus(gpus), _day(as_of), spot, _rates(rate))
    text = catalog_text(imported, source)
    after = own_offers(parse_yaml(text, str(out or "prices.yaml")))
    before = _offers(str(against)) if against else _of(shipped_catalog().offers, after)
    changes = changes_between(before, after)
    compared_with = str(against) if against else "the shipped catalog"
    emit(import_document(imported, changes, compared_with), Outputs(format))
    if UNKNOWN_DATE in imported.dates:
        note("the files do not say of which day their prices are, so these count as stale: give it with --as-of", quiet)
    if out is None:
        note("nothing is written: add --out prices.yaml", quiet)
        return
    if changes.jumps and not accept:
        _refuse_jumps(out, changes)
    write_whole(out, text)
    note(f"wrote {out}; name it in a demand file:  catalog: {out.name}", quiet)


def diff(
    before: Annotated[
        str, typer.Argument(metavar="A", help="A catalog file, or the word shipped.", show_default=False)
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one.", show_default=False)],
    format: FormatOption = Format.table,
) -> None:
    """Compare the offers and prices of two catalog files; the word shipped stands for the shipped catalog."""
    from planner.catalog.importing.changes import changes_between
    from planner.reports.price_changes import price_diff_document

    old, new = _offers(before), _offers(after)
    if before == SHIPPED:
        old = _of(old, new)
    elif after == SHIPPED:
        new = _of(new, old)
    compared_with = "the shipped catalog" if before == SHIPPED else before
    emit(price_diff_document(changes_between(old, new), compared_with), Outputs(format))


def _refuse_jumps(out: Path, changes: Changes) -> None:
    from planner.io.errors import Diagnostic, InputError

    raise InputError(
        Diagnostic(
            str(out), None, None, jump.offer,
            f"{jump.way} goes from {jump.before_usd_per_h:.4g} to {jump.after_usd_per_h:.4g} $/h "
            f"({jump.change_frac:+.0%}); nothing was written",
            "Check it, then add --accept (for spot alone, --no-spot)",
        )
        for jump in changes.jumps
    )  # fmt: skip


def _of(offers: dict[str, Offer], others: dict[str, Offer]) -> dict[str, Offer]:
    """Offers that are among the others: a catalog file leaves the rest of the shipped ones as they are."""
    return {key: offer for key, offer in offers.items() if key in others}


def _offers(file: str) -> dict[str, Offer]:
    from planner.case.demand.overrides import catalog_with, own_offers
    from planner.io.strict_yaml import read_yaml

    return catalog_with(None).offers if file == SHIPPED else own_offers(read_yaml(file))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]


def _gpus(text: str | None) -> list[str] | None:
    from planner.catalog.entries import names_of, shipped_catalog
    from planner.catalog.names import find_gpu
    from planner.io.errors import did_you_mean, shown

    known, keys = shipped_catalog().gpus, list[str]()
    for name in _names(text) or ():
        key = find_gpu(name, known)
        if key is None:
            refuse("--gpus", f"there is no GPU {shown(name)}", did_you_mean(name, names_of(known)))
        keys.append(key)
    return keys or None


def _rates(texts: list[str] | None) -> dict[str, Rate]:
    from planner.catalog.importing.currencies import parse_rate
    from planner.io.errors import Problem

    rates: dict[str, Rate] = {}
    for text in texts or ():
        try:
            code, rate = parse_rate(text)
        except Problem as problem:
            refuse("--rate", problem.message, problem.remedy)
        if code in rates:
            refuse("--rate", f"{code} has two rates", "Keep one of them")
        rates[code] = rate
    return rates


def _day(text: str | None) -> str | None:
    from datetime import date

    from planner.io.errors import shown

    try:
        return None if text is None else date.fromisoformat(text).isoformat()
    except ValueError:
        refuse("--as-of", f"expected a date, got {shown(text)}", "Write one such as 2027-01-31")
