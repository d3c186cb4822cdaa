"""The `fleetplan` command. Every verb is a few lines over a library function; data goes to stdout, notes to stderr.

Exit codes: 0 a checked plan, 1 a defect of fleetplan, 2 bad input or a machine that lacks something, 3 infeasible,
4 not proved within --require-gap (the plan is still written), a bound not reached (check --prove) or no plan found, by
the end of the search or of --time-limit, and no proof that there is none, 5 a policy is violated, 6 a promise is missed
when the plan is served, 7 planned, but not served as asked (verify, plan --verify), 130 interrupted (the best plan is
written).

Nothing is imported here but what every Python process has already: a Ctrl-C from the first moment on ends in `main`,
and no module is looked for in the working folder before `main` has taken it off the path.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
INTERRUPTED = "interrupted before there was a result"


def main() -> None:
    """Run the command and exit."""
    import atexit

    atexit.register(_hear_no_more)
    path = sys.path[:]
    try:
        code = _command()()
    except KeyboardInterrupt:
        code = say(INTERRUPTED, 130)
    finally:
        sys.path[:] = path
    sys.exit(code)


def say(message: str, code: int) -> int:
    """Tell the user why the command ends, if stderr can be written, and return the exit code."""
    try:  # contextlib would be one import more before a Ctrl-C is heard
        print(message, file=sys.stderr)
    except OSError:
        return code
    return code


def _command() -> Callable[[], int]:
    _leave_out_the_working_folder()
    import signal

    as_usual = (signal.default_int_handler, signal.SIG_DFL)
    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) in as_usual]
    for number in heard:
        # Modules may swallow a KeyboardInterrupt while they are imported, or make another error of it.
        signal.signal(number, lambda number, frame: _exit_at_once())
    try:
        from planner.cli.command import run
    finally:
        for number in heard:
            signal.signal(number, signal.default_int_handler)
    return run


def _hear_no_more() -> None:
    """A second Ctrl-C while the interpreter ends must not change the exit code, or leave temporary files behind."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _exit_at_once() -> None:
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(130)


def _leave_out_the_working_folder() -> None:
    """Take it off the path, unless fleetplan itself is there: files beside a demand file are not our code."""
    try:
        here = os.path.realpath(os.curdir)
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here or here == ROOT]
    except FileNotFoundError:  # it is gone, and with it whatever lay there
        pass
    from solvers.backends.python_child import import_path

    sys.path[:] = import_path()
