"""One replica as rates: what the datasheet, the efficiency and the engine leave of each resource."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from planner.catalog.entries import (
    DEFAULT_ENGINE,
    Basis,
    Efficiency,
    Engine,
    Gpu,
    Model,
    MoeKernels,
    Quantization,
    Rates,
    shipped_catalog,
)
from planner.performance.memory import (
    EMBEDDING_BITS,
    SPLIT,
    Layout,
    Parameters,
    dense_bits,
    kv_copies,
    kv_room_bytes,
    longest_request,
    parameters,
)
from planner.performance.speculation import NO_EXTRA, Extra, Speculation, drafted_in, extra_of

ESTIMATED_ERROR_FRAC = 0.25
"""of GPUs and precisions without measurements: above the mean error on sources left out of the fit"""


def default_engine() -> Engine:
    return shipped_catalog().engines[DEFAULT_ENGINE]


@dataclass(frozen=True)
class Lora:
    """Adapters on one base model, requests spread evenly over them."""

    adapters: int
    adapter_gb: float = 0.1
    layer_overhead_us: float = 3.0
    """extra kernels of a layer; an estimate, by which 50 adapters of 100 MB add 1% to 3% to the steps of a 70B model"""

    @property
    def bytes(self) -> float:
        return self.adapters * self.adapter_gb * 1e9


@dataclass(frozen=True)
class Machine:
    """One replica: a model variant on some GPUs, served by an engine."""

    model: Model
    quantization: Quantization
    gpu: Gpu
    gpus: int
    efficiency: Efficiency
    engine: Engine = field(default_factory=default_engine)
    lora: Lora | None = None
    layout: Layout = SPLIT
    speculation: Speculation | None = None
    link_gb_per_s: float | None = None
    """per GPU and one way, between the boxes of a replica that spans several"""

    @cached_property
    def rates(self) -> Rates:
        """What its precision reaches of the datasheet, and what stands behind that for models of its class."""
        rates = self.efficiency.rates_for(self.quantization).for_class(self.model)
        if self.speculation is not None:
            source = f"{rates.source}; acceptance was measured on other prompts, so that it is an estimate"
            return rates.model_copy(update={"basis": "estimated", "points": 0, "error_frac": None, "source": source})
        if self.boxes > 1:
            source = f"{rates.source}; nothing was measured over several boxes, so that it is an estimate"
            return rates.model_copy(update={"basis": "estimated", "points": 0, "error_frac": None, "source": source})
        if self.ranks == 1:
            return rates
        source = f"{rates.source}; nothing was measured with attention data parallel, so that it is an estimate"
        return rates.model_copy(update={"basis": "estimated", "points": 0, "error_frac": None, "source": source})

    @property
    def ranks(self) -> int:
        """Copies of attention that get prompts by chance; 1 where the engine gives each its share."""
        return 1 if self.engine.even_ranks else self.layout.attention_copies

    @property
    def boxes(self) -> int:
        """Of a replica: stages of a pipeline, each busy with another part of the requests in flight."""
        return self.layout.boxes

    @cached_property
    def one_box(self) -> Machine:
        """What a request meets on its way through all boxes, as if one after the other were the same one."""
        return replace(self, gpus=self.gpus // self.boxes, layout=self.layout.one_box, link_gb_per_s=None)

    @property
    def step_tokens(self) -> int:
        """Most prompt tokens of a step, over all copies of attention; over several boxes, of a round through them."""
        return self.copy_step_tokens * self.layout.attention_copies

    @property
    def copy_step_tokens(self) -> int:
        """The same of one copy of attention."""
        return self.engine.chunk_tokens * self.boxes

    @property
    def verified_tokens(self) -> int:
        """Tokens of a request in a step: the one that any step gives, and the drafts that are verified with it."""
        return 1 + self.speculation.tokens if self.speculation else 1

    @property
    def accepted_tokens(self) -> float:
        """Tokens of a request that a step brings on average."""
        return self.speculation.accepted_tokens if self.speculation else 1.0

    @cached_property
    def drafter(self) -> Machine | None:
        """What makes the drafts on the same GPUs; None where nothing does there."""
        s = self.speculation
        if s is None or s.drafter is None:
            return None
        quantization = drafted_in(s, self.quantization)
        return replace(self, model=s.drafter, quantization=quantization, lora=None, speculation=None)

    @cached_property
    def extra(self) -> Extra:
        """What drafts take of its memory."""
        if self.speculation is None:
            return NO_EXTRA
        return extra_of(self.speculation, self.model, self.quantization, self.layout)

    @property
    def reserved_bytes(self) -> float:
        """Of adapters, which every GPU holds, and of what drafts, on all GPUs together."""
        return (self.lora.bytes * self.gpus if self.lora else 0.0) + self.extra.weight_bytes

    @cached_property
    def kv_room_bytes(self) -> float:
        """Memory left for the KV cache of the model, over all GPUs, without its copies."""
        usable = self.engine.usable_memory_frac
        room = kv_room_bytes(self.model, self.gpu, self.gpus, self.quantization, usable, self.layout)
        return (room - self.reserved_bytes / self.kv_copies) / self.extra.kv_factor

    @cached_property
    def longest_request(self) -> int:
        """Tokens of the longest request that its engine admits, prompt and answer together."""
        usable, extra = self.engine.usable_memory_frac, self.extra
        return longest_request(
            self.model,
            self.gpu,
            self.gpus,
            self.quantization,
            usable,
            self.reserved_bytes,
            self.layout,
            extra.kv_factor,
        )

    @property
    def basis(self) -> Basis:
        """Where its rates come from."""
        return self.rates.basis

    @property
    def error_frac(self) -> float:
        """How far its rates are from measurements, on average."""
        error = self.rates.error_frac
        return ESTIMATED_ERROR_FRAC if error is None else error

    @cached_property
    def parameters(self) -> Parameters:
        return parameters(self.model)

    @cached_property
    def flops(self) -> float:
        """arithmetic that the GPUs reach together in the precision of the quantization [FLOP/s]"""
        tflops = self.gpu.dense_tflops
        peak = tflops.get(self.quantization.compute, tflops["fp16"])
        frac = self.rates.compute_frac * self.engine.compute_factor
        return peak * 1e12 * min(frac, 1.0) * self.gpus

    @cached_property
    def flops_16bit(self) -> float:
        """arithmetic in 16 bit: the output head, and everything outside quantized experts [FLOP/s]"""
        frac = self.efficiency.rates["fp16"].compute_frac * self.engine.compute_factor
        return self.gpu.dense_tflops["fp16"] * 1e12 * min(frac, 1.0) * self.gpus

    @cached_property
    def attention_flops(self) -> float:
        """arithmetic of attention over long prompts, which stays in 16 bit [FLOP/s]"""
        return self.gpu.dense_tflops["fp16"] * 1e12 * self.efficiency.attention_frac * self.gpus

    @cached_property
    def bandwidth(self) -> float:
        return self.gpu.bandwidth_gb_per_s * 1e9 * self.gpus

    @cached_property
    def kv_bandwidth(self) -> float:
        return self.bandwidth * min(self.efficiency.kv_read_frac * self.engine.kv_read_factor, 1.0)

    @cached_property
    def kv_copies(self) -> float:
        return kv_copies(self.model, self.gpus, self.layout)

    def _read_s(self, bytes_read: float, frac: float) -> float:
        """reading what all GPUs hold together, once"""
        return bytes_read / (self.bandwidth * min(frac * self.engine.weight_read_factor, 1.0))

    @cached_property
    def _dense_is_16bit(self) -> bool:
        return dense_bits(self.model, self.quantization) > self.quantization.weight_bits

    @cached_property
    def dense_read_s(self) -> float:
        """reading all weights outside the experts and the head, once"""
        rates = self.efficiency.rates["fp16"] if self._dense_is_16bit else self.rates
        bits = dense_bits(self.model, self.quantization)
        return self._read_s(self.layout.attention_copies * self.parameters.dense * bits / 8, rates.weight_read_frac)

    @cached_property
    def dense_token_s(self) -> float:
        """arithmetic of one token in them"""
        rate = self.flops_16bit if self._dense_is_16bit else self.flops
        return 2 * self.parameters.dense / rate

    @cached_property
    def head_read_s(self) -> float:
        frac = self.efficiency.rates["fp16"].weight_read_frac
        return self._read_s(self.layout.attention_copies * self.parameters.head * EMBEDDING_BITS / 8, frac)

    @cached_property
    def head_token_s(self) -> float:
        return 2 * self.parameters.head / self.flops_16bit

    @cached_property
    def moe_kernels(self) -> MoeKernels:
        e = self.engine
        usual = MoeKernels(read_factor=e.moe_read_factor, compute_factor=e.moe_compute_factor, layer_us=e.moe_layer_us)
        return e.moe_on.get(self.gpu.architecture, usual)

    @cached_property
    def experts_read_s(self) -> float:
        """reading every expert once"""
        frac = self.rates.weight_read_frac * self.moe_kernels.read_factor
        return self._read_s(self.parameters.routed * self.quantization.weight_bits / 8, frac)

    @cached_property
    def experts_token_s(self) -> float:
        """arithmetic of one token in the experts it chose"""
        p = self.parameters
        return 2 * p.routed * p.chosen_frac / (self.flops * self.moe_kernels.compute_factor)
