"""A smaller model answers than the one that a workload lists first, or somebody guessed what it lists."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Workload
from planner.catalog.apis import is_below, tier_of_api, tier_of_model
from planner.io.formatting import percent, usd
from planner.judgement.concern import Concern
from planner.plan.plan import Plan, WorkloadPlan

DECIDE = "decide"
"""the key of a demand file, and of the assumption that it leaves"""


def smaller_model(plan: Plan) -> Iterator[Concern]:
    """Of APIs that the policy lets in, and of models that the file gives as alternatives."""
    asked = {w.name: w for w in plan.case.workloads}
    for served in plan.workloads:
        w = asked[served.name]
        first = w.models[0].model
        tier = tier_of_model(plan.case.models[first])
        smaller = _smaller(plan, w, served)
        if not smaller:
            continue
        larger = _least_with(plan, served, first)
        at_stake = served.cost_usd_per_month if larger is None else max(0.0, larger - served.cost_usd_per_month)
        besides = (
            "" if larger is None else f"; with {first} alone, ignoring limits, it would cost {usd(larger)} instead of "
        )
        besides += usd(served.cost_usd_per_month) if besides else ""
        yield Concern(
            key="smaller-model",
            usd_per_month=at_stake,
            sentence=f"{' and '.join(smaller)}, but {served.name} lists {first} ({tier}) first{besides}",
            remedy=f"compare the answers of both before you sign, or remove the smaller one from {served.name}",
        )


def _smaller(plan: Plan, w: Workload, served: WorkloadPlan) -> list[str]:
    """What answers that is of a lower tier than the model listed first."""
    tiers = {
        model: tier_of_model(plan.case.models[model]) for model in dict.fromkeys((w.models[0].model, *served.models))
    }
    first = tiers[w.models[0].model]
    found = [f"{model} ({tier}) answers" for model, tier in tiers.items() if is_below(tier, first)]
    if served.api and served.api_share_frac and is_below(tier_of_api(served.api), first):
        found.append(f"{served.api} ({tier_of_api(served.api)}) answers {percent(served.api_share_frac)}")
    return found


def _least_with(plan: Plan, served: WorkloadPlan, model: str) -> float | None:
    """The cheapest option of hosting a model for all of a workload; None where there is none."""
    mine = (o for o in plan.options if o.workload == served.name and o.model == model and not o.api_share_frac)
    costs = (o.cost_usd_per_month for o in mine)
    return min((cost for cost in costs if cost is not None), default=None)


def accepted_guesses(plan: Plan) -> Iterator[Concern]:
    for guess in (a for a in plan.assumptions if a.key == DECIDE):
        yield Concern(
            key="accepted-guess",
            usd_per_month=plan.cost_usd_per_month,
            sentence=f"guessed from a log and accepted unchecked: {guess.value}",
            remedy="check these lines of the demand file, then remove 'decide'",
            stops_signing=True,
        )
