"""Time the products of one layer's experts on a GPU: slices of all of them against whole ones.

    python benchmarks/expert_kernels.py        (needs an NVIDIA GPU, torch and triton, which nothing else here does)

What each of n GPUs has to do in a step of so many tokens: a slice of every expert that somebody chose (tensor
parallel), or whole experts, of which every GPU has its share and the busiest decides (expert parallel). Experts are
chosen with exponentially distributed popularity, the best of twelve tilings counts, and only the ratios are used: they
are what planner/performance/latency.py takes from here (docs/evidence/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from triton.testing import do_bench

TILINGS = [
    (rows, *rest)
    for rows in (16, 64, 128)
    for rest in ((64, 128, 4, 4), (128, 64, 4, 4), (128, 128, 8, 3), (256, 64, 8, 3))
]
"""rows, columns and depth of a tile, warps, stages"""
TOKENS = (4, 16, 64, 128, 256, 512, 2048)


class Layer(NamedTuple):
    hidden: int
    ffn: int
    experts: int
    chosen: int


LAYERS = {
    "deepseek-v3": Layer(7168, 2048, 256, 8),
    "qwen3-235b-a22b": Layer(4096, 1536, 128, 8),
    "minimax-m2.5": Layer(3072, 1536, 256, 8),
}
Chosen = list[np.ndarray]
"""pairs of a token and an expert, by expert"""


@triton.jit
def _products(
    a, b, c, pairs, experts, n_pairs, columns, depth, per_expert,
    EACH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(columns, COLUMNS)
    row_tile, column_tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    place = row_tile * ROWS + tl.arange(0, ROWS)
    pair = tl.load(pairs + place)
    there = pair < n_pairs
    expert = tl.load(experts + row_tile).to(tl.int64)
    n = column_tile * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, DEPTH)
    left = a + (pair // EACH).to(tl.int64)[:, None] * depth + k[None, :]
    right = b + expert * per_expert + n[None, :].to(tl.int64) * depth + k[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for i in range(tl.cdiv(depth, DEPTH)):
        if EVEN:
            x = tl.load(left, mask=there[:, None], other=0.0)
            y = tl.load(right, mask=n[None, :] < columns, other=0.0)
        else:
            x = tl.load(left, mask=there[:, None] & (k[None, :] < depth - i * DEPTH), other=0.0)
            y = tl.load(right, mask=(n[None, :] < columns) & (k[:, None] < depth - i * DEPTH), other=0.0)
        total = tl.dot(x, y, total)
        left += DEPTH
        right += DEPTH
    out = c + place.to(tl.int64)[:, None] * columns + n[None, :]
    tl.store(out, total.to(tl.bfloat16), mask=there[:, None] & (n[None, :] < columns))


def _ms(inputs: Any, weights: Any, out: Any, chosen: Chosen, n_pairs: int, each: int, tiling: tuple[int, ...]) -> float:
    """Milliseconds of the products of these pairs; infinite where the tiling does not fit."""
    rows, columns, depth, warps, stages = tiling
    padded = [np.concatenate([ids, np.full(-len(ids) % rows, n_pairs)]) for ids in chosen if len(ids)]
    if not padded:
        return 0.0
    of_tile = [e for e, ids in enumerate(chosen) for _ in range(-(-len(ids) // rows))]
    pairs = torch.tensor(np.concatenate(padded), dtype=torch.int32, device="cuda")
    experts = torch.tensor(of_tile, dtype=torch.int32, device="cuda")
    _, n, k = weights.shape
    grid = (len(of_tile) * triton.cdiv(n, columns),)

    def run() -> None:
        _products[grid](
            inputs, weights, out, pairs, experts, n_pairs, n, k, n * k, each, rows, columns, depth, k % depth == 0,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip

    try:
        return float(do_bench(run, warmup=3, rep=15, return_mode="median"))
    except triton.runtime.errors.OutOfResources:
        return float("inf")


def _best(time: Callable[[tuple[int, ...]], float], per_expert: float) -> tuple[int, ...]:
    return min((t for t in TILINGS if t[0] <= max(16, 4 * per_expert)), key=time)


def _random(*shape: int) -> Any:
    return (torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.05).to(torch.float8_e4m3fn)


def _chosen(layer: Layer, tokens: int, gpus: int) -> Chosen:
    rng = np.random.default_rng([tokens, gpus])
    liking = np.log(rng.exponential(size=layer.experts)) + rng.gumbel(size=(tokens, layer.experts))
    picked = np.argsort(-liking, axis=1)[:, : layer.chosen].reshape(-1)
    return [np.flatnonzero(picked == e) for e in range(layer.experts)]


def compare(name: str, gpus: int) -> None:
    layer = LAYERS[name]
    ffn, own = layer.ffn // gpus, layer.experts // gpus
    slices = _random(layer.experts, 2 * ffn, layer.hidden), _random(layer.experts, layer.hidden, ffn)
    whole = _random(own, 2 * layer.ffn, layer.hidden), _random(own, layer.hidden, layer.ffn)
    for tokens in TOKENS:
        chosen, n_pairs = _chosen(layer, tokens, gpus), tokens * layer.chosen
        prompt = _random(tokens, layer.hidden)
        rows, width = n_pairs + (layer.experts + 1) * 128, max(2 * layer.ffn, layer.hidden)
        out = torch.empty(rows, width, device="cuda", dtype=torch.bfloat16)
        per_expert = n_pairs / sum(len(ids) > 0 for ids in chosen)

        def layer_ms(weights: tuple[Any, Any], groups: list[Chosen], inner: Any) -> list[float]:
            up, down = weights

            def first(mine: Chosen, tiling: tuple[int, ...]) -> float:
                return _ms(prompt, up, out, mine, n_pairs, layer.chosen, tiling)  # noqa: B023

            def second(mine: Chosen, tiling: tuple[int, ...]) -> float:
                return _ms(inner, down, out, mine, n_pairs, 1, tiling)  # noqa: B023

            best = [_best(lambda t, f=f: f(groups[0], t), per_expert) for f in (first, second)]  # noqa: B023
            return [first(mine, best[0]) + second(mine, best[1]) for mine in groups]

        (sliced,) = layer_ms(slices, [chosen], _random(n_pairs + 1, ffn))
        groups = [chosen[g * own : (g + 1) * own] for g in range(gpus)]
        each = layer_ms(whole, groups, _random(n_pairs + 1, layer.ffn))
        mean, most = float(np.mean(each)), max(each)
        times = f"slices {sliced:.4f} ms   whole {mean:.4f} ms, the busiest {most:.4f} ms"
        ratios = f"slices / whole {sliced / mean:.2f}   busiest / slices {most / sliced:.2f}"
        print(f"{name:16} {gpus} GPUs {tokens:5} tokens   {times}   {ratios}", flush=True)


def main() -> None:
    print(f"{torch.cuda.get_device_name()}, FP8, torch {torch.__version__}, triton {triton.__version__}")
    for name, gpus in (("deepseek-v3", 8), ("qwen3-235b-a22b", 4), ("minimax-m2.5", 8), ("minimax-m2.5", 2)):
        compare(name, gpus)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
