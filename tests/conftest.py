"""What all tests share. None fails because the machine was busy, or because it was started in the background."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.browser import Page, browser
from tests.support.places import TESTS
from tests.support.shared_plans import SHARED

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

NOT_QUICK = ("oracle", "browser", "process", "slow")
FEW_CASES = 12
"""of a test with many parameters, such as seeds, that are quick"""
SOME_CASES = 16
"""of a test that compares with enumeration, spread over all of its seeds, unless every case is asked for"""

os.environ["FLEETPLAN_VERIFY"] = "0"  # a sample takes seconds; those who test it ask for it
os.environ["FLEETPLAN_PROGRESS_S"] = "inf"  # lines of progress come by the clock
# Commands and solvers are started hundreds of times, in half the time where modules are kept compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts its background jobs, which pass it on
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-case", action="store_true", help=f"all seeds of tests/oracle, instead of {SOME_CASES} of each test"
    )


def pytest_configure(config: pytest.Config) -> None:
    """A folder for what is made once in a run (tests/support/shared_plans.py), of this process and of its workers."""
    if SHARED not in os.environ:
        folder = os.environ[SHARED] = tempfile.mkdtemp(prefix="fleetplan-tests-")

        def gone() -> None:
            del os.environ[SHARED]
            shutil.rmtree(folder, ignore_errors=True)

        config.add_cleanup(gone)


@pytest.hookimpl(tryfirst=True)  # before those that `-m` does not ask for are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("every_case"):
        spare = _spare_cases(items)
        config.hook.pytest_deselected(items=[item for item in items if item in spare])
        items[:] = [item for item in items if item not in spare]
    seen: Counter[str] = Counter()
    for item in items:
        if item.path.is_relative_to(TESTS / "oracle"):
            item.add_marker("oracle")
        if "page" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        test = item.nodeid.split("[")[0]
        seen[test] += 1
        if seen[test] <= FEW_CASES and not any(item.get_closest_marker(mark) for mark in NOT_QUICK):
            item.add_marker("quick")


def _spare_cases(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of each test against enumeration all but a spread of its cases, the first and the last among them."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.path.is_relative_to(TESTS / "oracle"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    spare = set()
    for some in cases.values():
        kept = {round(i * (len(some) - 1) / (SOME_CASES - 1)) for i in range(SOME_CASES)}
        spare |= {item for i, item in enumerate(some) if len(some) > SOME_CASES and i not in kept}
    return spare


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    with browser() as page:
        yield page
