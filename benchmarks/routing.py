"""How far the planned load of n replicas behind a router is from the load at which they miss their TTFT, simulated.

    python benchmarks/routing.py [NAME ...]
    python benchmarks/routing.py --random 8

Each case is one kind of replica with prompts, answers, arrivals and a TTFT objective of its own. `planned` is L(n) of
problems/staffing.py; `simulated` is the highest mean load at which 95% of requests get their first token in time, with
requests drawn one by one and served by vLLM's rules (planner/verification/engine.py). A rule that is safe is nowhere
above it by more than 0.02, and one that wastes nothing is nowhere below it by more than 0.10; where the plan keeps
places free for bursts as well (`margin`), the smaller of the two counts.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

import numpy as np

import planner
from planner.candidates.pools import groups_alone
from planner.candidates.replica import Replica
from planner.candidates.step_budget import replica_for
from planner.case.case import Workload
from planner.catalog.variant import Variant
from planner.verification import engine
from planner.verification.arrivals import drawn_stream
from planner.verification.step_times import step_times
from problems.staffing import Staffing, staffing_z

REPLICAS = (1, 2, 4, 8, 16, 32)
HALVINGS = 7
BURST = 1.5
"""requests that a replica admits for each that is planned with"""
BUDGET = 8192
DEMAND = """
workloads:
  - name: w
    models: [{model}]
    forecast: {{requests_per_day: 1M, shape: flat, burstiness: {scv}, variation: 0%}}
    tokens: {{input: {prompt}, output: {answer}}}
    slo: {{ttft_p95: {ttft}, tpot_p95: {tpot}}}
    quality: {{max_loss: 5%}}
menu: {{gpus: [{gpu}], quantizations: [fp8]}}
baseline: openai/gpt-4o
"""


@dataclass(frozen=True)
class Kind:
    model: str
    gpu: str
    gpus: int
    prompt: str
    answer: str
    ttft: str
    tpot: str
    scv: float


KINDS = {
    "chat": Kind("llama-3.1-8b", "h100", 1, "{p50: 900, p95: 4000}", "{p50: 200, p95: 600}", "200ms", "50ms", 2),
    "retrieval": Kind("llama-3.3-70b", "h100", 4, "{p50: 4000, p95: 9000}", "{p50: 150, p95: 500}", "2s", "60ms", 2),
    "retrieval, hurried": Kind(
        "llama-3.3-70b", "h100", 4, "{p50: 4000, p95: 9000}", "{p50: 150, p95: 500}", "1500ms", "60ms", 4
    ),
    "assistant, no room": Kind(
        "qwen2.5-72b", "a100-80gb", 4, "{p50: 2000, p95: 6000}", "{p50: 250, p95: 700}", "1500ms", "70ms", 3
    ),
    "short prompts on an L4": Kind(
        "llama-3.1-8b", "l4", 1, "{p50: 600, p95: 2000}", "{p50: 100, p95: 300}", "1s", "80ms", 2
    ),
    "agent": Kind("llama-3.3-70b", "h100", 8, "{p50: 25000, p95: 80000}", "{p50: 200, p95: 900}", "10s", "60ms", 1.5),
    "long conversations": Kind(
        "llama-3.1-8b", "h100", 1, "{p50: 6000, p95: 40000}", "{p50: 350, p95: 800}", "8s", "60ms", 1
    ),
    "code, bursts of 10": Kind(
        "llama-3.1-8b", "h100", 1, "{p50: 1500, p95: 7000}", "{p50: 13, p95: 90}", "1s", "100ms", 10
    ),
    "code, bursts of 89": Kind(
        "llama-3.1-8b", "h100", 1, "{p50: 1500, p95: 7000}", "{p50: 13, p95: 90}", "1s", "100ms", 89
    ),
}


MACHINES = (
    ("llama-3.1-8b", "h100", 1), ("llama-3.1-8b", "l4", 1), ("llama-3.3-70b", "h100", 4), ("llama-3.3-70b", "h100", 8),
    ("qwen2.5-72b", "a100-80gb", 4), ("qwen3-14b", "l40s", 1),
)  # fmt: skip


def random_kind(seed: int) -> Kind | None:
    """Lengths over two powers of ten, TTFT from a little above a lone prompt's to ten times that, bursts up to 89."""
    rng = np.random.default_rng(seed)
    model, gpu, gpus = MACHINES[rng.integers(len(MACHINES))]
    prompt, spread, answer = 10 ** rng.uniform(2.5, 4.3), rng.uniform(1.5, 6), 10 ** rng.uniform(1.3, 2.7)
    lengths = f"{{p50: {prompt:.0f}, p95: {prompt * spread:.0f}}}", f"{{p50: {answer:.0f}, p95: {3 * answer:.0f}}}"
    tpot, scv = f"{rng.choice([50, 70, 100])}ms", float(rng.choice([1, 1.5, 2, 4, 10, 30, 89]))
    _, replica = replica_of(Kind(model, gpu, gpus, *lengths, "100s", tpot, scv))
    if not replica.serves_all:
        return None
    ttft_s = replica.ttft_s(0.0) * 10 ** rng.uniform(0.06, 1.0)
    kind = Kind(model, gpu, gpus, *lengths, f"{1e3 * ttft_s:.0f}ms", tpot, scv)
    return kind if replica_of(kind)[1].serves_all else None


