"""Who sells open models by the token, and what the requests of a plan would cost there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np

from planner.case.case import Case, Workload
from planner.case.costs import holds, is_too_small, tokens_of
from planner.case.vendors import cap_left_usd, vendor_usd
from planner.catalog.apis import api_model, known_api_models
from planner.catalog.entries import ApiModel
from planner.catalog.names import bare_name, names_of_weights
from planner.plan.account import account_of
from planner.plan.plan import Plan
from planner.plan.study_records import ProviderBill

PASSED_ON = "huggingface_"
NOTHING_USD = 0.005
"""less than this a month is nothing"""


def sold_cheaper(plan: Plan) -> tuple[ProviderBill, ...]:
    """Bills of providers that sell a model which the plan hosts for less than it hosts it, the cheapest first.

    Of workloads that may use an API of this size; APIs on the menu are left out, since the plan could have used those,
    and so are providers that would be one too many or may not be paid so much. The fixed cost of a provider counts.
    """
    case, asked = plan.case, requests_of(plan)
    here = {w.name: w.cost_usd_per_month for w in plan.workloads if w.models}
    allowed = {w.name: w for w in case.workloads if w.api_allowed and w.name in here}
    found = []
    for name in sellers() if allowed else ():
        served = (w for w in able(case, name, hosted_by(plan)) if w in allowed)
        workloads = tuple(w for w in served if not is_too_small(case, allowed[w], name))
        if workloads and name not in case.menu_apis:
            bill = bill_of(known(name), SAME_MODEL, workloads, asked)
            if there_usd(plan, bill) < sum(here[w] for w in workloads) - NOTHING_USD and _is_allowed(plan, bill):
                found.append(bill)
    return tuple(sorted(found, key=by_cost))


def having_usd(plan: Plan, bill: ProviderBill) -> float:
    """The fixed cost of a month of a provider that the plan does not use yet."""
    vendor = ("api", bill.provider)
    return 0.0 if vendor in account_of(plan).money.vendors else vendor_usd(plan.case, vendor)


def there_usd(plan: Plan, bill: ProviderBill) -> float:
    """What some workloads come to at a provider: the bill, and what it costs to have the provider besides."""
    return bill.cost_usd_per_month + having_usd(plan, bill)


def _is_allowed(plan: Plan, bill: ProviderBill) -> bool:
    """Whether the policy allows such a bill, and its provider where the workloads leave theirs."""
    most = cap_left_usd(plan.case, ("api", bill.provider))
    if most is not None and there_usd(plan, bill) > most:
        return False
    kept = {plan.case.apis[w.api].provider for w in plan.workloads if w.api and w.name not in bill.workloads}
    return len(kept | {bill.provider}) <= (plan.case.limits.max_vendors or {}).get("api", math.inf)


def hosted_by(plan: Plan) -> dict[str, set[str]]:
    """The models that serve each workload in a plan."""
    return {w.name: set(w.models) for w in plan.workloads}


@cache
def sellers() -> list[str]:
    """Every API model but those that Hugging Face passes on from a provider that sells it by itself."""
    known = known_api_models()
    direct = {(name.partition("/")[0], bare_name(name)) for name in known}

    def is_passed_on(name: str) -> bool:
        seller = name.removeprefix(PASSED_ON).partition("/")[0]
        return name.startswith(PASSED_ON) and (seller, bare_name(name)) in direct

    return [name for name in known if not is_passed_on(name)]


SAME_MODEL = "same model"
"""the role of a provider that sells a model which serves a workload"""
Asked = dict[str, tuple[Workload, np.ndarray]]
"""each workload, and its requests a month that are answered [bucket]"""


def requests_of(plan: Plan) -> Asked:
    account = account_of(plan)
    return {s.w.name: (s.w, account.answered_per_month(s)) for s in account.served}


def bill_of(prices: ApiModel, role: str, workloads: tuple[str, ...], asked: Asked) -> ProviderBill:
    if role == SAME_MODEL:  # the case does not know its context
        prices = prices.model_copy(update={"max_context_tokens": None})
    rows = [asked[name] for name in workloads]
    usd = sum(float(n @ _request_usd(prices, w)) for w, n in rows)
    plain = sum(float(n @ [prices.usd(b.input_tokens, 0.0, b.output_tokens) for b in w.buckets]) for w, n in rows)
    tokens = sum(tokens_of(w, n) for w, n in rows)
    return ProviderBill.model_validate(
        {
            "provider": prices.provider,
            "model": prices.model,
            "role": role,
            "workloads": workloads,
            "cost_usd_per_month": usd,
            "without_discounts_usd_per_month": plain,
            "usd_per_1m_tokens": 1e6 * usd / tokens if tokens else 0.0,
            "prices": prices,
            "source": prices.source,
            "date": prices.date,
        }
    )


def _request_usd(prices: ApiModel, w: Workload) -> list[float]:
    """Price a request of each length, with the provider's cache, and its batch price where the answer may wait."""
    return [
        prices.request_usd(b.input_tokens, w.api_cached_tokens(b.input_tokens), b.output_tokens, w.api_wait_h)
        for b in w.buckets
    ]


def by_cost(bill: ProviderBill) -> tuple[float, str, str]:
    return (bill.usd_per_1m_tokens, bill.provider, bill.model)


def able(case: Case, api: str, models: dict[str, set[str]] | None = None) -> tuple[str, ...]:
    """Workloads that may run the model which this API sells, if it is one of theirs, or of those that are given, and
    whose requests it takes."""
    name = bare_name(api.partition("/")[2])
    asking = (w for w in case.workloads if any(name in names for names in _names_of(case, w, models)))
    return tuple(w.name for w in asking if holds(case, w, api, known(api)))


def _names_of(case: Case, w: Workload, models: dict[str, set[str]] | None) -> Iterator[set[str]]:
    """Names of the models that are good enough for it."""
    for choice in w.models:
        if models is not None and choice.model not in models[w.name]:
            continue
        if choice.quality_loss_frac <= w.max_quality_loss_frac + 1e-12:
            yield names_of_weights(choice.model, case.models[choice.model])


def known(name: str) -> ApiModel:
    found = api_model(name)
    assert found is not None, name
    return found
