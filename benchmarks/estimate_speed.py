"""How long ten thousand (deployment, bucket) estimates take on one core, beside a plain Python loop.

python benchmarks/estimate_speed.py
"""

from __future__ import annotations

import time

import numpy as np

from planner.catalog.entries import shipped_catalog
from planner.performance.machine import Machine
from planner.performance.throughput import Lengths, Limits, throughput

LIMITS = Limits(tpot_s=0.05, z=1.645)
GPUS = ("a100-80gb", "h100", "h200", "l40s", "l4", "a10g", "b200", "mi300x", "a100-40gb", "t4")
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "mixtral-8x7b", "gpt-oss-120b")
BUCKETS = 100


def machines() -> list[Machine]:
    catalog = shipped_catalog()
    return [
        Machine(catalog.models[m], catalog.quantizations["fp16"], catalog.gpus[g], n, catalog.efficiency_of(g))
        for m in MODELS
        for g in GPUS
        for n in (4, 8)
    ]


def buckets() -> Lengths:
    rng = np.random.default_rng(1)
    inputs, outputs = rng.integers(50, 8000, BUCKETS), rng.integers(20, 2000, BUCKETS)
    return Lengths(inputs.astype(float), outputs.astype(float), np.zeros(BUCKETS))


def one_by_one(machine: Machine, lengths: Lengths) -> np.ndarray:
    """The same estimates, a bucket at a time."""
    rates = []
    for i, o, c in zip(lengths.input_tokens, lengths.output_tokens, lengths.cached_tokens, strict=True):
        one = Lengths(np.array([i]), np.array([o]), np.array([c]))
        rates.append(throughput(machine, one, LIMITS).requests_per_s[0])
    return np.array(rates)


def main() -> None:
    fleet, lengths = machines(), buckets()
    pairs = len(fleet) * BUCKETS
    started = time.process_time()
    together = [throughput(m, lengths, LIMITS).requests_per_s for m in fleet]
    vectorised_s = time.process_time() - started
    sample = fleet[:: len(fleet) // 10]
    started = time.process_time()
    looped = [one_by_one(m, lengths) for m in sample]
    loop_s = (time.process_time() - started) * len(fleet) / len(sample)
    same = all(np.allclose(a, together[fleet.index(m)]) for a, m in zip(looped, sample, strict=True))
    print(f"{pairs} estimates: {vectorised_s:.2f} s; bucket by bucket {loop_s:.2f} s; same results: {same}")


if __name__ == "__main__":
    main()
