"""The verbs of the `fleetplan` command, and its message and exit code if one fails."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Annotated

import typer

from planner.cli import guard, say
from planner.cli.common import LOST, WORK, Stopwatch, prepare_streams, put

EXHAUSTED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
"""errors of the system that say what a machine has no more of"""

VERBS = {
    "planning": ("plan", "explain", "init", "validate", "schema"),
    "studying": ("study",),
    "what_if": ("what-if",),
    "exploring": ("explore",),
    "reporting": ("report", "diff", "export"),
    "reviewing": ("review",),
    "checking": ("check",),
    "verifying": ("verify",),
    "logs": ("demand",),
    "performance": ("accuracy", "estimate", "calibrate"),
    "catalog.verbs": ("catalog",),
    "mcp_server": ("mcp",),
}
"""in which file each verb is, in the order of the help"""


@cache
def app(file: str | None = None) -> typer.Typer:
    """The command with the verbs of one file, or with all of them, which takes longer than many a verb to run."""
    made = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
                       add_completion=False, context_settings={"help_option_names": ["-h", "--help"]},
                       help=(
                           "Find the cheapest GPU fleet that meets demand and SLOs, with a proof, and compare it with "
                           "API prices."
                       ),
                       epilog="Start with:  fleetplan init demand.yaml  and then  fleetplan plan demand.yaml",
                       )  # fmt: skip
    made.callback(invoke_without_command=True)(common)
    for name in VERBS if file is None else (file,):
        made.add_typer(import_module(f"planner.cli.{name}").verbs)
    return made


def common(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="With --version: print what a bug report needs.")] = False,
) -> None:
    if verbose and not version:
        raise typer.BadParameter(
            "works only with --version here; each command has its own --verbose", param_hint="--verbose"
        )
    if version:
        from planner.cli.versions import version_text

        put(version_text(verbose))
        raise typer.Exit()


def run() -> int:
    """Run the command; every foreseeable failure is one message and its exit code, never a traceback."""
    Stopwatch.start()
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    return _ended(app(next((file for file, verbs in VERBS.items() if given in verbs), None)))


def put_out(kept: bytes, reason: str) -> int:
    """Put out what was kept of a command that has not ended by itself."""
    import pickle

    return _ended(lambda: pickle.loads(kept)(reason))


def _ended(work: Callable[[], object]) -> int:
    """The exit code of what is done."""
    from solvers.backends.clock import stop_is_asked

    LOST.clear()
    prepare_streams()
    asked = False
    try:
        with WORK:
            try:
                work()
            finally:
                asked = stop_is_asked()
    except typer.Exit as stop:
        return _stdout_lost(stop.exit_code) if LOST else stop.exit_code
    except SystemExit as stop:
        exited = stop.__context__
        if exited is not None and isinstance(exited.__cause__, KeyboardInterrupt):  # Typer makes this of it
            return _stopped(exited.__cause__)
        if LOST:
            return _stdout_lost(stop.code)
        if asked and not stop.code:  # what is whole is put out all the same
            return guard.SAID[guard.INTERRUPTED][1]
        raise
    except KeyboardInterrupt as stop:
        return _stopped(stop)
    except Exception as error:
        return _failed(error)
    return _stdout_lost(None) if LOST else 0


def _failed(error: Exception) -> int:
    from planner.io.errors import InputError, OutOfTime
    from solvers.backends.trouble import MachineTrouble

    if isinstance(error, InputError | MachineTrouble):
        return say(str(error), 2)
    if isinstance(error, OutOfTime):
        return say(str(error), 4)
    from planner.explanations.relaxations import Infeasible

    if isinstance(error, Infeasible):
        head, code = ("no fleet can meet this demand", 3) if error.proved else ("no plan was found", 4)
        return say(f"{head}:\n{error}", code)
    if isinstance(error, OSError) and error.filename is None and _stdout_fails():
        return _stdout_lost(None)
    if isinstance(error, MemoryError):
        return 2 if guard.hand_over(guard.MEMORY) else say(*guard.SAID[guard.MEMORY])
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        return say(f"the machine has run out of a resource: {error}. Free some of it and try again.", 2)
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


def _stopped(stop: BaseException) -> int:
    """End as somebody wishes, or as the clock does where nothing is known yet."""
    from solvers.backends.clock import TimeIsUp

    reason = guard.OUT_OF_TIME if isinstance(stop, TimeIsUp) else guard.INTERRUPTED
    message, code = guard.SAID[reason]
    return code if guard.hand_over(reason) else say(message, code)
