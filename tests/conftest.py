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

os.environ["FLEETPLAN_VERIFY"] = "0"  # a sample takes seconds; those who test it ask for it
os.environ["FLEETPLAN_PROGRESS_S"] = "inf"  # lines of progress come by the clock
# Commands and solvers are started hundreds of times, in half the time where modules are kept compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts its background jobs, which pass it on
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """A folder for what is made once in a run (tests/support/shared_plans.py), of this process and of its workers."""
    if SHARED not in os.environ:
        folder = os.environ[SHARED] = tempfile.mkdtemp(prefix="fleetplan-tests-")

        def gone() -> None:
            del os.environ[SHARED]
            shutil.rmtree(folder, ignore_errors=True)

        config.add_cleanup(gone)


@pytest.hookimpl(tryfirst=True)  # before those that `-m` does not ask for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    with browser() as page:
        yield page
