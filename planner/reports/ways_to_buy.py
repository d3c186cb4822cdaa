"""Rent, buy or API: which of them carries which share of the cost, and from which volume on GPUs are worth having."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, takewhile

from planner.case.allowances import allowance_of
from planner.case.apis import baseline_of
from planner.case.changes import has_quotas
from planner.case.terms import bought_terms
from planner.io.formatting import percent, tokens
from planner.io.remembered import of_the_last
from planner.plan.account.other_demand import other_demand
from planner.plan.plan import Plan
from planner.plan.signing import allowances_to_be_signed
from planner.plan.study_records import BreakEven, VolumePoint
from planner.reports import phrases

RATIO, STEPS = 0.9, 24
"""from one volume that is tried to the next below, and how many"""
LEAST_SHARE = 0.005
SAME_FRAC = 0.001
"""a plan that is cheaper than its baseline by more than this replaces something else by GPUs than the baseline"""
NARROW = 1.1
"""how far apart the volumes may be between which GPUs begin to pay, for one of them to be said"""
EQUAL = 1e-9
BREAK_EVEN = "'fleetplan study PLAN.json --only break-even'"


def ways_to_buy(plan: Plan) -> Iterator[str]:
    shares = ", ".join(f"{percent(share)} {way}" for way, share in shares_of_cost(plan) if share >= LEAST_SHARE)
    if not shares:
        return
    yield f"of the cost: {shares}"
    if not plan.fleet:
        yield from _gpus_from(plan)
    least = cheaper_from(plan)
    if least is not None:
        volume = tokens(least * sum(w.tokens_per_month for w in plan.workloads))
        down_to = f"from this volume down to {volume} tokens a month, {percent(least)} of it, or to fewer"
        yield f"{down_to}: this fleet costs less than {phrases.baseline_name(plan)}"


def _gpus_from(plan: Plan) -> Iterator[str]:
    """Of a plan that is on APIs alone: from which volume on GPUs would pay, or what tells."""
    own = ", rented or your own," if bought_terms(plan.case) else ""
    compared = {w.name: baseline_of(plan.case, w) for w in plan.case.workloads}
    used = {w.api for w in plan.workloads if w.api is not None}
    if any(w.api not in (None, compared[w.name]) for w in plan.workloads):
        if len(used) == 1:  # a study compares with the baseline, which is not what GPUs would replace
            named = f"plan with 'baseline: {used.pop()}', then {BREAK_EVEN}"
            yield f"from which volume on GPUs{own} would cost less: {named}"
        return
    study = plan.studies.break_even if plan.studies else None
    if study is None:
        yield f"from which volume on GPUs{own} would cost less: {BREAK_EVEN}"
    elif plan.cost_usd_per_month >= plan.baseline.cost_usd_per_month * (1 - SAME_FRAC):
        lifted = ", quotas and the budget lifted" if has_quotas(plan.case) else ""
        yield gpus_pay(study, f"GPUs{own or ' alone'}", phrases.baseline_name(plan)) + lifted


def gpus_pay(study: BreakEven, gpus: str, api: str) -> str:
    """From which volume on they are proved to cost less than the API alone; else what tells."""
    known = [(p, pays) for p in study.points if (pays := _gpus_pay(p)) is not None]
    from_here = list(takewhile(lambda found: found[1], reversed(known)))
    below = known[: len(known) - len(from_here)]
    if from_here:
        high, low = from_here[-1][0], below[-1][0] if below else None
        if low is None or high.multiple <= NARROW * low.multiple:
            volume = f"{tokens(high.tokens_per_month)} tokens a month on, {high.multiple:.3g} times this demand"
            return f"from at most {volume}: {gpus} cost less than {api}"
        if study.stopped is None:
            volumes = f"{tokens(low.tokens_per_month)} and {tokens(high.tokens_per_month)} tokens a month"
            times = f"{low.multiple:.3g} to {high.multiple:.3g} times this demand"
            return f"from somewhere between {volumes} on, {times}: {gpus} cost less than {api}"
    if from_here or study.stopped is not None or not known:
        return f"from which volume on {gpus} would cost less than {api}: {BREAK_EVEN}"
    most = f"{known[-1][0].multiple:.3g} times this demand"
    some = [p.multiple for p, pays in known if pays]
    if some:
        paid = f"{gpus} were proved to cost less than {api} at some volumes only"
        return f"{paid}, the highest {some[-1]:.3g} times this demand, not at {most}"
    return f"{gpus} were proved to cost less than {api} at no volume tried, up to {most}"


def _gpus_pay(p: VolumePoint) -> bool | None:
    """Without any API; None where the proofs cannot tell."""
    cost, bound = p.self_hosted_usd_per_month, p.self_hosted_bound_usd_per_month
    if cost is not None and cost < p.api_usd_per_month * (1 - EQUAL):
        return True
    return False if bound is not None and bound >= p.api_usd_per_month * (1 - EQUAL) else None


def shares_of_cost(plan: Plan) -> list[tuple[str, float]]:
    """The largest first."""
    c, whole, signed = plan.costs, plan.total_usd_per_month, allowances_to_be_signed(plan)
    units = sum(a.usd_per_month for a in signed if allowance_of(plan.case, a.name).api is not None)
    dollars = sum(a.usd_per_month for a in signed) - units
    paid = {
        "rented by the hour": c.on_demand_usd_per_month + c.spot_usd_per_month - dollars,
        "committed": c.reserved_usd_per_month + dollars + units,
        "servers of your own": (c.bought_usd_per_month or 0.0) + (c.energy_usd_per_month or 0.0),
        "held already": plan.held_usd_per_month,
        "APIs by the token": c.api_usd_per_month - units,
        "caches": c.caching_usd_per_month,
        "engineers": c.engineers_usd_per_month,
        "fixed costs of vendors": c.vendors_usd_per_month or 0.0,
    }
    return sorted(((way, usd / whole if whole else 0.0) for way, usd in paid.items()), key=lambda part: -part[1])


@of_the_last
def cheaper_from(plan: Plan) -> float | None:
    """The share of this volume down to which the plan's own deployments cost less than the baseline does.

    What is signed stays as it is; replicas, hours and bills follow demand, so a new plan costs no more, and the true
    volume is this one or less. The bill of the baseline is in proportion to volume, without its fixed cost.
    """
    if not plan.fleet or plan.baseline.savings_usd_per_month <= 0 or phrases.no_api_is_allowed(plan):
        return None
    if phrases.beside_what_apis_may_serve(plan) is not None:
        return None

    points = (point for k in range(STEPS + 1) for point in other_demand(plan, (RATIO**k,)))
    least = None
    for above, below in pairwise(points):  # between them no volume costs more than the upper one, nor bills less
        cost = above.cost_usd_per_month + plan.held_usd_per_month
        if cost >= below.multiple * plan.baseline.cost_usd_per_month:
            break
        least = below.multiple
    return least
