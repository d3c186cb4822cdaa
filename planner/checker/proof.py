"""The bound of a saved plan against that of a new search for the same case."""

from __future__ import annotations

from typing import Literal

from planner.checker.claims import PROVED_GAP
from planner.io.validation import Strict


class BoundCheck(Strict):
    """What planning again says of a recorded bound; USD per month, of a horizon over all of it, penalties included."""

    verdict: Literal["confirmed", "refuted", "not-confirmed"]
    recorded_usd: float
    recomputed_usd: float | None
    """the bound that the new search proved; None where it proved none"""
    found_usd: float | None
    """what the new search's own plan comes to"""
    interrupted: bool = False
    """somebody stopped the new search"""


def bound_check(
    recorded_usd: float, recomputed_usd: float | None, found_usd: float | None, interrupted: bool = False
) -> BoundCheck:
    """A plan below a bound refutes it, and a bound that reaches it confirms it; anything else decides nothing.

    Both up to the tolerance within which a plan is called optimal.
    """
    verdict: Literal["confirmed", "refuted", "not-confirmed"] = "not-confirmed"
    least_usd = recorded_usd * (1 - PROVED_GAP)
    if found_usd is not None and found_usd < least_usd:
        verdict = "refuted"
    elif recomputed_usd is not None and recomputed_usd >= least_usd:
        verdict = "confirmed"
    return BoundCheck(
        verdict=verdict,
        recorded_usd=recorded_usd,
        recomputed_usd=recomputed_usd,
        found_usd=found_usd,
        interrupted=interrupted,
    )
