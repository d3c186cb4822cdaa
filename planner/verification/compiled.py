"""How functions are compiled by numba, and how Python calls them.

A signal handler that raises while numba hands a result to Python ends the process with a segmentation fault. So Python
calls compiled functions through an entry, which holds interruptions back until the call is over; what takes long is
called for a part of its work at a time. Compiling, which takes half a minute once on a machine, is Python's own work
and is interrupted as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from solvers.backends.deadline import interruptions_deferred

with interruptions_deferred():
    from numba import njit, typeof

P = ParamSpec("P")
R = TypeVar("R")

inner = njit(cache=True)
"""for functions that only compiled ones call"""
inlined = njit(cache=True, inline="always")
"""the same, for those that are called in every step"""


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that Python calls, and no compiled one."""
    compiled = njit(cache=True)(function)

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        with interruptions_deferred() as held:
            kinds = tuple(typeof(argument) for argument in arguments)  # type: ignore[no-untyped-call]
            if kinds not in compiled.overloads:
                with held.let_in():
                    compiled.compile(kinds)
            result: R = compiled(*arguments, **named)
        return result

    return call
