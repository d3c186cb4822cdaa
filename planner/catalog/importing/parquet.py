"""Rows of a Parquet file as text, in the way that a CSV file has them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from planner.catalog.importing.files import check_columns
from planner.io.errors import InputError, input_error
from planner.io.input_files import open_input

ROWS = 20_000
"""read at a time"""


def parquet_rows(
    file: Path, needed: tuple[str, ...], wanted: Collection[str] | None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a Parquet file, numbered from 1, with the columns that are needed, and those wanted (None: all)."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise input_error(
            file, "needs a reader of Parquet", "Install it: pip install 'fleetplan[parquet]', or export CSV"
        ) from None
    try:
        with open_input(file) as stream:
            table = pq.ParquetFile(stream)
            names = [str(name) for name in table.schema_arrow.names]
            check_columns(file, names, needed)
            kept = [name for name in names if wanted is None or name in wanted or name in needed]
            number = 0
            for batch in table.iter_batches(ROWS, columns=kept):
                columns = [batch.column(name).to_pylist() for name in kept]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield number, {name: _text(cell) for name, cell in zip(kept, cells, strict=True)}
    except InputError:
        raise
    except Exception as error:  # whatever Arrow makes of bytes that are damaged
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
        raise input_error(file, f"cannot be read as Parquet: {reason}", "Export it again") from None


def _text(cell: Any) -> str:
    """A cell as CSV has it: times in ISO 8601, maps as JSON, nothing as nothing."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.isoformat()
    if isinstance(cell, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in cell):
        return json.dumps(dict(cell), default=str)
    return json.dumps(cell, default=str) if isinstance(cell, dict | list) else str(cell)
