"""The verbs of the `fleetplan` command, and its message and exit code if one fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

from planner.cli import (
    checking,
    logs,
    performance,
    planning,
    reporting,
    reviewing,
    say,
    studying,
    verifying,
    what_if,
)
from planner.cli.catalog import verbs as catalog
from planner.cli.common import LOST, Stopwatch, prepare_streams, put
from solvers.backends.deadline import repeat_what_is_swallowed

EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
"""errors of the system that say what a machine has no more of"""

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
app.add_typer(verifying.verbs)
app.add_typer(logs.verbs)
app.add_typer(performance.verbs)
app.add_typer(catalog.verbs)


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="With --version: what a bug report needs.")] = False,
) -> None:
    if verbose and not version:
        raise typer.BadParameter(
            "goes with --version here; verbs have a --verbose of their own", param_hint="--verbose"
        )
    if version:
        from planner.cli.versions import version_text

        put(version_text(verbose))
        raise typer.Exit()


@cache
def _verbs() -> Callable[[], Any]:
    """The verbs with their options, which take longer to put together than many a verb to run."""
    return typer.main.get_command(app)


def run() -> int:
    """Run the command; every foreseeable failure is one message and its exit code, never a traceback."""
    Stopwatch.start()
    LOST.clear()
    prepare_streams()
    repeat_what_is_swallowed()
    try:
        _verbs()()
    except SystemExit as stop:
        interruption = _interruption(stop)  # Typer makes this of a KeyboardInterrupt
        if interruption is not None:
            return _interrupted(interruption)
        if LOST:
            return _stdout_lost(stop.code)
        raise
    except Exception as error:
        return _failed(error)
    return 0


def _failed(error: Exception) -> int:
    interruption = _interruption(error)
    if interruption is not None:
        return _interrupted(interruption)
    from planner.explanations.relaxations import Infeasible
    from planner.io.errors import InputError, OutOfTime
    from solvers.backends.trouble import MachineTrouble

    if isinstance(error, InputError | MachineTrouble):
        return say(str(error), 2)
    if isinstance(error, OutOfTime):
        return say(str(error), 4)
    if isinstance(error, Infeasible):
        head, code = ("no fleet can do this", 3) if error.proved else ("no plan was found", 4)
        return say(f"{head}:\n{error}", code)
    if isinstance(error, OSError) and error.filename is None and _stdout_fails():
        return _stdout_lost(None)
    if isinstance(error, MemoryError):
        return say("there is not enough memory for this case. Use a larger machine, or a smaller menu.", 2)
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        return say(f"the machine has run out of something: {error}. Free some of it and try again.", 2)
    if os.environ.get("FLEETPLAN_DEBUG"):
        raise error
    hint = "This is a defect of fleetplan; set FLEETPLAN_DEBUG=1 for details and please report it."
    return say(f"{type(error).__name__}: {error}\n{hint}", 1)


def _stdout_fails() -> bool:
    """Whether an error comes from stdout, as when --help is printed."""
    put("\n")
    return bool(LOST)


def _stdout_lost(code: int | str | None) -> int:
    """Report that stdout is lost, and keep a more specific exit code."""
    message = f"stdout: cannot be written: {LOST[0]}. Files named by --out and similar options are still written."
    return say(message, code if isinstance(code, int) and code else 2)


def _interrupted(stop: KeyboardInterrupt) -> int:
    """End as somebody wishes, or as the clock does where nothing is known yet."""
    from solvers.backends.deadline import OUT_OF_TIME, TimeIsUp

    if isinstance(stop, TimeIsUp):
        return say(f"{OUT_OF_TIME} before anything was known. Try a longer --time-limit, or none.", 4)
    raise KeyboardInterrupt from stop


def _interruption(error: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C behind an error: one that strikes while an extension is imported becomes an ImportError."""
    if not isinstance(error, ImportError | SystemError | SystemExit):
        return None
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        if isinstance(at, KeyboardInterrupt):
            return at
        seen.append(at)
        at = at.__cause__ or at.__context__
    return None