def replica_of(kind: Kind) -> tuple[Workload, Replica]:
    case = planner.case_from_text(DEMAND.format(**vars(kind)))
    replica = replica_for(case, groups_alone(case)[0].traffic, Variant(kind.model, "fp8", kind.gpu, kind.gpus))
    return case.workloads[0], replica


def simulated_limit(w: Workload, replica: Replica, n: int) -> float:
    """The highest mean load at which n replicas keep TTFT at its percentile, by halving; at most 1."""
    low, high = 0.0, 1.0
    if _in_time(w, replica, n, 1.0):
        return 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _in_time(w, replica, n, middle) else (low, middle)
    return low


def _in_time(w: Workload, replica: Replica, n: int, load: float) -> bool:
    seconds = float(replica.traffic.shares @ replica.seconds_per_request)
    rate = n * load / seconds
    count = int(max(20_000, 2_000 * n) * max(1.0, w.arrival_scv / 10))
    minutes = int(np.ceil(count / rate / 60))
    hours = -(-minutes // 60)
    some = (np.arange(60 * hours) < minutes).astype(float)
    stream = drawn_stream(w, np.full(hours, rate), some, range(hours), np.random.default_rng(1))
    fits = stream.prompt + stream.output <= replica.machine.model.max_context_tokens
    longest = float((stream.prompt + stream.output)[fits].max())
    sequences = int(np.ceil(BURST * replica.batch))
    times = step_times(replica.machine, sequences, max(BUDGET, sequences), longest, 0.0)
    columns = (stream.arrival_s, stream.prompt, stream.found, stream.output, stream.critical)
    requests = engine.Requests(*(column[fits] for column in columns))
    capacity = engine.Capacity(np.zeros(1), np.array([n]), np.zeros(1, dtype=np.int64))
    outcome = engine.serve(requests, capacity, times, sequences, max(BUDGET, sequences), engine.LEAST_REQUESTS, 1)
    first = outcome.first_s - requests.arrival_s
    return float(np.mean(first <= w.ttft.seconds)) >= w.ttft.percentile


def compare(name: str, kind: Kind) -> None:
    w, replica = replica_of(kind)
    alone, scv = replica.max_utilization, w.arrival_scv
    print(f"\n{name}: a lone replica up to {alone:.2f}, exponent {replica.routing.exponent:.2f}, c2 {scv:g}")
    print("    n  planned  margin  simulated  smaller of the two - simulated")
    staffing = Staffing(staffing_z(w.ttft.percentile), scv, 0.0, replica.staffing_batch, 1)
    for n in REPLICAS:
        planned = float(replica.routing.most_load(alone, scv, np.array(n)))
        margin = float(staffing.carried_load(np.array(n))) / n
        limit = simulated_limit(w, replica, n)
        print(
            f"  {n:3d}  {planned:7.2f}  {margin:6.2f}  {limit:9.2f}  {min(planned, margin) - limit:+9.2f}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(KINDS))
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many random kinds instead")
    parser.add_argument("--seed", type=int, default=7000, help="of the first random kind")
    given = parser.parse_args()
    if not given.random:
        for name in given.names or KINDS:
            compare(name, KINDS[name])
        return
    drawn = ((seed, random_kind(seed)) for seed in itertools.count(given.seed))
    for seed, kind in itertools.islice(((s, k) for s, k in drawn if k is not None), given.random):
        compare(f"{seed}: {kind.model} on {kind.gpus} x {kind.gpu}, prompts {kind.prompt}, TTFT {kind.ttft}", kind)


if __name__ == "__main__":
    main()
