"""Steps that verify several tokens of each request, measured on a GPU: random weights, CUDA graphs, no engine.

    python benchmarks/speculation_steps.py OUT.jsonl [llama-3.1-8b:fp16 llama-3.1-8b:fp8 llama-3.1-70b:fp8]

A row is one step of `batch` requests with `tokens` tokens each at a context: the target's layers and head, and one pass
of an EAGLE-3 draft over one token a request. Models that do not fit are measured with
fewer layers, and the time of their layers is multiplied. `fleetplan` compares its own step times with these rows:
`python benchmarks/speculation_accuracy.py OUT.jsonl`. Needs PyTorch with CUDA and nothing of fleetplan.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from functools import partial

import torch
import torch.nn.functional as F

SHAPES = {
    "llama-3.1-8b": {"layers": 32, "measured": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336},
    "llama-3.1-70b": {"layers": 80, "measured": 10, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn": 28672},
}
VOCAB, DRAFT_VOCAB, HEAD_DIM = 128256, 32000, 128
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = (1, 2, 3, 4, 5, 6, 8)
CONTEXTS = (1024, 4096)
KV_LAYERS = 3
"""KV caches that layers take in turn: more than the L2 cache holds, less than the memory of all layers"""
KV_BYTES = 60e9
DEVICE, DTYPE, FP8 = "cuda", torch.bfloat16, torch.float8_e4m3fn
SCALE = torch.ones((), device=DEVICE)


def weight(n_in: int, n_out: int, fp8: bool) -> torch.Tensor:
    w = torch.randn(n_out, n_in, device=DEVICE, dtype=DTYPE) / n_in**0.5
    return w.to(FP8) if fp8 else w


@torch.compile(dynamic=True)
def normed(x: torch.Tensor, residual: torch.Tensor, gain: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    s = x + residual
    f = s.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).to(DTYPE) * gain, s


@torch.compile(dynamic=True)
def gated(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


@torch.compile(dynamic=True)
def quantized(x: torch.Tensor) -> torch.Tensor:
    """By one scale that the checkpoint holds: PyTorch's products with a scale for each token read half as fast."""
    return (x.float() * 16.0).clamp(-448, 448).to(FP8)


@torch.compile(dynamic=True)
def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    if w.dtype != FP8:
        return F.linear(x, w)
    rows = x.shape[0]
    if rows % 16:
        x = F.pad(x, (0, 0, 0, 16 - rows % 16))
    scales = {"scale_a": SCALE / 16.0, "scale_b": SCALE}
    return torch._scaled_mm(quantized(x), w.t(), **scales, out_dtype=DTYPE, use_fast_accum=True)[:rows]


class Layer:
    def __init__(self, shape: dict[str, int], fp8: bool, width: int = 1) -> None:
        hidden, heads, kv = shape["hidden"], shape["heads"], shape["kv_heads"]
        self.heads, self.kv_heads = heads, kv
        self.qkv = weight(width * hidden, (heads + 2 * kv) * HEAD_DIM, fp8)
        self.out = weight(heads * HEAD_DIM, hidden, fp8)
        self.up = weight(hidden, 2 * shape["ffn"], fp8)
        self.down = weight(shape["ffn"], hidden, fp8)
        self.gain = torch.ones(hidden, device=DEVICE, dtype=DTYPE)

    def __call__(self, x, residual, keys, values, batch, tokens, cos, sin):  # type: ignore[no-untyped-def]
        h, residual = normed(x, residual, self.gain)
        h = h if self.qkv.shape[1] == h.shape[1] else torch.cat((h, h), dim=-1)
        qkv = product(h, self.qkv)
        q, k, v = qkv.split([self.heads * HEAD_DIM, self.kv_heads * HEAD_DIM, self.kv_heads * HEAD_DIM], dim=-1)
        q = rotated(q.view(batch, tokens, self.heads, HEAD_DIM), cos, sin)
        k = rotated(k.view(batch, tokens, self.kv_heads, HEAD_DIM), cos, sin)
        keys[:, :, -tokens:] = k.transpose(1, 2)
        values[:, :, -tokens:] = v.view(batch, tokens, self.kv_heads, HEAD_DIM).transpose(1, 2)
        # Heads that share keys are rows of one query, so that keys and values are read once.
        group = self.heads // self.kv_heads
        rows = q.view(batch, tokens, self.kv_heads, group, HEAD_DIM).permute(0, 2, 1, 3, 4)
        rows = rows.reshape(batch, self.kv_heads, tokens * group, HEAD_DIM)
        seen = F.scaled_dot_product_attention(rows, keys, values)
        seen = seen.view(batch, self.kv_heads, tokens, group, HEAD_DIM).permute(0, 2, 1, 3, 4)
        x = product(seen.reshape(batch * tokens, -1), self.out)
        h, residual = normed(x, residual, self.gain)
        return product(gated(product(h, self.up)), self.down), residual


