"""Somebody sells the very model of a plan for less than hosting it, or than what the plan buys in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.catalog.names import sells
from planner.catalog.sellers import known_sellers
from planner.io.formatting import percent, usd
from planner.judgement.concern import Concern
from planner.plan.plan import Plan
from planner.plan.sellers import cheapest_elsewhere, sold_cheaper
from planner.plan.study_records import ProviderBill

OTHERS_NAMED = 2
"""the cheapest"""


@dataclass(frozen=True)
class SoldForLess:
    """The models of a plan, at the cheapest sellers that are counted on, as every report compares them."""

    models_by_seller: dict[str, list[str]]
    workloads: tuple[str, ...]
    there_usd: float
    here_usd: float
    hosted: bool
    """whether the plan hosts them; where it does not, it buys another model in their place"""
    more_frac: float
    """how much more the plan costs"""
    shares_machines: bool
    """with other workloads, which would keep them: the cost here is a share of theirs, and not all of it would go"""

    @property
    def sellers(self) -> str:
        return " and ".join(self.models_by_seller)

    @property
    def more_usd(self) -> float:
        return self.here_usd - self.there_usd


def sold_for_less(plan: Plan) -> SoldForLess | None:
    """None where nobody who is counted on sells a model of the plan for less."""
    found = cheapest_elsewhere(plan)
    if found is None:
        return None
    sold: dict[str, list[str]] = {}
    for bill in found.bills:
        sold.setdefault(known_sellers()[bill.provider].name, []).extend(_models(plan, bill))
    bought = {name for bill in found.bills for name in bill.workloads}
    return SoldForLess(
        models_by_seller={seller: list(dict.fromkeys(models)) for seller, models in sold.items()},
        workloads=tuple(w.name for w in plan.workloads if w.name in bought),
        there_usd=found.there_usd,
        here_usd=found.here_usd,
        hosted=all(w.models for w in plan.workloads if w.name in bought),
        more_frac=found.more_frac,
        shares_machines=_share_machines(plan, bought),
    )


def _share_machines(plan: Plan, bought: set[str]) -> bool:
    """Whether some workloads stand on instances, or in a pool, of which others have a part."""
    mine, others = set[str](), set[str]()
    for pool in plan.pools:
        offers = {d.deployment.offer for d in pool.deployments}
        if bought & set(pool.workloads):
            mine |= offers
        if set(pool.workloads) - bought:
            others |= offers
    return bool(mine & others)


def cheaper_elsewhere(plan: Plan) -> Iterator[Concern]:
    less = sold_for_less(plan)
    if less is None:
        return
    counted = {name for name, seller in known_sellers().items() if seller.counted}
    others = [p for p in dict.fromkeys(bill.provider for bill in sold_cheaper(plan)) if p not in counted]
    named = ", ".join(_called(name) for name in others[:OTHERS_NAMED]) + (
        " and others" if len(others) > OTHERS_NAMED else ""
    )
    more = f"{percent(less.more_frac)} more" if less.more_frac < 1 else f"{1 + less.more_frac:.1f} times as much"
    team = ", without engineers" if plan.costs.engineers_usd_per_month else ""
    each = [f"{seller} sells {' and '.join(models)}" for seller, models in less.models_by_seller.items()]
    shared = " on machines that others need too" if less.shares_machines else ""
    compared = f"{usd(less.there_usd)} / month there, {usd(less.here_usd)} here{team}{shared} ({more})"
    yield Concern(
        key="cheaper-elsewhere",
        usd_per_month=less.more_usd,
        sentence=f"{', '.join(each)} for less: {compared}"
        + (f"; also {named}, but too little is known about them" if named else ""),
        remedy=(
            "'menu: {apis: same-model}' lets the plan use known sellers; write 'api: forbidden' for workloads that may "
            "not use an API"
        ),
    )


def _called(provider: str) -> str:
    """As people call a seller; by its id where nothing is known of it."""
    known = known_sellers().get(provider)
    return provider if known is None else known.name


def _models(plan: Plan, bill: ProviderBill) -> list[str]:
    """What the plan hosts for the workloads of a bill, or what of their models the seller sells where it hosts none."""
    found = []
    for w in (w for w in plan.workloads if w.name in bill.workloads):
        listed = next(x.models for x in plan.case.workloads if x.name == w.name)
        sold = [c.model for c in listed if sells(f"{bill.provider}/{bill.model}", c.model, plan.case.models[c.model])]
        found += list(w.models) or sold
    return found
