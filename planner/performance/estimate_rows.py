"""Predictions for every row of a CSV: a deployment, lengths and the requests in flight."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from planner.catalog.entries import DEFAULT_ENGINE, Catalog, shipped_catalog
from planner.catalog.variant import TENSOR, Variant
from planner.io.errors import Diagnostic, InputError, input_error, shown
from planner.io.input_files import read_input
from planner.io.units import parse_positive_count
from planner.performance.estimate import points_at
from planner.performance.machine_by_name import machine_for, parallelism_named

MOST_POINTS_BYTES = 100_000_000
COLUMNS = ("model", "gpu", "gpus_per_replica", "parallelism", "quantization", "input", "output", "concurrency")


def predict_points(path: Path, catalog: Catalog | None = None) -> list[dict[str, Any]]:
    """Every row of a CSV with its prediction; the last three of COLUMNS and the first two must be there."""
    catalog = catalog or shipped_catalog()
    try:
        text = read_input(path, MOST_POINTS_BYTES, "Predict it in parts").decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise input_error(path, f"cannot be read as CSV: {error}") from None
    found = []
    diagnostics = []
    for line, row in enumerate(rows, start=2):
        try:
            found.append(_predicted(row, catalog))
        except InputError as error:
            diagnostics += [replace(c, file=str(path), line=line, where=c.file.lstrip("-")) for c in error.diagnostics]
        except (KeyError, TypeError, ValueError) as error:
            message = f"{error}" if not isinstance(error, KeyError) else f"has no column {error}"
            diagnostics.append(Diagnostic(str(path), line, None, "", message, f"Columns: {', '.join(COLUMNS)}"))
    if diagnostics or not found:
        raise InputError(diagnostics or [Diagnostic(str(path), None, None, "", "has no rows")])
    return found


def _predicted(row: dict[str, str], catalog: Catalog) -> dict[str, Any]:
    empty = [name for name in ("model", "gpu", "input", "output", "concurrency") if not row[name]]
    if empty:
        raise ValueError(f"needs a value for {', '.join(empty)}")
    gpus, quantization = _whole(row.get("gpus_per_replica") or "1"), row.get("quantization") or "fp16"
    parallelism = parallelism_named(row.get("parallelism") or TENSOR)
    variant = Variant(row["model"], quantization, row["gpu"], gpus, parallelism)
    machine = machine_for(catalog, variant, row.get("engine") or DEFAULT_ENGINE)
    tokens = {name: parse_positive_count(row[name]) for name in ("input", "output", "concurrency")}
    point = points_at(machine, [tokens["concurrency"]], tokens["input"], tokens["output"])[0]
    given = {
        "model": row["model"], "gpu": row["gpu"], "gpus_per_replica": gpus, "parallelism": parallelism,
        "quantization": quantization,
    }  # fmt: skip
    return given | tokens | {k: v for k, v in asdict(point).items() if k != "concurrency"} | {"basis": machine.basis}


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"gpus_per_replica must be a whole number, got {shown(text)}") from None
