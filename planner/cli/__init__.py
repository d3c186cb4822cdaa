"""The `fleetplan` command. Every verb is a few lines over a library function; data goes to stdout, notes to stderr.

Exit codes: 0 a checked plan, 1 a defect of fleetplan, 2 bad input or a machine that lacks something, 3 infeasible,
4 not proved within --require-gap (the plan is still written), a bound not reached (check --prove) or no plan found, by
the end of the search or of --time-limit, and no proof that there is none, 5 a policy is violated, 6 a promise is missed
when the plan is served, 7 planned, but not served as asked (verify, plan --verify), 130 interrupted (the best plan is
written).

Nothing is imported here but what every Python process has already: the command is forked from a small process, and no
module is looked for in the working folder before it is off the path.
"""

from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def main() -> None:
    """Run the command, watched by a process that outlives it, and exit."""
    from planner.cli.guard import guarded

    sys.exit(guarded(run, finish))


def run() -> int:
    """Run the command in this process."""
    path = sys.path[:]
    try:
        leave_out_the_working_folder()
        from planner.cli.guard import INTERRUPTED, SAID, join_the_outer_process

        join_the_outer_process()
        from planner.cli import command

        return command.run()
    except KeyboardInterrupt:
        return say(*SAID[INTERRUPTED])
    finally:
        sys.path[:] = path


def finish(kept: bytes, reason: str) -> int:
    """Put out what there is of a command that has not ended by itself, and say why that is all."""
    leave_out_the_working_folder()
    from planner.cli.guard import INTERRUPTED, OUT_OF_TIME, SAID
    from solvers.backends.scratch import clear

    clear()
    if not kept:
        return say(*SAID[reason])
    from planner.cli.command import put_out

    if reason in (INTERRUPTED, OUT_OF_TIME):
        return put_out(kept, reason)
    put_out(kept, INTERRUPTED)
    return say(*SAID[reason])


def say(message: str, code: int) -> int:
    """Tell the user why the command ends, if stderr can be written, and return the exit code."""
    try:
        print(message, file=sys.stderr)
    except OSError:
        return code
    return code


def leave_out_the_working_folder() -> None:
    """Take it off the path, unless fleetplan itself is there: files beside a demand file are not our code."""
    try:
        here = os.path.realpath(os.curdir)
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here or here == ROOT]
    except FileNotFoundError:  # it is gone, and with it whatever lay there
        pass
    from solvers.backends.python_child import import_path

    sys.path[:] = import_path()
