"""Shared by the verbs: formats, options read as people write them, and output that survives a closed pipe."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from planner.cli import guard

WRITING_S, SHORTEST_S = 0.3, 0.001
"""seconds of a time limit kept for writing, and the least given to a task"""
MISSED, NOT_SERVED = 6, 7
"""exit codes: a promise is missed when the plan is served; the plan stands, but it was not served as asked,
since time ran out, and no promise is missed in what was served"""

if TYPE_CHECKING:
    from planner.case.case import Case
    from solvers.search.fleet_solution import Options


EXAMPLE_COLUMNS = 74
"""of a command in the help, so that it fits into 80 with what goes around it"""
T = TypeVar("T")


class Solver(StrEnum):
    cbc = "cbc"
    highs = "highs"


class Format(StrEnum):
    table = "table"
    json = "json"


class PlanFormat(StrEnum):
    table = "table"
    json = "json"
    md = "md"
    csv = "csv"


class DiffFormat(StrEnum):
    table = "table"
    md = "md"
    json = "json"


class ReportFormat(StrEnum):
    html = "html"
    table = "table"
    json = "json"
    md = "md"
    csv = "csv"
    focus = "focus"


CaseFile = Annotated[Path, typer.Argument(metavar="DEMAND.yaml", help="The demand file.", show_default=False)]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Write the report as a page to this file.")]
FormatOption = Annotated[Format, typer.Option(help="What to print on stdout.")]
PlanFormatOption = Annotated[PlanFormat, typer.Option(help="What to print on stdout; csv prints the table of --table.")]
TableOption = Annotated[
    str | None,
    typer.Option("--table", help="With --format csv: fleet, workloads, options, ...; default: the first."),
]
MarkdownOption = Annotated[Path | None, typer.Option("--markdown", help="Write the report as Markdown to this file.")]
CsvOption = Annotated[Path | None, typer.Option("--csv", help="Write every table as a CSV file into this folder.")]
XlsxOption = Annotated[
    Path | None, typer.Option("--xlsx", help="Write every table into one workbook (needs fleetplan[xlsx]).")
]
SummaryOption = Annotated[
    Path | None, typer.Option("--summary", help="Write one page to be signed, as .html or .md, to this file.")
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root",
        envvar="FLEETPLAN_ROOT",
        exists=True,
        file_okay=False,
        help="Refuse to read files outside this folder.",
    ),
]
QuarterOption = Annotated[
    int | None, typer.Option("--quarter", min=1, max=12, help="Quarter of a multi-quarter plan, starting at 1.")
]
ScenarioOption = Annotated[str | None, typer.Option("--scenario", help="Scenario of a multi-quarter plan.")]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="A saved plan.", show_default=False)]


def put(text: str) -> None:
    """Write data to stdout. If that fails, the work goes on for its files, and main() reports it at the end."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        lose_stdout(error)


def lose_stdout(error: OSError) -> None:
    """Write no more to stdout. A reader that stops early (`| head`) is no failure; a full or closed stdout is."""
    if not isinstance(error, BrokenPipeError):
        LOST.append(error.strerror or str(error))
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


WORK = contextlib.ExitStack()
"""what is closed when the command is over"""
LOST: list[str] = []
"""why nothing more could be written to stdout"""


def in_color() -> bool:
    """Whether stdout is a terminal whose owner wants colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def put_json(data: Any) -> None:
    from planner.io.formatting import json_text

    put(json_text(data))


def note(text: str, quiet: bool = False) -> None:
    """Write a remark to stderr, or drop it if nobody can read it."""
    if not quiet:
        with contextlib.suppress(OSError):
            typer.echo(text, err=True)


def refuse(where: str, message: str, remedy: str = "") -> NoReturn:
    from planner.io.errors import input_error

    raise input_error(where, message, remedy) from None


def parsed(option: str, parse: Callable[[object], T], text: str) -> T:
    """Read an option's text as a value; an error names the option."""
    try:
        return parse(text)
    except ValueError as error:
        refuse(option, str(error).rstrip("."))


def fraction(option: str, text: str | None) -> float | None:
    from planner.io.units import parse_fraction

    return None if text is None else parsed(option, parse_fraction, text)


def seconds(option: str, text: str | None) -> float | None:
    from planner.io.units import parse_duration

    return None if text is None else parsed(option, parse_duration, text)


def search_options(solver: Any, gap: str, time_limit: str | None) -> Options:
    from solvers.search.fleet_solution import Options

    limit_s = seconds("--time-limit", time_limit)
    return Options(solver=solver, gap_frac=fraction("--gap", gap) or 0.0, time_limit_s=limit_s)


class Stopwatch:
    """How long the command has taken."""

    started = time.monotonic()

    @classmethod
    def start(cls) -> None:
        cls.started = guard.began()

    @classmethod
    def seconds(cls) -> float:
        return time.monotonic() - cls.started


def left_of(limit_s: float | None) -> float | None:
    """What is left of a time limit that holds for the whole command, less the time for writing."""
    return None if limit_s is None else max(SHORTEST_S, limit_s - Stopwatch.seconds() - WRITING_S)


def with_what_is_left(options: Options, share: float = 1.0) -> Options:
    """Options with a share of what is left of a time limit that holds for the whole command."""
    from dataclasses import replace

    left_s = left_of(options.time_limit_s)
    return options if left_s is None else replace(options, time_limit_s=max(SHORTEST_S, share * left_s))


def end_by(limit_s: float | None) -> None:
    """Have the command ended when it is over its time limit, whatever it does then."""
    if limit_s is not None:
        guard.end_by(Stopwatch.started + limit_s)


def begin_work(limit_s: float | None = None) -> None:
    """What follows takes long, and stops where it is asked to; so does all of the command from now on."""
    from solvers.backends.clock import stoppable

    end_by(limit_s)
    WORK.enter_context(stoppable())


def case_in_time(
    file: Path, root: Path | None, options: Options, accept_guesses: bool = False
) -> tuple[Case, list[Path]]:
    """The case of a demand file to plan, and the files it names, read within the time limit."""
    from planner.case.demand.load import check_decided, load_case
    from planner.io.errors import OutOfTime
    from planner.io.named_files import NamedFiles
    from solvers.backends.clock import TimeIsUp, check, limited_to

    end_by(options.time_limit_s)
    try:
        with limited_to(with_what_is_left(options).time_limit_s):
            files = NamedFiles(root)
            case = load_case(file, files)
            if not accept_guesses:
                check_decided(case)
            check()
            return case, list(files.paths)
    except TimeIsUp:
        assert options.time_limit_s is not None
        raise OutOfTime(options.time_limit_s, "reading the demand file", Stopwatch.seconds()) from None


def prepare_streams() -> None:
    """Replace what a stream's encoding cannot express, and give closed streams a place.

    A file opened while stdout is closed would become stdout, and what solvers print would end up in it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # For reading only where somebody waits for what stdout says: a write fails, and the command says so.
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if number:
                setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
        stream = getattr(sys, name)
        if number and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def examples(*commands: str) -> str:
    """The end of a verb's help: commands, each on lines of its own, which a shell takes as they are."""
    lines = [line for command in commands for line in _continued(command)]
    return "\n".join(["\b", "Examples:" if len(commands) > 1 else "Example:", *lines])


def _continued(command: str) -> list[str]:
    """A command on as many lines as it takes; no option is parted from its value."""
    glued = re.sub(r"(--[\w-]+) (?!-)", "\\1\0", command)
    parts = wrap(glued, EXAMPLE_COLUMNS, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [f"  {part}".replace("\0", " ") + " \\" * (k < len(parts) - 1) for k, part in enumerate(parts)]
