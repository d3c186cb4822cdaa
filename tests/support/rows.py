"""One test for a property of many rows of data: it fails with every row that lacks the property, and why."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but all rows are one test.

    For rows of data, of which there are hundreds and none takes any time. They share the fixtures.
    """
    keys = (names,) if isinstance(names, str) else names
    values = [(row,) if isinstance(names, str) else tuple(row) for row in rows]

    def decorated(check: Test) -> Test:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            assert values, "there are no rows"
            offenders = []
            for row in values:
                try:
                    check(**dict(zip(keys, row, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    offenders.append(f"{', '.join(map(str, row))}: {type(error).__name__}: {error}")
            if offenders:
                pytest.fail("\n".join([f"{len(offenders)} of {len(values)} rows:", *offenders]), pytrace=False)

        signature = inspect.signature(check)
        fixtures = [p for p in signature.parameters.values() if p.name not in keys]
        test.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return test

    return decorated
