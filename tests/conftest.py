"""What all tests share: no test fails because the machine was busy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Page, browser
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as page:
        yield page
