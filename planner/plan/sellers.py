"""Who sells open models by the token, and what the requests of a plan would cost there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.case.apis import holds, is_too_small, promises_enough, request_usd_at, tokens_of
from planner.case.case import Case, Workload
from planner.case.vendors import vendor_usd
from planner.catalog.apis import api_model
from planner.catalog.entries import ApiModel
from planner.catalog.names import bare_name, names_of_weights
from planner.catalog.sellers import is_counted, sellers
from planner.io.remembered import of_the_last
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.plan.study_records import ProviderBill

NOTHING_USD = 0.005
"""less than this a month is nothing"""


@of_the_last
def sold_cheaper(plan: Plan) -> tuple[ProviderBill, ...]:
    """Bills of providers that sell a model of the plan for less than the plan costs, the cheapest first.

    Of workloads that may use an API of this size; APIs on the menu are left out, since the plan could have used those,
    and so are providers that would be one too many or may not be paid so much. The fixed cost of a provider counts.
    """
    case, asked = plan.case, requests_of(plan)
    here = {w.name: w.cost_usd_per_month for w in plan.workloads if w.models or w.api_share_frac}
    allowed = {w.name: w for w in case.workloads if w.api_allowed and w.name in here}
    found, wanted = [], wanted_names(case, models_of(plan))
    for name in sellers() if allowed else ():
        served = (w for w in able(case, name, wanted) if w in allowed)
        workloads = tuple(w for w in served if not is_too_small(case, allowed[w], name))
        if workloads and name not in case.menu_apis:
            bill = bill_of(known(name), SAME_MODEL, workloads, asked)
            if there_usd(plan, bill) < sum(here[w] for w in workloads) - NOTHING_USD and _is_allowed(plan, bill):
                found.append(bill)
    return tuple(sorted(found, key=by_cost))


@dataclass(frozen=True)
class Elsewhere:
    """What workloads of a plan would cost at the cheapest sellers of their models that are counted on."""

    bills: tuple[ProviderBill, ...]
    """the one that saves most first; no workload stands in two of them"""
    here_usd: float
    there_usd: float
    """a month, fixed costs of sellers included"""

    @property
    def more_frac(self) -> float:
        """How much more the plan costs for these workloads."""
        return self.here_usd / self.there_usd - 1 if self.there_usd else math.inf


def cheapest_elsewhere(plan: Plan) -> Elsewhere | None:
    """None where nobody who is counted on sells a model that the plan hosts for less."""
    usd = {w.name: w.cost_usd_per_month for w in plan.workloads}

    def here_usd(bill: ProviderBill) -> float:
        return sum(usd[name] for name in bill.workloads)

    counted = (bill for bill in sold_cheaper(plan) if is_counted(f"{bill.provider}/{bill.model}"))
    chosen: list[ProviderBill] = []
    for bill in sorted(counted, key=lambda b: (there_usd(plan, b) - here_usd(b), by_cost(b))):
        if not any(set(bill.workloads) & set(other.workloads) for other in chosen):
            chosen.append(bill)
    if not chosen:
        return None
    return Elsewhere(
        bills=tuple(chosen),
        here_usd=sum(here_usd(bill) for bill in chosen),
        there_usd=sum(there_usd(plan, bill) for bill in chosen),
    )


def having_usd(plan: Plan, bill: ProviderBill) -> float:
    """The fixed cost of a month of a provider that the plan does not use yet."""
    vendor = ("api", bill.provider)
    return 0.0 if vendor in account_of(plan).money.vendors else vendor_usd(plan.case, vendor)


def there_usd(plan: Plan, bill: ProviderBill) -> float:
    """What some workloads come to at a provider: the bill, and what it costs to have the provider besides."""
    return bill.cost_usd_per_month + having_usd(plan, bill)


def _is_allowed(plan: Plan, bill: ProviderBill) -> bool:
    """Whether the policy allows such a bill, and its provider where the workloads leave theirs."""
    kept = {plan.case.apis[w.api].provider for w in plan.workloads if w.api and w.name not in bill.workloads}
    return len(kept | {bill.provider}) <= (plan.case.limits.max_vendors or {}).get("api", math.inf)


def hosted_by(plan: Plan) -> dict[str, set[str]]:
    """The models that serve each workload in a plan."""
    return {w.name: set(w.models) for w in plan.workloads}


def models_of(plan: Plan) -> dict[str, set[str]]:
    """The models that serve each workload; where an API alone answers, those that the workload lists."""
    listed = {w.name: {choice.model for choice in w.models} for w in plan.case.workloads}
    return {name: models or listed[name] for name, models in hosted_by(plan).items()}


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
    usd = sum(float(n @ request_usd_at(prices, w)) for w, n in rows)
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


def by_cost(bill: ProviderBill) -> tuple[float, str, str]:
    return (bill.usd_per_1m_tokens, bill.provider, bill.model)


def able(case: Case, api: str, wanted: dict[str, list[Workload]]) -> tuple[str, ...]:
    """Workloads that may run the model which this API sells, if it is wanted, and whose requests it takes."""
    asking = wanted.get(bare_name(api.partition("/")[2]), [])
    promised = (w for w in asking if promises_enough(w, known(api)))
    return tuple(w.name for w in promised if holds(case, w, api, known(api)))


def wanted_names(case: Case, models: dict[str, set[str]]) -> dict[str, list[Workload]]:
    """The workloads that may run a model, by the names under which it is sold: those of the models given for each that
    are good enough for it."""
    wanted: dict[str, list[Workload]] = {}
    for w in case.workloads:
        some = [c for c in w.models if c.model in models[w.name]]
        enough = [c.model for c in some if c.quality_loss_frac <= w.max_quality_loss_frac + 1e-12]
        for name in set[str]().union(*(names_of_weights(model, case.models[model]) for model in enough)):
            wanted.setdefault(name, []).append(w)
    return wanted


def known(name: str) -> ApiModel:
    found = api_model(name)
    assert found is not None, name
    return found
