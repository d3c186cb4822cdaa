"""Start Python processes that import fleetplan from where this one has it, and nothing from the working folder.

A demand file may come in a folder with files of any name. Python looks for modules in the working folder first, so a
child that is started there would run whatever calls itself `solvers` or `numpy`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
"""the folder that this package was imported from"""


def import_path() -> list[str]:
    """Folders for a child's modules: those of this process, without any that depends on the working folder.

    Where fleetplan itself lies there, that folder stays.
    """
    left_out = _in_the_working_folder()
    kept = [entry for entry in sys.path if os.path.isabs(entry) and os.path.realpath(entry) not in left_out]
    return kept if ROOT in map(os.path.realpath, kept) else [ROOT, *kept]


def module_argv(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of fleetplan, in the environment of `module_environment`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(import_path()), "PYTHONSAFEPATH": "1"}


def piped_module(module: str, preexec_fn: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
    """A process that runs a module of fleetplan, to be spoken with over its standard streams."""
    return subprocess.Popen(
        module_argv(module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=module_environment(),
        start_new_session=True,  # a terminal's Ctrl-C is for this process, which then ends the other
        preexec_fn=preexec_fn,
    )


@contextmanager
def safe_spawn() -> Iterator[None]:
    """Let multiprocessing start processes in the same way: it passes on the environment and `sys.path`.

    A script in the working folder may have its jobs defined there, so for its workers that folder comes last.
    """
    path, environment = sys.path[:], os.environ.copy()
    safe = import_path()
    sys.path[:] = [*safe, *(os.path.abspath(entry) for entry in path if entry not in safe)]
    os.environ.update(module_environment())
    try:
        yield
    finally:
        sys.path[:] = path
        for name in ("PYTHONPATH", "PYTHONSAFEPATH"):
            if name in environment:
                os.environ[name] = environment[name]
            else:
                del os.environ[name]


def _in_the_working_folder() -> set[str]:
    relative = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if not os.path.isabs(entry)]
    try:
        return {os.path.realpath(entry) for entry in (os.curdir, *relative)}
    except FileNotFoundError:  # the working folder is gone, and with it whatever lay there
        return set()
