"""Whether a plan serves what it is asked to serve: promises, lengths, machines that may fail, and who answers.

Who answers: deployments that nobody saw run, models of a lower tier than the one listed first, and APIs that take only
so much a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from planner.case.api_limits import amounts, busiest_minute, counts, limits_by_api
from planner.case.case import PREFIX_AWARE, Workload
from planner.catalog.apis import is_below, tier_of_api, tier_of_model
from planner.io.formatting import percent, usd
from planner.judgement.concern import Concern
from planner.plan.account.account import account_of
from planner.plan.lengths import TooLong, late_answers, late_lengths, passed_on_requests, refused_requests
from planner.plan.plan import Plan, PoolPlan, WorkloadPlan
from planner.plan.quality_notes import unproven_and_borrowed

OVERLOOKED_FRAC = 0.001
"""of a workload's requests: fewer than that are no concern"""
LATE_FRAC = 0.01
"""the same, where lengths are routed apart and nothing is faster with these"""
FEWEST_CONTEXTS, MOST_OF_FEW = 4, 30
"""requests in flight of a replica, and replicas: with fewer and more than that, turns were late in one draw of two; up
to 29 replicas with 2 each kept their promises, and any with 6 or more (docs/evidence/sessions.md)"""
ASKED = 2
"""replicas, so that the failure of one machine is no outage"""
DECIDE = "decide"
"""the key of a demand file, and of the assumption that it leaves"""
MORE_THAN_ROUNDING = 1e-3


def missed_promise(plan: Plan) -> Iterator[Concern]:
    """Promises that were missed when the plan was served, or that a careful estimate does not keep."""
    costs = {w.name: w.cost_usd_per_month for w in plan.workloads}
    if plan.verified is not None and not plan.verified.kept:
        missed = {name.partition(":")[0] for name in plan.verified.missed}
        yield Concern(
            key="missed-promise",
            usd_per_month=sum(costs[name] for name in missed),
            sentence=f"when served, the plan misses {', '.join(plan.verified.missed)}",
            remedy="relax the objective, or plan again with --verify",
        )
    if plan.verified is None and plan.sampled is not None and plan.sampled.missed:
        missed = {name.partition(":")[0] for name in plan.sampled.missed}
        yield Concern(
            key="missed-promise",
            usd_per_month=sum(costs[name] for name in missed),
            sentence=f"in a sample of the busiest hours, {', '.join(plan.sampled.missed)}",
            remedy=(
                "'fleetplan verify PLAN.json' serves more hours, and 'plan --verify' adds replicas where promises are "
                "missed"
            ),
        )
        return
    for slow in late_answers(plan):
        share, promised = percent(slow.share_frac, 1), f"{slow.percentile:.0%}"
        yield Concern(
            key="missed-promise",
            usd_per_month=sum(costs[name] for name in slow.workloads),
            sentence=f"{', '.join(slow.workloads)}: by a cautious estimate, only about {share} of the answers keep the "
            f"TPOT of {1e3 * slow.target_s:g} ms{_if_assumed(plan, slow.workloads, 'tpot')} in the busiest hour "
            f"({promised} promised)",
            remedy="'fleetplan verify' serves the plan, and 'plan --verify' adds replicas where promises are missed",
        )


def _if_assumed(plan: Plan, workloads: Sequence[str], objective: str) -> str:
    """That nobody gave an objective, where that is so of one of these workloads."""
    keys = {f"workloads.{name}.slo.{objective}_p95" for name in workloads}
    return " (assumed)" if any(a.key in keys for a in plan.assumptions) else ""


def late_prompts(plan: Plan) -> Iterator[Concern]:
    """Prompts so long that they get their first token late even alone, and more of them than the objective leaves."""
    costs = {w.name: w.cost_usd_per_month for w in plan.workloads}
    for late in late_lengths(plan):
        if late.share_frac > (LATE_FRAC if late.apart else 1 - late.percentile):
            yield Concern(
                key="late-prompts",
                usd_per_month=late.share_frac * costs[late.workload],
                sentence=f"{late.workload}: prompts of about {late.input_tokens:,.0f} tokens or more "
                f"({percent(late.share_frac, 1)} of its requests) wait {late.ttft_s:.1f} s or longer for their first "
                f"token, against a target of {late.target_s:g} s{_if_assumed(plan, (late.workload,), 'ttft')}",
                remedy="move them to a workload of their own with a longer TTFT",
            )


def sessions_queue(plan: Plan) -> Iterator[Concern]:
    """Many replicas that hold so few sessions at once that a turn which stays with its session waits."""
    sessions = {w.name for w in plan.case.workloads if w.sessions is not None}
    if plan.case.limits.routing != PREFIX_AWARE or (plan.verified is not None and plan.verified.kept):
        return
    costs = {w.name: w.cost_usd_per_month for w in plan.workloads}
    for pool in plan.pools:
        names = [name for name in pool.workloads if name in sessions]
        many = [d.deployment for d in pool.deployments if max(d.replicas_by_slot) > MOST_OF_FEW]
        fewest = min((d.staffing_in_flight for d in many), default=FEWEST_CONTEXTS)
        if names and fewest < FEWEST_CONTEXTS:
            yield Concern(
                key="sessions-queue",
                usd_per_month=sum(costs[name] for name in names),
                sentence=f"{', '.join(names)}: a replica has memory for {fewest:.1f} turns at once, so in a fleet of "
                f"more than {MOST_OF_FEW} replicas TTFT may be missed by a little: turns wait where their session was "
                "while other replicas are free",
                remedy="take larger replicas; 'fleetplan verify' serves the plan",
            )


