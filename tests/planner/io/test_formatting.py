"""Amounts as people read them."""

from __future__ import annotations

from planner.io.formatting import percent, usd
from tests.support.rows import for_each


@for_each(
    ("amount", "text"),
    [(-1e-10, "$0.00"), (-0.0, "$0.00"), (-0.004, "$0.00"), (-0.006, "-$0.01"), (-12.0, "-$12"), (9.996, "$10")],
)
def test_what_rounds_to_nothing_has_no_sign(amount: float, text: str) -> None:
    assert usd(amount) == text


def test_a_whole_is_no_less_by_rounding() -> None:
    assert (percent(1 - 1e-12), percent(1 - 1e-5)) == ("100%", ">99.9%")
