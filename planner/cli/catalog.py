"""The verbs of `fleetplan catalog`: show what is known, import prices and compare catalog files."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from planner.cli import catalog_prices
from planner.cli.common import Format, FormatOption, put, put_json

SHOW = "show"


class _ShowByDefault(TyperGroup):
    """`fleetplan catalog offers h100` is `fleetplan catalog show offers h100`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


verbs = typer.Typer()
catalog = typer.Typer(
    cls=_ShowByDefault,
    help="List and show what the catalog knows, with sources and dates; add to it. Without a command: show.",
    epilog="Examples:  fleetplan catalog    fleetplan catalog offers h100    fleetplan catalog models llama-3.1-8b    "
    "fleetplan catalog import sky/ --from skypilot --out prices.yaml",
)
verbs.add_typer(catalog, name="catalog")


@catalog.command(
    SHOW,
    epilog="Examples:  fleetplan catalog    fleetplan catalog offers h100    fleetplan catalog models llama-3.1-8b",
)
def show(
    kind: Annotated[str | None, typer.Argument(help="gpus, offers, models, quantizations, apis, ...")] = None,
    name: Annotated[str | None, typer.Argument(help="An entry, or part of the names to list.")] = None,
    stale_after: Annotated[str, typer.Option(help="Prices older than this are flagged.")] = "180d",
    as_of: Annotated[
        str | None, typer.Option(help="The day that staleness refers to, YYYY-MM-DD; default today.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """List and show what the catalog knows, with sources and dates; stale prices are flagged."""
    from planner.reports.catalog import catalog_report

    report = catalog_report(kind, name, stale_after, as_of)
    put(report.text) if format is Format.table else put_json(report.data)


catalog.command("import", epilog=catalog_prices.IMPORT_EXAMPLES)(catalog_prices.import_prices)
catalog.command("diff", epilog=catalog_prices.DIFF_EXAMPLES)(catalog_prices.diff)
