"""What follows from something large, such as a plan, is worked out once for the last few of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

Of = TypeVar("Of")
Found = TypeVar("Found")
LAST = 4
"""so many are kept in memory, with what follows from each"""


class _The:
    """An object that equals itself alone: comparing plans leaf by leaf would take longer than what is remembered."""

    __slots__ = ("it",)

    def __init__(self, it: object) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _The) and self.it is other.it


def of_the_last(work_out: Callable[[Of], Found]) -> Callable[[Of], Found]:
    """The same function of something frozen, which remembers what it found for the last few arguments."""

    @lru_cache(maxsize=LAST)
    def remembered(the: _The) -> Found:
        return work_out(the.it)  # type: ignore[arg-type]

    @wraps(work_out)
    def found(it: Of) -> Found:
        return remembered(_The(it))

    return found
