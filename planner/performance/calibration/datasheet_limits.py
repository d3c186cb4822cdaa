"""What no deployment can beat: its datasheet at 100%. A measurement that does is a mistake somewhere.

    decode step  >= (weights read + requests in flight x KV cache read) / memory bandwidth        [s]
                 >= 2 x active parameters x requests in flight / arithmetic                       [s]
    prefill      >= 2 x active parameters x input tokens / arithmetic                             [s]

Each is a true lower bound, so that a good measurement is never refused: the table of input embeddings is not
read as a whole, the requests of a mixture may choose among half of its experts only, the KV cache may be kept in
8 bit, and arithmetic may run in any precision down to that of the weights. Speculative decoding and a prefix cache
that hits do break them; what was measured with these does not tell how fast the replica is without.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.catalog.entries import Catalog, Gpu, Model, Quantization
from planner.catalog.profile import MaxRate, MeasuredPoint
from planner.catalog.variant import Variant
from planner.performance.memory import kv_read_bytes, layout_of, weight_bytes

ROUNDING = 0.98
"""datasheets round, by a percent or two"""
FAR_TOO_SLOW = 500.0
"""times the least that a step can take: no engine is so slow, and microseconds taken for ms are 1,000 times or more"""
LEAST_KV_BITS = 8.0
USED_EXPERTS_FRAC = 0.5
PRECISION_BITS = {"fp16": 16, "fp8": 8, "int8": 8, "fp4": 4}

Broken = tuple[str, str]
"""The field that cannot be, and the arithmetic."""


@dataclass(frozen=True)
class Replica:
    """The facts that bound one replica."""

    model: Model
    quantization: Quantization
    gpu: Gpu
    gpus: int
    copies: int = 1
    """of attention, each on GPUs of its own: a request that is alone has the others idle"""

    @property
    def bandwidth(self) -> float:
        return self.gpu.bandwidth_gb_per_s * 1e9 * self.gpus

    @property
    def flops(self) -> float:
        narrowest = int(self.quantization.weight_bits)
        rates = [rate for name, rate in self.gpu.dense_tflops.items() if PRECISION_BITS.get(name, 16) >= narrowest]
        return max(rates, default=max(self.gpu.dense_tflops.values())) * 1e12 * self.gpus

    @property
    def working_parameters(self) -> float:
        """Parameters that every token is multiplied with; looking up an embedding multiplies nothing."""
        return self.model.active_parameters_b * 1e9 - self._embedding_parameters

    def weight_bytes_read(self, in_flight: float) -> float:
        """of a decode step: everything but the table of embeddings, and the experts that someone chose"""
        whole = weight_bytes(self.model, self.quantization) - 2 * self._embedding_parameters
        if self.model.moe is None:
            return whole
        chosen = self.model.moe.experts_per_token / self.model.moe.experts
        unread_by_one = self.model.parameters_b - self.model.active_parameters_b
        routed_frac = unread_by_one / max(1 - chosen, 1e-9) / self.model.parameters_b
        used = max(chosen, USED_EXPERTS_FRAC)
        touched = used * (1 - math.pow(1 - chosen / used, max(in_flight, 1.0)))
        return whole * (1 - routed_frac * (1 - touched))

    @property
    def _embedding_parameters(self) -> float:
        return min(self.model.vocab * self.model.hidden, 0.25 * self.model.active_parameters_b * 1e9)

    def kv_bytes_read(self, context_tokens: float) -> float:
        bits = self.quantization.kv_bits
        return (
            float(kv_read_bytes(self.model, self.quantization, context_tokens, 1.0)) * min(bits, LEAST_KV_BITS) / bits
        )

    def step_bytes(self, in_flight: float, context_tokens: float) -> float:
        return self.weight_bytes_read(in_flight) + in_flight * self.kv_bytes_read(context_tokens)

    def step_s(self, in_flight: float, context_tokens: float) -> float:
        """the least that one decode step can take"""
        reading = self.step_bytes(in_flight, context_tokens) / self.bandwidth
        return max(reading, 2 * self.working_parameters * in_flight / self.flops)

    def prefill_s(self, tokens: float) -> float:
        """the least that prefilling so many tokens can take"""
        # All tokens but the last skip the output head, which is as large as the table of embeddings.
        per_token = max(self.working_parameters - self._embedding_parameters, 0.0)
        return 2 * per_token * tokens / self.flops

    def most_in_flight(self, context_tokens: float) -> float:
        room = self.gpu.vram_gb * 1e9 * self.gpus - weight_bytes(self.model, self.quantization)
        return max(1.0, room / self.kv_bytes_read(context_tokens))


def replica_of(v: Variant, catalog: Catalog) -> Replica:
    """A deployment by catalog keys."""
    return Replica(
        catalog.models[v.model],
        catalog.quantizations[v.quantization],
        catalog.gpus[v.gpu],
        v.gpus_per_replica,
        layout_of(v.parallelism, v.gpus_per_replica).attention_copies,
    )


def running(point: MeasuredPoint) -> float:
    """Requests that were being decoded on average: those allowed, less those that waited for their first token."""
    if point.tpot_ms is None:
        return point.concurrency
    decoding_s = point.output_tokens * point.tpot_ms / 1e3
    if point.requests_per_s is not None:
        return min(point.concurrency, max(1.0, point.requests_per_s * decoding_s))
    waiting_s = (point.ttft_ms or 0.0) / 1e3
    return max(1.0, point.concurrency * decoding_s / (decoding_s + waiting_s))


def too_large(replica: Replica) -> str:
    """Why the weights cannot be on these GPUs at all; empty if they can."""
    need = weight_bytes(replica.model, replica.quantization) / 1e9
    if need <= replica.gpu.vram_gb * replica.gpus:
        return ""
    return f"the weights take {need:.4g} GB; {replica.gpus} x {replica.gpu.vram_gb:g} GB hold less"


def beyond_limits(replica: Replica, point: MeasuredPoint) -> Iterator[Broken]:
    """Every measurement of a point that is faster than the datasheet allows."""
    context = point.input_tokens + point.output_tokens / 2
    broken = False
    for field, in_flight in (("tpot_ms", running(point)), ("decode_step_ms", point.concurrency)):
        measured = getattr(point, field)
        if measured is not None and measured < ROUNDING * 1e3 * replica.step_s(in_flight, context):
            broken = True
            yield field, f"{_step_words(replica, in_flight, context)}; the file says {measured:.3g} ms"
    if point.ttft_ms is not None and point.ttft_ms < ROUNDING * 1e3 * replica.prefill_s(point.input_tokens):
        least = replica.prefill_s(point.input_tokens)
        yield (
            "ttft_ms",
            (
                f"prefilling {point.input_tokens:.4g} tokens takes {least * replica.flops / 1e12:.3g} TFLOP; "
                f"at {_rate(replica)} that is {least * 1e3:.3g} ms; the file says {point.ttft_ms:.3g} ms"
            ),
        )
    if point.requests_per_s is not None and not broken:
        rate = MaxRate(
            input_tokens=point.input_tokens,
            output_tokens=point.output_tokens,
            requests_per_s=point.requests_per_s,
        )
        yield from rate_beyond_limits(replica, rate, point.concurrency)


def in_other_units(replica: Replica, point: MeasuredPoint) -> Iterator[Broken]:
    """Latencies so long that they must be in microseconds; a TTFT only of a lone request, which waits for nobody."""
    context = point.input_tokens + point.output_tokens / 2
    step_ms = 1e3 * replica.step_s(point.concurrency, context)
    least = {"tpot_ms": step_ms, "decode_step_ms": step_ms}
    if point.concurrency <= 1:
        # Of a short prompt, reading the weights takes longer than its arithmetic.
        least["ttft_ms"] = max(1e3 * replica.prefill_s(point.input_tokens), step_ms)
    for field, least_ms in least.items():
        measured = getattr(point, field)
        if measured is not None and measured > FAR_TOO_SLOW * replica.copies * least_ms:
            what = {"tpot_ms": "TPOT", "ttft_ms": "TTFT"}.get(field, "decode step")
            times = f"{measured / least_ms:,.0f} times the least that it can take ({least_ms:.3g} ms)"
            yield field, f"a {what} of {measured:,.0f} ms is {times}"


def rate_beyond_limits(replica: Replica, rate: MaxRate, in_flight: float | None = None) -> Iterator[Broken]:
    """A rate against the arithmetic of its tokens, and against its decode steps."""
    context = rate.input_tokens + rate.output_tokens / 2
    tokens = rate.input_tokens + rate.output_tokens
    compute = 1 / replica.prefill_s(tokens) if replica.prefill_s(tokens) else np.inf
    batch = max(1.0, in_flight) if in_flight is not None else replica.most_in_flight(context)
    decode = batch / (rate.output_tokens * replica.step_s(batch, context))
    stated = f"the file says {rate.requests_per_s:.3g} requests/s"
    if rate.requests_per_s * ROUNDING > compute:
        tflop = replica.prefill_s(tokens) * replica.flops / 1e12
        yield (
            "requests_per_s",
            f"{tokens:.4g} tokens take {tflop:.3g} TFLOP; at {_rate(replica)} that is {compute:.3g} a second; {stated}",
        )
    elif rate.requests_per_s * ROUNDING > decode:
        yield "requests_per_s", f"{_step_words(replica, batch, context)}: {decode:.3g} requests/s; {stated}"


def _step_words(replica: Replica, in_flight: float, context: float) -> str:
    bytes_read, least_s = replica.step_bytes(in_flight, context), replica.step_s(in_flight, context)
    many = f" for {in_flight:.3g} requests" if in_flight > 1 else ""
    if least_s > bytes_read / replica.bandwidth:
        tflop = least_s * replica.flops / 1e12
        return f"a decode step{many} takes {tflop:.3g} TFLOP; at {_rate(replica)} that is {least_s * 1e3:.2g} ms"
    speed = f"{replica.gpu.bandwidth_gb_per_s / 1e3:.3g} TB/s"
    speed = speed if replica.gpus == 1 else f"{replica.gpus} x {speed}"
    return f"a decode step{many} must read {bytes_read / 1e9:.3g} GB; at {speed} that is {least_s * 1e3:.2g} ms"


def _rate(replica: Replica) -> str:
    return f"{replica.flops / 1e12:.4g} TFLOPS"
