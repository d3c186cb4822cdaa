"""How far the time of steps with drafts, and what is made of it, is from measurements.

    python benchmarks/speculation_accuracy.py STEPS.jsonl SPECULATION_FOLDER

STEPS.jsonl is written by benchmarks/speculation_steps.py; the folder has specbundle_h200.csv.gz, best_k_by_batch.csv
and pairs_at_equal_speed.csv. Speed-ups are of a whole server and say nothing of its GPUs: the number is taken with
which the rate without drafts is nearest, and the constants of the engine are fitted to the other models.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from planner.catalog.drafts import EAGLE3, known_draft
from planner.catalog.entries import shipped_catalog
from planner.catalog.variant import Variant
from planner.io.errors import InputError
from planner.performance.latency import DRAFT_PASS_S, DRAFTED_STEP_S, DRAFTED_TOKEN_S, decode_step_s, draft_pass_s
from planner.performance.machine import Machine
from planner.performance.machine_by_name import machine_for
from planner.performance.speculation import MOST_DRAFTS, Speculation, acceptance, eagle_head

STEPS_S, PASSES_S = np.arange(0, 3e-3, 1e-4), np.arange(0, 1e-3, 5e-5)
CONTEXT = 700.0
"""tokens of a request in the speed-ups: prompts and answers of their benchmarks are a few hundred"""
CHAT_CONTEXT = 400.0
"""of MT-Bench, whose acceptance the schedules of vLLM go with"""
LLAMA = "llama-3.1-8b"
MT_BENCH = {
    "eagle3": {2: 2.36, 3: 2.79, 4: 3.08, 5: 3.32, 6: 3.46, 7: 3.54},
    "eagle": {2: 2.10, 3: 2.29, 4: 2.39, 5: 2.43, 6: 2.45, 7: 2.47},
}
"""tokens a step of Llama 3.1 8B (vllm-project/vllm#20780)"""
CODER = "qwen3-30b-a3b"
"""stands for Qwen3-Coder-30B-A3B, which has its shape and is not in the catalog"""
Constants = tuple[float, float]


def steps(path: Path) -> None:
    found = defaultdict(list)
    ratios = []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    base = {_place(r): r["step_ms"] for r in rows if r["tokens"] == 1}
    for r in rows:
        machine = _machine(r["model"], "h200", 1, "vllm", r["precision"])
        one, all_ms = (1e3 * float(decode_step_s(machine, r["batch"], r["context"], t)) for t in (1, r["tokens"]))
        found[f"{r['model']} {r['precision']}"].append(all_ms / r["step_ms"] - 1)
        if r["tokens"] > 1:
            ratios.append(all_ms / one / (r["step_ms"] / base[_place(r)]) - 1)
    print(f"steps: {len(rows)} rows")
    for name, errors in found.items():
        print(f"  {name:22} mean error {_mean(errors)}, bias {np.mean(errors):+.1%}")
    print(f"  all                    mean error {_mean([e for errors in found.values() for e in errors])}")
    print(f"  times one token        mean error {_mean(ratios)}, bias {np.mean(ratios):+.1%}")


def _place(r: dict[str, object]) -> tuple[object, ...]:
    return r["model"], r["precision"], r["batch"], r["context"]


def _machine(model: str, gpu: str, gpus: int, engine: str, quantization: str = "fp16") -> Machine:
    return machine_for(shipped_catalog(), Variant(model, quantization, gpu, gpus), engine)


@dataclass(frozen=True)
class SpeedUp:
    model: str
    chain: bool
    passes: int
    measured: float
    accepted: float
    """tokens a step, the one that any step gives included"""
    plain_s: float
    drafted_s: float
    """without the engine's constants, but for that of drafted tokens"""

    def error(self, constants: Constants) -> float:
        drafted = self.drafted_s + constants[0] + constants[1] * self.passes
        return self.accepted * self.plain_s / drafted / self.measured - 1

    @property
    def possible(self) -> bool:
        """No drafts bring more than the tokens that are accepted."""
        return self.measured < self.accepted


def speed_ups(path: Path) -> Iterator[SpeedUp]:
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    by_model = defaultdict(list)
    for r in rows:
        by_model[r["catalog_model"] or CODER].append(r)
    for model, of_model in by_model.items():
        batch, off = float(of_model[0]["batch_size"]), np.mean([float(r["output_tok_s_off"]) for r in of_model])
        fitting = [m for m in map(_on(model), (1, 2, 4, 8)) if m is not None]
        machine = min(fitting, key=lambda m: abs(np.log(batch / float(decode_step_s(m, batch, CONTEXT)) / off)))
        print(f"  {model}: {off:.0f} tokens/s without drafts, nearest to {machine.gpus} GPUs")
        known = known_draft(model, EAGLE3)
        head = eagle_head(machine.model, known.head if known else None)
        drafter = replace(machine, speculation=Speculation(EAGLE3, (1.0,), head)).drafter
        assert drafter is not None
        for r in of_model:
            passes, wide, verified = int(r["steps"]), int(r["topk"]), int(r["num_draft_tokens"])
            accepted, plain = float(r["acceptance_length"]), float(decode_step_s(machine, batch, CONTEXT))
            drafted = float(decode_step_s(machine, batch, CONTEXT, verified))
            drafted += float(draft_pass_s(drafter, batch, CONTEXT, accepted))
            drafted += (passes - 1) * float(draft_pass_s(drafter, batch, CONTEXT, wide))
            drafted += batch * (verified - 1) * DRAFTED_TOKEN_S
            yield SpeedUp(model, wide == 1, passes, float(r["speedup"]), accepted, plain, drafted)


def _on(model: str) -> Callable[[int], Machine | None]:
    def made(gpus: int) -> Machine | None:
        try:
            return _machine(model, "h200", gpus, "sglang")
        except InputError:
            return None

    return made


def score_speed_ups(path: Path) -> None:
    print("speed-ups:")
    rows = list(speed_ups(path))
    impossible = {model for model in {r.model for r in rows} if _share_possible(rows, model) < 0.9}
    for title, some in (("all", rows), ("possible", [r for r in rows if r.model not in impossible])):
        errors = defaultdict(list)
        for model in sorted({r.model for r in some}):
            constants = _fitted([r for r in some if r.model != model])
            errors[model] = [r.error(constants) for r in some if r.model == model]
            print(f"  left out {model:22} {len(errors[model]):3} rows, mean error {_mean(errors[model])}")
        whole = [e for each in errors.values() for e in each]
        ours = [r.error((DRAFTED_STEP_S, DRAFT_PASS_S)) for r in some]
        chains = [r.error((DRAFTED_STEP_S, DRAFT_PASS_S)) for r in some if r.chain]
        print(f"  {title}: {len(some)} rows, left out one by one {_mean(whole)}; as planned {_mean(ours)},")
        print(f"    chains alone {_mean(chains)}; fitted to all {_fitted(some)}")
    for model in sorted(impossible):
        print(f"  {model}: {1 - _share_possible(rows, model):.0%} of the speed-ups exceed the tokens that are accepted")


def _share_possible(rows: list[SpeedUp], model: str) -> float:
    return float(np.mean([r.possible for r in rows if r.model == model]))


def _fitted(rows: list[SpeedUp]) -> Constants:
    def off(constants: Constants) -> float:
        return float(np.mean([abs(np.log1p(r.error(constants))) for r in rows]))

    return min(((float(a), float(b)) for a, b in product(STEPS_S, PASSES_S)), key=off)


def best_lengths(path: Path) -> None:
    """Draft length by batch, in the middle of each band of the schedules that give an acceptance."""
    print("draft length by batch: band, recommended, ours at its ends and in the middle")
    kept = asked = 0
    with path.open() as file:
        rows = [r for r in csv.DictReader(file) if r["model"] == LLAMA]
    for gpu in ("h100", "h200"):
        for r in rows:
            low, high, wanted = int(r["batch_from"]), min(int(r["batch_to"]), 512), int(r["k"])
            ours = [_best(gpu, r["method"], b) for b in (low, round((low * high) ** 0.5), high)]
            right = ours[1] == 0 if wanted == 0 else abs(ours[1] - wanted) <= 1
            asked, kept = asked + 1, kept + right
            print(f"  {gpu} {r['method']:7} {low:4} to {high:4}  {wanted}  {ours} {'' if right else 'off'}")
    print(f"  {kept} of {asked}")


def _best(gpu: str, method: str, batch: int) -> int:
    machine, known = _machine(LLAMA, gpu, 1, "vllm"), known_draft(LLAMA, EAGLE3)
    assert known is not None and known.head is not None
    own_words = known.head if method == EAGLE3 else known.head.model_copy(update={"vocab": machine.model.vocab})
    head, chances = eagle_head(machine.model, own_words), acceptance(MT_BENCH[method])
    a_token = [float(decode_step_s(machine, batch, CHAT_CONTEXT))]
    for k in range(1, min(len(chances), MOST_DRAFTS) + 1):
        drafting = replace(machine, speculation=Speculation(method, chances[:k], head))
        a_token.append(float(decode_step_s(drafting, batch, CHAT_CONTEXT)) / (1 + sum(chances[:k])))
    return int(np.argmin(a_token))


def pairs(path: Path) -> None:
    """What is reported of the best points with and without drafts at the same speed a user; nothing is scored on it."""
    print("tokens a second and GPU, with drafts over without, at the lowest and highest speed of each page")
    groups = defaultdict(list)
    with path.open() as file:
        for r in csv.DictReader(file):
            groups[r["group"], r["weights"], r["input_len"]].append((float(r["tok_s_per_user"]), r["ratio"]))
    for (group, weights, prompt), found in sorted(groups.items()):
        (slow, at_slow), (fast, at_fast) = min(found), max(found)
        print(f"  {group} {weights} {prompt}: {at_slow} at {slow:.0f} tokens/s, {at_fast} at {fast:.0f}")


def _mean(errors: list[float]) -> str:
    return f"{np.mean(np.abs(errors)):.1%}"


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    steps(Path(sys.argv[1]))
    score_speed_ups(folder / "specbundle_h200.csv.gz")
    best_lengths(folder / "best_k_by_batch.csv")
    pairs(folder / "pairs_at_equal_speed.csv")
