"""A sample of a plan's requests, served: minutes of the busiest hours of each pool, a fixed number and a fixed seed.

It says early where a plan does not hold. What it says of promises over all hours is for `verify_plan`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.io.formatting import percent
from planner.plan.account.account import Account, account_of
from planner.plan.plan import Plan, Sampled
from planner.verification.measuring import clearly_missed
from planner.verification.records import Promise
from planner.verification.serving import ServeOptions, verify_plan

REQUESTS, TOKENS = 30_000, 100_000_000
"""about, of all pools together, those before the minutes that count included: no more than so many requests, nor than
have so many tokens together"""
SEED = 1


def can_be_sampled(plan: Plan) -> bool:
    """Whether replicas answer anything that may not wait."""
    account = account_of(plan)
    return any(pool.deployments and not account.may_wait(pool) for pool in plan.pools)


def with_sample(plan: Plan, on_progress: Callable[[str, float], None] = lambda what, done: None) -> Plan:
    """The plan with what a sample of its requests showed."""
    account = account_of(plan)
    served = verify_plan(plan, ServeOptions(seed=SEED, busiest=_requests(account)), on_progress)
    waiting = {name for pool in plan.pools if account.may_wait(pool) for name in pool.workloads}
    tried = [(w, p) for w in served.workloads if w.name not in waiting for p in w.promises]
    missed = tuple(f"{w.name}: {_short(p)}" for w, p in tried if _is_missed(p, w.requests))
    requests = sum(w.requests for w in served.workloads if w.name not in waiting)
    return plan.model_copy(update={"sampled": Sampled(requests=requests, seed=SEED, missed=missed)})


def _requests(account: Account) -> int:
    """How many to serve: fewer where prompts are long, which are looked up and read block by block."""
    rates = {w: account.requests_per_month(w) for w in account.case.workloads}
    tokens = sum(
        r * sum(b.share_frac * (b.input_tokens + b.output_tokens) for b in w.buckets) for w, r in rates.items()
    )
    return int(min(REQUESTS, TOKENS * sum(rates.values()) / tokens))


def _is_missed(p: Promise, requests: int) -> bool:
    """Whether more requests are late than chance explains where the promise holds."""
    return bool(clearly_missed(np.array([p.within_frac * requests]), np.array([requests]), p.percentile)[0])


def _short(p: Promise) -> str:
    return f"{p.what} kept for {percent(p.within_frac, 1)}, not {p.percentile:.0%}"
