"""The verbs of `fleetplan catalog`: show what is known, add a model by its config, import prices, compare files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from planner.cli.catalog import prices
from planner.cli.common import Format, FormatOption, examples, note
from planner.cli.emit import Outputs, emit, emit_made

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
    help="List what the catalog knows, with sources and dates, and add to it. Without a command it is 'show'.",
    epilog=examples(
        "fleetplan catalog",
        "fleetplan catalog offers h100",
        "fleetplan catalog models llama-3.1-8b",
        "fleetplan catalog add-model config.json --out models.yaml",
        "fleetplan catalog import sky/ --from skypilot --out prices.yaml",
    ),
)
verbs.add_typer(catalog, name="catalog")


@catalog.command(
    SHOW,
    epilog=examples("fleetplan catalog", "fleetplan catalog offers h100", "fleetplan catalog models llama-3.1-8b"),
)
def show(
    kind: Annotated[str | None, typer.Argument(help="gpus, offers, models, quantizations, apis, ...")] = None,
    name: Annotated[
        str | None, typer.Argument(help="The name of an entry to show, or part of the names to list.")
    ] = None,
    stale_after: Annotated[str, typer.Option(help="Flag prices older than this.")] = "180d",
    as_of: Annotated[
        str | None, typer.Option(help="The day that staleness refers to, YYYY-MM-DD; default: today.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """List and show what the catalog knows, with sources and dates; stale prices are flagged."""
    from planner.verbs.catalogs import catalog_entries

    emit(catalog_entries(kind, name, stale_after=stale_after, as_of=as_of).document, Outputs(format))


@catalog.command(
    epilog=examples(
        "fleetplan catalog add-model config.json --name Qwen/Qwen3-8B --out models.yaml",
        "fleetplan catalog add-model config.json --name my-moe-30b --parameters 30.5B --set tie_word_embeddings=false",
    )
)
def add_model(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.json", help="A model's config.json on disk.", show_default=False)
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the model, or its id on the Hub; default: taken from the file's path.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the entry to this file, or add it there, instead of printing it."),
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(help='The published number of parameters, such as "70.6B", to check the config against.'),
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a value that the config leaves open.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an entry of the same name in --out.")] = False,
    format: FormatOption = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """Make a catalog entry from a model's Hugging Face config.json: weights, KV cache and arithmetic.

    Use the result in a demand file: `catalog: models.yaml`.
    """
    from planner.catalog.model_config.config import parse_given
    from planner.io.files import check_targets
    from planner.verbs.catalogs import add_model as add_model_as_asked

    check_targets({"--out": out}, [config])
    added = add_model_as_asked(
        config, name=name, parameters=parameters, given=parse_given(given or []), into=out, replace=replace
    )
    for warning in added.notes:
        note(f"note: {warning}", quiet)
    named = "" if out is None else f"; name it in a demand file: catalog: {out.name}, models: [{added.name}]"
    emit_made(added.text, added.document, out, format, f"wrote {out}{named}", quiet)


catalog.command("import", epilog=prices.IMPORT_EXAMPLES)(prices.import_prices)
catalog.command("diff", epilog=prices.DIFF_EXAMPLES)(prices.diff)
