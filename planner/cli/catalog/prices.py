"""`fleetplan catalog import` and `fleetplan catalog diff`: price files become a catalog file, and two are compared."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import Format, FormatOption, examples, note
from planner.cli.emit import Outputs, emit

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
    source: Annotated[
        PriceSource,
        typer.Option("--from", help="Format of the files; docs/reference/prices.md says how to fetch them."),
    ],
    regions: Annotated[str | None, typer.Option(help="Keep only these regions, such as us-east-1,eu-west-1.")] = None,
    gpus: Annotated[str | None, typer.Option(help="Keep only these GPUs, such as h100,l40s.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the catalog to this file.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with this catalog file instead of the shipped one.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Write prices even if they change by more than 50%.")
    ] = False,
    spot: Annotated[bool, typer.Option("--spot/--no-spot", help="Import spot prices too.")] = True,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", "--date", help="The day of the prices, overriding the day given in the files."),
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="EUR=1.08@DAY", help="USD for one unit of a currency on a day; may be repeated."),
    ] = None,
    format: FormatOption = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """Turn price files that you fetched into a catalog file, and show what they change.

    Use the result in a demand file: `catalog: prices.yaml`. Nothing is written if a price jumps by more than 50%,
    unless you give --accept. Without --out, nothing is written at all.
    """
    from planner.catalog.entries import UNKNOWN_DATE
    from planner.catalog.importing.importing import price_files
    from planner.io.files import check_targets, write_whole
    from planner.verbs.catalogs import import_prices as import_as_asked

    check_targets({"--out": out}, [*price_files(path, source), *([against] if against else [])])
    made = import_as_asked(
        path, source, regions=_names(regions), gpus=_names(gpus), against=against, spot=spot, as_of=as_of,
        rates=rate or (),
    )  # fmt: skip
    emit(made.document, Outputs(format))
    if UNKNOWN_DATE in made.imported.dates:
        note(
            "the files do not say what day their prices are from, so they count as stale: give the day with --as-of",
            quiet,
        )
    if out is None:
        note("nothing was written: add --out prices.yaml", quiet)
        return
    if not accept:
        made.check_jumps(out)
    write_whole(out, made.text)
    note(f"wrote {out}; name it in a demand file:  catalog: {out.name}", quiet)


def diff(
    before: Annotated[
        str,
        typer.Argument(metavar="A", help="A catalog file, or 'shipped' for the shipped catalog.", show_default=False),
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="Another catalog file, or 'shipped'.", show_default=False)],
    format: FormatOption = Format.table,
) -> None:
    """Compare the offers and prices of two catalog files; 'shipped' stands for the shipped catalog."""
    from planner.verbs.catalogs import diff_catalogs

    emit(diff_catalogs(before, after).document, Outputs(format))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name for part in text.split(",") if (name := part.strip())]
