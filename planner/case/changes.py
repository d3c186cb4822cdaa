"""Changed copies of a case, as functions that can be applied one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from planner.case.allowances import not_signed_anew
from planner.case.apis import allowed_apis
from planner.case.case import Allowance, Case, Workload
from planner.case.quarters import lapses_in_horizon
from planner.case.slots import month_factor, slots_of
from planner.catalog.entries import OfferPrices

Change = Callable[[Case], Case]
PRICE_FIELDS = ("usd_per_h", "p50_usd_per_h", "p95_usd_per_h", "upfront_usd")
TIER_FIELDS = ("input_usd_per_1m", "cached_input_usd_per_1m", "output_usd_per_1m")


def with_limits(**fields: Any) -> Change:
    return lambda case: case.model_copy(update={"limits": case.limits.model_copy(update=fields)})


def with_quota(kind: str, key: str, most: int | None) -> Change:
    """`kind` is max_gpus or max_instances; None takes the quota away."""

    def change(case: Case) -> Case:
        others = {k: n for k, n in getattr(case.limits, kind).items() if k != key}
        return with_limits(**{kind: others if most is None else {**others, key: most}})(case)

    return change


def with_vendors(kind: str, most: int) -> Change:
    """Another number of providers, regions or APIs that may be in use."""
    return lambda case: with_limits(max_vendors={**(case.limits.max_vendors or {}), kind: most})(case)


def without_allowances(which: Callable[[Allowance], bool]) -> Change:
    """Without savings plans or provisioned units that could be signed; what is held stays until it lapses."""

    def change(case: Case) -> Case:
        kept = (a for a in case.allowances or () if a.held or not which(a))
        left = tuple(not_signed_anew(a) if which(a) and lapses_in_horizon(case, a) else a for a in kept)
        return case if left == (case.allowances or ()) else case.model_copy(update={"allowances": left or None})

    return change


def with_workload(name: str, **fields: Any) -> Change:
    return with_workloads(lambda w: w.model_copy(update=fields) if w.name == name else w)


def with_workloads(changed: Callable[[Workload], Workload]) -> Change:
    return lambda case: case.model_copy(update={"workloads": tuple(changed(w) for w in case.workloads)})


def with_purchase(*options: str) -> Change:
    """More ways to buy."""
    return lambda case: case.model_copy(update={"purchase": (*case.purchase, *options)})


def without_purchase(unwanted: Callable[[str], bool]) -> Change:
    return lambda case: case.model_copy(update={"purchase": tuple(o for o in case.purchase if not unwanted(o))})


def last_month(case: Case) -> Case:
    """The last month of the horizon by itself."""
    last = slots_of(case)[-1].month

    def grown(w: Workload) -> Workload:
        growth = month_factor(w, last)
        rates = {day: tuple(growth * r for r in getattr(w, day)) for day in ("weekday_rps", "weekend_rps")}
        return w.model_copy(update={**rates, "growth_per_month_frac": 0.0, "month_factors": None})

    there = (a for a in case.allowances or () if a.in_months is None or last in a.in_months)
    allowances = tuple(a.model_copy(update={"in_months": None}) for a in there) or None
    return with_workloads(grown)(case.model_copy(update={"months": None, "allowances": allowances}))


def one_after_the_other(changes: list[Change]) -> Change:
    def change(case: Case) -> Case:
        for each in changes:
            case = each(case)
        return case

    return change


without_quotas: Change = with_limits(
    max_gpus={}, max_instances={}, budget_usd_per_month=None, power_kw=None, api_per_minute=None
)


def has_quotas(case: Case) -> bool:
    limits = case.limits
    amounts = (limits.budget_usd_per_month, limits.power_kw)
    quotas = limits.max_gpus or limits.max_instances or limits.api_per_minute
    return bool(quotas or any(most is not None for most in amounts))


def multiplied(multiple: float) -> Change:
    """All workloads come so many times as often."""

    def more(w: Workload) -> Workload:
        rates = {day: tuple(multiple * rps for rps in getattr(w, day)) for day in ("weekday_rps", "weekend_rps")}
        return w.model_copy(update=rates)

    return with_workloads(more) if multiple != 1 else lambda case: case


def with_gpu_prices(factor: float) -> Change:
    """Every price of every instance so many times as high; what is held is paid as it was signed."""

    def change(case: Case) -> Case:
        offers = {name: o.model_copy(update={"prices": _dearer(o.prices, factor)}) for name, o in case.offers.items()}
        return _with_allowance_prices(case.model_copy(update={"offers": offers}), factor, of_apis=False)

    return change


def _with_allowance_prices(case: Case, factor: float, of_apis: bool) -> Case:
    """Rates of savings plans, or prices of provisioned units, so many times as high.

    What is held keeps those that it was signed at, also where it is signed anew when it lapses.
    """
    if case.allowances is None:
        return case

    def scaled(a: Allowance) -> Allowance:
        if a.held:
            return a
        if a.rates is not None and not of_apis:
            return a.model_copy(update={"rates": {key: factor * usd for key, usd in a.rates.items()}})
        of_units = a.api is not None and of_apis
        return a.model_copy(update={"usd_per_h": factor * a.usd_per_h}) if of_units else a

    return case.model_copy(update={"allowances": tuple(map(scaled, case.allowances))})


def _dearer(prices: OfferPrices, factor: float) -> OfferPrices:
    def scaled(price: Any) -> Any:
        amounts = (name for name in type(price).model_fields if name in PRICE_FIELDS)
        return price.model_copy(update={name: factor * getattr(price, name) for name in amounts})

    given = ((name, getattr(prices, name)) for name in type(prices).model_fields)
    return prices.model_copy(update={name: scaled(price) for name, price in given if price is not None})


def with_api_prices(factor: float) -> Change:
    """Every price of every API so many times as high, the baseline's too; penalties of what is shed stay."""

    def scaled(prices: Any) -> Any:
        tiers = tuple(
            tier.model_copy(
                update={name: factor * getattr(tier, name) for name in TIER_FIELDS if getattr(tier, name) is not None}
            )
            for tier in prices.tiers
        )
        return prices.model_copy(update={"tiers": tiers})

    def change(case: Case) -> Case:
        apis = {}
        for name, api in case.apis.items():
            batch = None if api.batch is None else scaled(api.batch)
            apis[name] = scaled(api).model_copy(update={"batch": batch})
        return _with_allowance_prices(case.model_copy(update={"apis": apis}), factor, of_apis=True)

    return change


def with_targets(kind: Literal["ttft", "tpot"], factor: float) -> Change:
    """TTFT or TPOT of every workload that may not wait, so many times as long."""

    def change(w: Workload) -> Workload:
        target = getattr(w, kind)
        longer = target.model_copy(update={"seconds": factor * target.seconds})
        return w if w.deadline_h is not None else w.model_copy(update={kind: longer})

    return with_workloads(change)


def may_use_an_api(case: Case) -> bool:
    return any(allowed_apis(case, w) for w in case.workloads)


without_apis: Change = with_workloads(lambda w: w.model_copy(update={"api_allowed": False, "api_wait_h": 0.0}))
without_drafts: Change = one_after_the_other(
    [
        with_limits(speculation=None),
        with_workloads(lambda w: w.model_copy(update={"drafts": None})),
        lambda case: case.model_copy(update={"drafters": None}),
    ]
)
never_shedding: Change = with_workloads(lambda w: w.model_copy(update={"shed_usd_per_request": None}))