def context_exceeded(plan: Plan) -> Iterator[Concern]:
    """Requests that are longer than what serves them holds: refused, shed, or passed on to an API."""
    costs = {w.name: w.cost_usd_per_month for w in plan.workloads}
    for r in refused_requests(plan):
        if r.share_frac >= OVERLOOKED_FRAC:
            yield _too_long(r, costs[r.workload], "are REFUSED")
    for r in passed_on_requests(plan):
        if r.share_frac >= OVERLOOKED_FRAC:
            yield _too_long(r, costs[r.workload], f"go to {r.to}" if r.to else "are SHED")


def _too_long(r: TooLong, usd_per_month: float, fate: str) -> Concern:
    return Concern(
        key="context-exceeded",
        usd_per_month=r.share_frac * usd_per_month,
        sentence=f"{percent(r.share_frac, 2)} of {r.workload} (requests longer than {r.tokens:,} tokens) {fate} every "
        "month",
        remedy=(
            "list a model with a longer context, or set tokens: {longest: ...} to the longest request that you want to "
            "accept"
        ),
    )


def one_machine(plan: Plan) -> Iterator[Concern]:
    """Hours in which all replicas of a pool stand on one machine though two replicas or more were asked for."""
    assumed = any(a.key == "policy.min_replicas" for a in plan.assumptions)
    if assumed or plan.case.limits.min_replicas < ASKED:
        return  # nobody asked for two: the default spreads them, and one machine is the word of the file
    costs = {w.name: w.cost_usd_per_month for w in plan.workloads}
    months = plan.slots[-1].month + 1
    for pool in plan.pools:
        alone = [slot for t, slot in enumerate(plan.slots) if _stands_on_one(plan, pool, t)]
        if alone:
            hours = sum(slot.hours_per_month for slot in alone) / months
            yield Concern(
                key="one-machine",
                usd_per_month=sum(costs[name] for name in pool.workloads),
                sentence=f"{', '.join(pool.workloads)}: all replicas run on one machine in {hours:,.0f} hours a month, "
                f"though the plan keeps at least {plan.case.limits.min_replicas} replicas",
                remedy="remove 'spread: false', so that they run on two",
            )


def _stands_on_one(plan: Plan, pool: PoolPlan, t: int) -> bool:
    """Whether a pool has replicas in a slot, and one instance runs of what they may stand on."""
    offers = {d.deployment.offer for d in pool.deployments if d.replicas_by_slot[t]}
    machines = sum(line.instances_by_slot[t] for line in plan.fleet if line.offer in offers)
    return bool(offers) and machines == 1


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


def more_than_an_api_takes(plan: Plan) -> Iterator[Concern]:
    """Limits count what a dollar of the bill stands for on average; here each request counts by its own length."""
    case, account = plan.case, account_of(plan)
    for api, kind, most in limits_by_api(case):
        asked, usd = np.zeros(len(account.slots)), 0.0
        for s in account.served:
            if s.decided.api == api and counts(case, s.w, api):
                sent = 60 * account.flow(s.w, s.decided.api_flows) @ np.array(amounts(case, s.w, api, kind))
                asked += sent * busiest_minute(case, s.w, api, kind, account.slots)
                usd += account.a_month(account.money.api_bill_usd_per_h(s))
        if asked.max() > most * (1 + MORE_THAN_ROUNDING):
            name = kind.replace("_", " ")
            yield Concern(
                key="api-minute",
                usd_per_month=usd,
                sentence=f"up to {asked.max():,.0f} {name} a minute go to {api}, which takes {most:,.0f}: the lengths "
                "that overflow differ from the mean, by which the plan counts",
                remedy=f"lower api_limits.{api}.{kind}_per_minute by as much as that is too much",
            )


def unproven_quality(plan: Plan) -> Iterator[Concern]:
    """Deployments that the engine was never seen to run, with a loss of quality measured on another family."""
    for names, d, basis in unproven_and_borrowed(plan):
        costs = {w.name: w.gpu_cost_usd_per_month for w in plan.workloads}
        loss = f"{percent(basis.loss_frac, 1)}, {basis.remark}"
        yield Concern(
            key="unproven-quality",
            usd_per_month=sum(costs[name] for name in names),
            sentence=f"{', '.join(names)}: {plan.case.engine_name} is not known to run {d}, and its quality loss "
            f"({loss}) was not measured on this model",
            remedy="run it and score its answers before you sign, or set 'policy: {unproven: forbidden}'",
        )