def timed_ms(work) -> float:  # type: ignore[no-untyped-def]
    """Median of replays of a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    for _ in range(2):
        graph.replay()
    times = []
    spent = 0.0
    while len(times) < 5 or (spent < 150 and len(times) < 30):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b))
        spent += times[-1]
    return statistics.median(times)


def stack(layers, x, cache, shape, turned):  # type: ignore[no-untyped-def]
    h, residual = x, torch.zeros_like(x)
    for i, layer in enumerate(layers):
        k, v = cache[i % KV_LAYERS]
        h, residual = layer(h, residual, k, v, *shape, *turned)
    return h


def sampled(through, layers, head):  # type: ignore[no-untyped-def]
    return product(through(layers), head).argmax(dim=-1)


@torch.inference_mode()
def measure(name: str, precision: str, out) -> None:  # type: ignore[no-untyped-def]
    shape, fp8 = SHAPES[name], precision == "fp8"
    hidden = shape["hidden"]
    layers = [Layer(shape, fp8) for _ in range(shape["measured"])]
    head = weight(hidden, VOCAB, False)
    draft, draft_head = Layer(shape, False, width=2), weight(hidden, DRAFT_VOCAB, False)
    kv_row = 2 * shape["kv_heads"] * HEAD_DIM * 2
    for context in CONTEXTS:
        for batch in BATCHES:
            if batch * (context + 8) * kv_row * KV_LAYERS > KV_BYTES:
                continue
            size = (KV_LAYERS, 2, batch, shape["kv_heads"], context + 8, HEAD_DIM)
            cache = torch.randn(size, device=DEVICE, dtype=DTYPE)
            for tokens in TOKENS:
                rows = batch * tokens
                x = torch.randn(rows, hidden, device=DEVICE, dtype=DTYPE)
                angle = torch.randn(batch, tokens, 1, HEAD_DIM // 2, device=DEVICE)
                cos, sin = angle.cos().to(DTYPE), angle.sin().to(DTYPE)

                through = partial(stack, x=x, cache=cache, shape=(batch, tokens), turned=(cos, sin))
                row = {
                    "model": name, "precision": precision, "layers": shape["layers"], "measured_layers": len(layers),
                    "batch": batch, "tokens": tokens, "context": context,
                    "layers_ms": timed_ms(partial(through, layers)),
                    "head_ms": timed_ms(partial(sampled, through, [], head)),
                }  # fmt: skip
                if tokens == 1:
                    row["draft_ms"] = timed_ms(partial(sampled, through, [draft], draft_head))
                row["step_ms"] = row["layers_ms"] * row["layers"] / row["measured_layers"] + row["head_ms"]
                out.write(json.dumps(row) + "\n")
                out.flush()
        print(name, precision, context, f"{time.monotonic() - START:.0f} s", flush=True)


START = time.monotonic()
if __name__ == "__main__":
    wanted = sys.argv[2:] or ["llama-3.1-8b:fp16", "llama-3.1-8b:fp8", "llama-3.1-70b:fp8"]
    with open(sys.argv[1], "w") as file:
        for one in wanted:
            measure(*one.split(":"), file)
            torch.cuda.empty_cache()
