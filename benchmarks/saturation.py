"""How far the planned rate of a replica is from the rate at which it saturates, simulated.

    python benchmarks/saturation.py [--quick] [--spread] [--engine vllm] [--parallel]

`planned` is what one replica carries while so many requests are in flight, whatever their latency (throughput.py, mean
over lengths by their share); `simulated` is what it answers from a queue that never ends, by vLLM's rules
(planner/verification/engine.py). Lengths are all the same but for answers, which vary by half so that they do not end
together; with --spread both are log-normal with p95 four times the median. Rows are where both differ most, then a
table of the ratio by prompts and answers.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass, replace

import numpy as np

from planner.catalog.entries import Engine, shipped_catalog
from planner.catalog.variant import TENSOR, Parallelism, Variant
from planner.performance.length_spread import LengthSpread, lengths_at, slices
from planner.performance.machine import Machine
from planner.performance.machine_by_name import machine_for
from planner.performance.throughput import Lengths, Limits, throughput
from planner.verification import engine
from planner.verification.step_times import step_times

PROMPTS = (50, 100, 250, 500, 1000, 2000, 4000, 8000)
ANSWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
BATCHES = (1, 2, 8, 32, 128, 512)
MACHINES: tuple[tuple[str, str, str, int, Parallelism], ...] = (
    ("llama-3.1-8b", "fp8", "l40s", 1, TENSOR),
    ("llama-3.1-8b", "fp16", "h100", 1, TENSOR),
    ("llama-3.3-70b", "fp8", "h200", 2, TENSOR),
)
RANKS: tuple[tuple[str, str, str, int, Parallelism], ...] = (("deepseek-v3", "fp8", "h200", 8, "data"),)
SPREAD = 4.0
"""p95 over the median"""
SEEDS, ROUNDS, FEWEST = 3, 12, 600
"""of log-normal lengths; requests that are served, over those in flight, and the fewest"""


@dataclass(frozen=True)
class Row:
    name: str
    prompt: int
    answer: int
    batch: int
    planned: float
    simulated: float

    @property
    def ratio(self) -> float:
        return self.planned / self.simulated


def spread_of(mean: float) -> LengthSpread:
    sigma = np.log(SPREAD) / 1.6448536
    median = mean / np.exp(sigma**2 / 2)
    return LengthSpread(p50=median, p95=SPREAD * median)


def drawn(mean: float, count: int, spread: bool, rng: np.random.Generator) -> np.ndarray:
    if spread:
        shares = rng.random(count)
        return lengths_at(spread_of(mean), shares, rng.standard_normal(count))
    return np.full(count, float(mean))


def planned(machine: Machine, prompt: int, answer: int, spread: bool) -> tuple[float, int]:
    """Requests a second, and requests in flight while it carries them, over all lengths."""
    parts = [(1.0, float(prompt), 1.0, float(answer))]
    if spread:
        parts = [(*a, *b) for a, b in itertools.product(slices(spread_of(prompt)), slices(spread_of(answer)))]
    share = np.array([a * b for a, _, b, _ in parts])
    lengths = Lengths(np.array([p for _, p, _, _ in parts]), np.array([n for *_, n in parts]), np.zeros(len(parts)))
    found = throughput(machine, lengths, Limits(np.inf, 0.0))
    if not found.requests_per_s.all():
        return 0.0, 0
    seconds = share / found.requests_per_s
    return 1 / float(seconds.sum()), round(float(seconds @ found.in_flight) / float(seconds.sum()))


def simulated(machine: Machine, prompt: int, answer: int, batch: int, spread: bool, seed: int) -> float:
    """Answers a second from a queue that never ends."""
    rng = np.random.default_rng(seed)
    ranks = machine.layout.attention_copies
    each = max(1, batch // ranks)
    count = max(FEWEST, ROUNDS * batch * max(1, round(8 / answer)))
    prompts = np.maximum(1.0, np.round(drawn(prompt, count, spread, rng)))
    answers = drawn(answer, count, spread, rng)
    if not spread and answer > 1:
        answers = rng.uniform(0.5, 1.5, count) * answer
    answers = np.maximum(1.0, np.floor(answers + rng.random(count)))
    longest = float((prompts + answers).max())
    budget = max(machine.engine.chunk_tokens, each)
    times = step_times(machine, each, budget, longest, 0.0)
    requests = engine.Requests(
        np.zeros(count), prompts, np.zeros(count), answers.astype(np.int64), np.ones(count, dtype=np.bool_)
    )
    capacity = engine.Capacity(np.zeros(1), np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    ended = np.sort(engine.serve(requests, capacity, times, each, budget, 0, seed).last_s)
    first, last = int(0.25 * count), int(0.85 * count)
    return (last - first) / float(ended[last] - ended[first])


def rows(
    engine_name: str, machines: tuple[tuple[str, str, str, int, Parallelism], ...], quick: bool, spread: bool
) -> list[Row]:
    catalog = shipped_catalog()
    some = slice(None, None, 2) if quick else slice(None)
    found = []
    for model, quantization, gpu, gpus, way in machines:
        machine = machine_for(catalog, Variant(model, quantization, gpu, gpus, way), engine_name)
        copies = machine.layout.attention_copies
        for prompt, answer, batch in itertools.product(PROMPTS[some], ANSWERS[some], BATCHES):
            limited = replace(machine, engine=replace_limit(machine, batch))
            rate, in_flight = planned(limited, prompt, answer, spread)
            if in_flight < copies:
                continue
            served = float(
                np.mean(
                    [simulated(limited, prompt, answer, in_flight, spread, k) for k in range(SEEDS if spread else 1)]
                )
            )
            found.append(Row(f"{model} {quantization} {gpus} x {gpu}", prompt, answer, batch, rate, served))
    return found


def replace_limit(machine: Machine, batch: int) -> Engine:
    return machine.engine.model_copy(update={"max_in_flight": batch})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every second length")
    parser.add_argument("--spread", action="store_true", help="log-normal lengths")
    parser.add_argument("--parallel", action="store_true", help="data-parallel ranks instead")
    parser.add_argument("--engine", default="vllm")
    args = parser.parse_args()
    found = rows(args.engine, RANKS if args.parallel else MACHINES, args.quick, args.spread)
    ratios = np.array([r.ratio for r in found])
    far = np.abs(np.log(ratios))
    print(f"{len(found)} kinds: planned over simulated {ratios.min():.2f} to {ratios.max():.2f}, "
          f"within 5%: {np.mean(far <= np.log(1.05)):.0%}, within 10%: {np.mean(far <= np.log(1.1)):.0%}")  # fmt: skip
    for k in np.argsort(-far)[:15].tolist():
        r = found[k]
        print(f"  {r.name:34} {r.prompt:5} in {r.answer:5} out, {r.batch:4} in flight: "
              f"{r.planned:9.2f} planned {r.simulated:9.2f} simulated  {r.ratio:.2f}")  # fmt: skip
    for name in dict.fromkeys(r.name for r in found):
        print(f"\n{name}: largest and smallest ratio over numbers in flight")
        print("   in \\ out" + "".join(f"{n:>12}" for n in dict.fromkeys(r.answer for r in found)))
        for prompt in dict.fromkeys(r.prompt for r in found):
            cells = []
            for answer in dict.fromkeys(r.answer for r in found):
                here = [r.ratio for r in found if (r.name, r.prompt, r.answer) == (name, prompt, answer)]
                cells.append(f"{min(here):.2f}-{max(here):.2f}" if here else "-")
            print(f"   {prompt:8}" + "".join(f"{c:>12}" for c in cells))


if __name__ == "__main__":
    main()
