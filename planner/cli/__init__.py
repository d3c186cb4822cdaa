"""The `fleetplan` command. Every verb is a few lines over a library function; data go to stdout, notes to stderr.

Exit codes: 0 a verified plan, 1 a defect of fleetplan, 2 bad input, 3 infeasible, 4 not proved within --require-gap
(the plan is still written) or no plan within --time-limit, 5 a policy is violated, 130 interrupted (the best plan is
written).
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from planner.cli import checking, performance, planning, reporting, reviewing, studying, what_if
from planner.cli.common import LOST, Stopwatch, note, put
from planner.cli.streams import prepare_streams

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False,
                  context_settings={"help_option_names": ["-h", "--help"]},
                  help="The cheapest GPU fleet that meets demand and SLOs, proved, against an API baseline.",
                  epilog="Start with:  fleetplan init demand.yaml  and then  fleetplan plan demand.yaml")  # fmt: skip
app.add_typer(planning.verbs)
app.add_typer(studying.verbs)
app.add_typer(what_if.verbs)
app.add_typer(reporting.verbs)
app.add_typer(reviewing.verbs)
app.add_typer(checking.verbs)
app.add_typer(performance.verbs)


@app.callback(invoke_without_command=True)
def common(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        from importlib.metadata import version as version_of

        put(f"fleetplan {version_of('fleetplan')}\n")
        raise typer.Exit()


def main() -> None:
    """Run the command; every foreseeable failure is one message and its exit code, never a traceback."""
    Stopwatch.start()
    LOST.clear()
    prepare_streams()
    try:
        app()
    except SystemExit as done:
        if not LOST:
            raise
        sys.exit(_stdout_lost(done.code))
    except KeyboardInterrupt:
        sys.exit(_say("interrupted before a plan was found", 130))
    except Exception as error:
        sys.exit(_failed(error))


def _failed(error: Exception) -> int:
    from planner.complaints import Infeasible, InputError, OutOfTime

    if isinstance(error, InputError):
        return _say(str(error), 2)
    if isinstance(error, OutOfTime):
        return _say(str(error), 4)
    if isinstance(error, Infeasible):
        head = "no fleet can do this" if error.proved else "no plan was found"
        return _say(f"{head}:\n{error}", 3)
    if isinstance(error, OSError) and error.filename is None and _stdout_fails():
        return _stdout_lost(None)
    if os.environ.get("FLEETPLAN_DEBUG"):
        raise error
    hint = "This is a defect of fleetplan; set FLEETPLAN_DEBUG=1 for details and please report it."
    return _say(f"{type(error).__name__}: {error}\n{hint}", 1)


def _stdout_fails() -> bool:
    """Whether an error comes from stdout, as when it is --help that is printed."""
    put("\n")
    return bool(LOST)


def _stdout_lost(code: int | str | None) -> int:
    """Say so, and keep an exit code that says more."""
    message = f"stdout: cannot be written: {LOST[0]}. What --out and its like name is written all the same."
    return _say(message, code if isinstance(code, int) and code else 2)


def _say(message: str, code: int) -> int:
    note(message)
    return code
