"""A package that has the name of a verb: `planner.export` holds what exports, and planner.export(plan, ...) exports."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    """Called, it does what its package has under its name; set as the class of a module."""

    @property
    def __wrapped__(self) -> Any:
        """The verb, for those who ask for its signature or help."""
        package, _, name = self.__name__.rpartition(".")
        return sys.modules[package].public(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)
