"""What all tests share: none fails because the machine was busy, or because they were started in the background."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.browser import Page, browser

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

os.environ["FLEETPLAN_PROGRESS_S"] = "inf"  # lines of progress come by the clock

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts its background jobs, which pass it on
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    with browser() as page:
        yield page
