"""Verbs around demand files: one from logs, what one says, its schema, and one to begin with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.case.demand.starter import demand_schema_text, write_starter
from planner.io.errors import input_error, shown
from planner.verbs.opening import CaseOrFile, case_of
from planner.verbs.results import Answer, Made
from solvers.backends.clock import check, stoppable

if TYPE_CHECKING:
    from planner.case.case import Case
    from planner.logs.measure import Measured

SPLITS, TIME_UNITS = ("model", "route", "team"), ("s", "ms", "us", "ns")


@dataclass(frozen=True, repr=False)
class Demand(Made):
    """A demand file from logs; `save("demand.yaml")` writes it."""

    notes: tuple[str, ...]
    """what of the logs was left out, and what else a reader should know"""
    measured: Measured | None
    """None of a file of sessions, which does not say when they were"""


@stoppable()
def demand(
    sources: str | Path | Sequence[str | Path],
    *,
    by: str | None = None,
    columns: Mapping[str, str] | str | None = None,
    time_unit: str | None = None,
    time_zone: str = "UTC",
    holidays: Iterable[date | str] = (),
    name: str = "requests",
    engine: str = "duckdb",
    work: Path | str | None = None,
    sessions: bool = False,
) -> Demand:
    """A demand file from request logs, traces or metrics: files, folders or patterns.

    Formats are known by their columns; `columns` has those of another one, as in {"time": "ts", "prompt": "in"}. `by`
    makes a workload for each model, route or team. With `sessions`, prompts that begin with each other's blocks become
    sessions; a column for them ({"session": "chat_id"}) and files of sessions are read as such. Needs fleetplan[logs].
    """
    from planner.case.demand.from_logs import check_name, demand_text
    from planner.case.demand.from_sessions import session_file_text
    from planner.logs.measure import MeasureOptions, measure_logs, parse_columns
    from planner.logs.reading.session_files import is_session_file, read_session_file
    from planner.reports.validation import demand_document, sessions_document

    for option, value, known in (("--by", by, SPLITS), ("--time-unit", time_unit, TIME_UNITS)):
        if value is not None and value not in known:
            raise input_error(option, f"expected one of {', '.join(known)}, got {shown(value)}", "")
    name = name.strip() or "requests"
    check_name(name)
    alone = Path(sources) if isinstance(sources, str | Path) else Path(sources[0]) if len(sources) == 1 else None
    if alone is not None and is_session_file(alone):
        rows = read_session_file(alone)
        document = sessions_document(rows)
        return Demand(f"demand of {name}", document, session_file_text(rows, name), rows.assumed, None)
    given = ",".join(f"{k}={v}" for k, v in columns.items()) if isinstance(columns, Mapping) else columns
    measured = measure_logs(
        MeasureOptions(
            sources=(str(sources),) if isinstance(sources, str | Path) else tuple(map(str, sources)),
            columns=parse_columns(given),
            time_unit=time_unit,
            by=by,  # type: ignore[arg-type]  # checked above
            zone=time_zone,
            holidays=_dates(holidays),
            engine=engine,
            sessions=sessions,
            work=None if work is None else Path(work),
        )
    )
    check()
    notes = (*measured.ledger.left_out_lines(), *measured.ledger.notes)
    workloads = ", ".join(w.traffic.name or name for w in measured.workloads)
    return Demand(f"demand of {workloads}", demand_document(measured), demand_text(measured, name), notes, measured)


def _dates(days: Iterable[date | str]) -> frozenset[date]:
    try:
        return frozenset(day if isinstance(day, date) else date.fromisoformat(day) for day in days)
    except ValueError:
        raise input_error(
            "--holidays", "expected dates separated by commas", "Write --holidays 2026-12-25,2026-12-26"
        ) from None


@dataclass(frozen=True, repr=False)
class Validation(Answer):
    """What a valid demand file says."""

    case: Case


def validate(case: CaseOrFile, *, root: Path | str | None = None) -> Validation:
    """What a demand file says, so that you see whether it is understood; raises InputError with every mistake in it."""
    from planner.reports.validation import validation_document

    read = case_of(case, root)
    return Validation(f"{read.name} is valid", validation_document(read), read)


def schema() -> dict[str, Any]:
    """The JSON schema of demand files, for editors."""
    made: dict[str, Any] = json.loads(demand_schema_text())
    return made


def init(path: Path | str = "demand.yaml", *, force: bool = False) -> list[Path]:
    """Write a commented demand file that runs, and the schema that lets editors complete it; returns their paths."""
    return write_starter(Path(path), force)
