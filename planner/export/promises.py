"""What a running fleet has to show for the plan to hold: each promise as a query of Prometheus, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.export.hosted import Hosted, HostedFleet
from planner.export.names import GROUPS_END
from planner.io.formatting import percent

TTFT, TPOT, E2E = (
    "vllm:time_to_first_token_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:e2e_request_latency_seconds",
)
GENERATED, PER_TOKEN = "vllm:request_generation_tokens", "whole answers per token"
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
POD = 'pod=~"{name}(-spot)?-[a-z0-9]+-[a-z0-9]+"'
FIRST_OF_GROUP = f'pod=~"{{name}}(-spot)?{GROUPS_END}-[0-9]+"'
"""select the pods of a Deployment and of its replicas on spot in Prometheus; of groups of pods, those that answer"""
OVER = "[1h]"
"""promises are kept by the hour, as `verify` judges them"""


@dataclass(frozen=True)
class Check:
    """A query, and what its answer must be."""

    of: str
    what: str
    query: str
    holds: str


def checks(fleet: HostedFleet, replicas_of: str) -> list[Check]:
    """In the order of the deployments; `replicas_of` selects the replicas of one by its {name}."""
    return [
        check
        for h in fleet.hosted
        for check in _checks(fleet, h, selector(fleet, _those_that_answer(h, replicas_of), h.name))
    ]


def _those_that_answer(h: Hosted, replicas_of: str) -> str:
    return FIRST_OF_GROUP if h.boxes > 1 and replicas_of == POD else replicas_of


def selector(fleet: HostedFleet, replicas_of: str, name: str) -> str:
    place = f'namespace="{fleet.settings.namespace}",' if fleet.settings.namespace else ""
    return "{" + place + replicas_of.replace("{name}", name) + "}"


def _checks(fleet: HostedFleet, h: Hosted, which: str) -> Iterator[Check]:
    """A deployment that several workloads share keeps the strictest promise of any: its metrics tell none apart."""
    served = [w for w in fleet.plan.case.workloads if w.name in h.pool.workloads and w.deadline_h is None]
    replicas = f"count(count by (instance) ({RUNNING}{which}))"  # an engine with copies of attention has several series
    yield Check(h.name, "replicas", replicas, "the table of replicas by the hour")
    if served:
        yield _latency(h, "TTFT", TTFT, which, *min((w.ttft.seconds, w.ttft.percentile) for w in served))
        yield _latency(h, "TPOT", TPOT, which, *min((w.tpot.seconds, w.tpot.percentile) for w in served))
    if ends := [(w.e2e.seconds, w.e2e.percentile) for w in served if w.e2e is not None]:
        yield _latency(h, "whole answers", E2E, which, *min(ends))
    if per_token := [(w.e2e_per_token.seconds, w.e2e_per_token.percentile) for w in served if w.e2e_per_token]:
        yield _per_token(h, which, *min(per_token))
    load = f"(sum({RUNNING}{which}) + sum({WAITING}{which})) / {replicas}"
    yield Check(h.name, "requests in flight per replica", load, f"at most {h.in_flight}")
    finished = f"sum(rate(vllm:request_success_total{which}{OVER}))"
    yield Check(h.name, "requests a second", finished, f"at most {busiest_rps(h):.3g}, the busiest hour of the plan")
    if h.plan.deployment.prefix_cache is not None:
        found = min(h.plan.deployment.prefix_cache.found_fracs)
        hits, asked = (f"sum(rate(vllm:prefix_cache_{of}_total{which}{OVER}))" for of in ("hits", "queries"))
        yield Check(h.name, "prompt tokens found in its cache", f"{hits} / {asked}", f"at least {percent(found)}")


def _latency(h: Hosted, what: str, metric: str, which: str, seconds: float, percentile: float) -> Check:
    query = f"histogram_quantile({percentile:g}, sum by (le) (rate({metric}_bucket{which}{OVER})))"
    return Check(h.name, f"{what}, p{100 * percentile:g}", query, f"at most {seconds:g} s")


def _per_token(h: Hosted, which: str, seconds: float, percentile: float) -> Check:
    """Engines have no histogram of it: the mean over tokens, which long answers decide."""
    time, tokens = (f"sum(rate({of}_sum{which}{OVER}))" for of in (E2E, GENERATED))
    holds = f"well below {seconds:g} s, which is promised at p{100 * percentile:g} of the requests, be answers short"
    return Check(h.name, f"{PER_TOKEN}, mean over tokens", f"{time} / {tokens}", holds)


def busiest_rps(h: Hosted) -> float:
    """Requests a second of all its replicas in the busiest hour."""
    loads = [load for counts in h.load.values() for load in counts]
    return h.requests_per_s * max(loads) * len(loads) / sum(loads) if any(loads) else 0.0


def planned_usd(fleet: HostedFleet) -> float:
    """What the exported month costs."""
    return fleet.view.money.month_usd(fleet.settings.month)


def all_day_usd(fleet: HostedFleet) -> float:
    """What the month costs more where the instances of each busiest hour run all the time."""
    hours = [fleet.plan.slots[t].hours_per_month for t in fleet.slots]
    more = 0.0
    for line in fleet.plan.fleet:
        counts = [line.instances_by_slot[t] for t in fleet.slots]
        idle = sum((max(counts) - n) * h for n, h in zip(counts, hours, strict=True))
        more += idle * line.usd_per_h
    return more
