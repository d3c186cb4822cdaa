"""What the verbs share: formats, options read as people write them, and output that survives a closed pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Solver(StrEnum):
    cbc = "cbc"
    highs = "highs"


class Format(StrEnum):
    table = "table"
    json = "json"


CaseFile = Annotated[Path, typer.Argument(metavar="DEMAND.yaml", help="The demand file.", show_default=False)]
FormatOption = Annotated[Format, typer.Option(help="What to print on stdout.")]


def put(text: str) -> None:
    """Data on stdout. A reader that stops early (`| head`) is no failure; a full disk is named."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        refuse("stdout", f"cannot be written: {error.strerror}")


def in_color() -> bool:
    """On a terminal, unless its owner asks for no colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def put_json(data: Any) -> None:
    import json

    put(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def note(text: str, quiet: bool = False) -> None:
    """A remark on stderr."""
    if not quiet:
        typer.echo(text, err=True)


def refuse(where: str, message: str, remedy: str = "") -> None:
    from planner.complaints import Complaint, InputError

    raise InputError([Complaint(where, None, None, "", message, remedy)])


def parsed(option: str, parse: Callable[[object], Any], text: str | None) -> Any:
    """An option's text as a value, or a complaint that names the option."""
    from planner.complaints import Complaint, InputError

    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise InputError([Complaint(option, None, None, "", str(error).rstrip("."))]) from None


def fraction(option: str, text: str | None) -> float | None:
    from planner.units import parse_fraction

    return parsed(option, parse_fraction, text)


def seconds(option: str, text: str | None) -> float | None:
    from planner.units import parse_duration

    return parsed(option, parse_duration, text)
