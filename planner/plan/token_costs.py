"""What a token that is read and a token that is written cost, out of the cost of the whole plan.

The throughput of a replica is 1 / (prefill + output x step / batch) (planner/performance/throughput.py): the time that
a request takes of a replica is the time of its prompt and the time of its answer, and nothing else. So the GPU bill
of a workload is split by that time, its API bill by the prices of the API, and what belongs to neither (idle time,
caches, engineers) follows in the same proportion. Both figures together are the cost of the plan again.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.candidates.replica import TABLE
from planner.case.apis import baseline_of
from planner.plan.account.account import PlanAccount, account_of
from planner.plan.account.flows import Served
from planner.plan.plan import Plan, PoolPlan


@dataclass(frozen=True)
class TokenCosts:
    """Tokens of the answered requests and their cost; cached prompt tokens count as read."""

    input_tokens_per_month: float
    output_tokens_per_month: float
    usd_per_1m_input: float | None
    """None where it cannot be told: a table of measured rates says nothing about the time of the prompts"""
    usd_per_1m_output: float | None


def token_costs(plan: Plan) -> TokenCosts:
    facts = account_of(plan)
    answered = [facts.answered_per_month(s) for s in facts.served]
    reads, writes = (
        sum(n * getattr(b, kind) for s, each in zip(facts.served, answered, strict=True)
            for n, b in zip(each, s.w.buckets, strict=True))
        for kind in ("input_tokens", "output_tokens")
    )  # fmt: skip
    share = _share_of_prompts(facts)
    if share is None or not reads or not writes:
        return TokenCosts(reads, writes, None, None)
    usd = plan.total_usd_per_month
    return TokenCosts(reads, writes, 1e6 * usd * share / reads, 1e6 * usd * (1 - share) / writes)


def _share_of_prompts(facts: PlanAccount) -> float | None:
    """Share of prompts in what GPUs and APIs cost."""
    usd = prompts_usd = 0.0
    paid = {w.name: (w.gpu_cost_usd_per_month, w.api_cost_usd_per_month) for w in facts.plan.workloads}
    for pool in facts.plan.pools:
        of_time = _of_time(facts, pool)
        for s in facts.members(pool):
            gpu_usd, api_usd = paid[s.w.name]
            gpu_share = of_time[s.w.name] if gpu_usd else 0.0
            if gpu_share is None:
                return None
            usd += gpu_usd + api_usd
            prompts_usd += gpu_usd * gpu_share + api_usd * (_of_api(facts, s) if api_usd else 0.0)
    return prompts_usd / usd if usd else None


def _of_time(facts: PlanAccount, pool: PoolPlan) -> dict[str, float | None]:
    """Share of the replica time of each workload of a pool that its prompts take."""
    members = facts.members(pool)
    owners = [s.w.name for s in members for _ in s.w.buckets]
    prompts_s, all_s, told = dict.fromkeys(owners, 0.0), dict.fromkeys(owners, 0.0), dict.fromkeys(owners, True)
    for k, d in enumerate(pool.deployments):
        estimate = facts.whole_replica(pool, k).throughput
        kept_back = 1 + d.deployment.kept_back_frac
        carried = facts.carried(pool, k)
        for b, (owner, seconds) in enumerate(zip(owners, d.deployment.seconds_per_request, strict=True)):
            n = facts.a_month(carried[:, b])
            if n and seconds is not None:
                told[owner] &= estimate.bound_by[b] != TABLE
                prompts_s[owner] += n * min(kept_back * float(estimate.prefill_s[b]), seconds)
                all_s[owner] += n * seconds
    return {name: prompts_s[name] / all_s[name] if told[name] and all_s[name] else None for name in owners}


def _of_api(facts: PlanAccount, s: Served) -> float:
    """Share of the API bill of a workload that is for input."""
    api = facts.case.apis[s.decided.api or baseline_of(facts.case, s.w)]
    flow = facts.flow(s.w, s.decided.api_flows)
    total = read = 0.0
    for b, bucket in enumerate(s.w.buckets):
        n = facts.a_month(flow[:, b])
        cached, new = s.w.api_cached_tokens(bucket.input_tokens), s.w.api_written_tokens(bucket.input_tokens)
        total += n * api.request_usd(bucket.input_tokens, cached, bucket.output_tokens, s.w.api_wait_h, new)
        read += n * api.request_usd(bucket.input_tokens, cached, 0.0, s.w.api_wait_h, new)
    return read / total if total else 0.0
