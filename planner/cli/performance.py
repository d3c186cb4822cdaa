"""Verbs around the performance model: estimate, accuracy, calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import Format, FormatOption, note, put, put_json

verbs = typer.Typer()


@verbs.command(epilog="Example:  fleetplan accuracy measured.csv.gz --out scored.csv")
def accuracy(
    points: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Measured points, plain or gzipped.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write each row with its prediction here.")] = None,
    format: FormatOption = Format.table,
) -> None:
    """Score the performance model on measured points: errors by metric, GPU, precision and source."""
    from planner.files import check_writable, write_whole
    from planner.performance.accuracy import score
    from planner.reports.performance import accuracy_rows_csv, accuracy_text

    if out is not None:
        check_writable(out)
    result = score(points)
    put(accuracy_text(result)) if format is Format.table else put_json(result.as_json())
    if out is not None:
        write_whole(out, accuracy_rows_csv(points, result))
        note(f"wrote {out}")
