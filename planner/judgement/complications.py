"""Parts of a plan that cost nearly nothing and are one thing more to run: a vendor, a region, a kind of GPU."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent, usd
from planner.judgement.concern import Concern
from planner.plan.complications import parts_of
from planner.plan.plan import Plan
from planner.plan.simpler import reductions_of

SMALL_FRAC = 0.02
"""of the cost, engineers aside"""


def small_part(plan: Plan) -> Iterator[Concern]:
    """Each vendor, region or kind of GPU beside larger ones that has a very small share of the cost."""
    parts = [part for part in parts_of(plan) if not part.is_the_only_one]
    whole = plan.cost_usd_per_month - plan.costs.engineers_usd_per_month
    for part in parts:
        if whole and part.usd_per_month < SMALL_FRAC * whole:
            share = percent(part.usd_per_month / whole, 1)
            yield Concern(
                key="small-part",
                usd_per_month=part.usd_per_month,
                sentence=f"{part.what} accounts for only {share} of the cost ({usd(part.usd_per_month)} / month)",
                remedy=_remedy(plan, part.what),
            )


def _remedy(plan: Plan, what: str) -> str:
    simplest = "'policy: {choose: simplest}' leaves it out where that is cheap"
    for tried in reductions_of(plan.simpler):
        if what not in tried.without:
            continue
        if tried.more_usd is None:
            return "no plan without it was found, so decide whether you want it"
        return f"a plan without it costs at most {usd(tried.more_usd)} / month more; {simplest}"
    return f"decide whether it is worth having; {simplest}"
