"""What kernels and serving engines reach of a GPU."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from planner.catalog.entries.models import Model
from planner.catalog.entries.quantizations import Precision, Quantization
from planner.catalog.entries.sourced import Named, Sourced
from planner.io.validation import Strict

DEFAULT_ENGINE = "vllm"
Basis = Literal["measured", "calibrated", "estimated"]


class Backing(Strict):
    """What stands behind the constants for one class of models: dense ones, or mixtures of experts."""

    basis: Basis
    points: int = Field(ge=0)
    error_frac: float | None = Field(default=None, ge=0)


class Rates(Sourced):
    """What kernels of one precision reach of a GPU's datasheet."""

    compute_frac: float = Field(gt=0, le=1)
    weight_read_frac: float = Field(gt=0, le=1)
    basis: Basis = "estimated"
    points: int = Field(default=0, ge=0)
    """Measurements on this GPU in this precision that the constants were fitted to."""
    error_frac: float | None = Field(default=None, ge=0)
    """Mean absolute error on them; None without measurements."""
    dense: Backing | None = None
    moe: Backing | None = None
    """The last three for a class of models; None: as for all."""

    def for_class(self, model: Model) -> Rates:
        """The same rates, with what stands behind them for models like this one."""
        own, other = (self.moe, "dense models") if model.moe else (self.dense, "mixtures of experts")
        if own is None or self.basis == "measured":
            return self
        found: dict[str, Any] = {"basis": own.basis, "points": own.points, "error_frac": own.error_frac}
        if own.basis == "estimated" and self.basis == "calibrated":
            found["source"] = f"{self.source}; these are {other}, so for this model it is an estimate"
        return self.model_copy(update=found)


class Efficiency(Sourced):
    """What kernels reach of a GPU's datasheet, whatever the engine."""

    rates: dict[Precision, Rates]
    attention_frac: float = Field(gt=0, le=1)
    """Share of the dense 16-bit rate that the attention of a long prompt reaches."""
    kv_read_frac: float = Field(gt=0, le=1)
    link_frac: float = Field(gt=0, le=1)
    all_reduce_latency_us: float = Field(ge=0)
    """Between two GPUs; it grows with the logarithm of their number."""
    layer_overhead_us: float = Field(ge=0)
    """Latency of a layer's kernels that no bandwidth or arithmetic explains."""
    host_factor: float = Field(default=1.0, gt=0)
    """Time that the CPUs of such servers take to launch work, against those beside an A100."""

    def rates_for(self, quantization: Quantization) -> Rates:
        """The rates of a precision; without any, those of 16 bit, as an estimate."""
        found = self.rates.get(quantization.precision)
        guess = {"basis": "estimated", "points": 0, "error_frac": None}
        return found or self.rates["fp16"].model_copy(update=guess)


class MoeKernels(Sourced):
    """How an engine runs the experts of a layer on GPUs of one architecture."""

    read_factor: float = Field(gt=0)
    compute_factor: float = Field(gt=0)
    layer_us: float = Field(ge=0)
    points: int = Field(default=0, ge=0)
    """Measurements of mixtures of experts that the constants were fitted to."""
    error_frac: float | None = Field(default=None, ge=0)


class Engine(Named):
    """A serving engine as a set of constants."""

    step_overhead_ms: float = Field(ge=0)
    """Scheduling and sampling, once a step."""
    layer_overhead_factor: float = Field(gt=0)
    """Times the GPU's layer_overhead_us: fused kernels and CUDA graphs lower it."""
    host_layer_us: float = Field(ge=0)
    """Launching a layer from the host: it hides behind the GPU's work unless it takes longer."""
    sequence_overhead_us: float = Field(ge=0)
    """Bookkeeping of each request in flight, every step."""
    prefill_overhead_ms: float = Field(ge=0)
    """Once for each prompt."""
    compute_factor: float = Field(gt=0)
    """Times the GPU's compute_frac."""
    weight_read_factor: float = Field(gt=0)
    """Times the GPU's weight_read_frac."""
    kv_read_factor: float = Field(gt=0)
    """Times the GPU's kv_read_frac."""
    moe_read_factor: float = Field(gt=0)
    """Expert weights against dense ones."""
    moe_compute_factor: float = Field(gt=0)
    moe_layer_us: float = Field(ge=0)
    """Routing, sorting and gathering, once a layer of experts."""
    moe_on: dict[str, MoeKernels] = {}
    """The same three on GPUs of an architecture whose kernels differ."""
    chunk_tokens: int = Field(gt=0)
    """Most prompt tokens in a step; longer prompts are prefilled in chunks."""
    mixes_prefill: bool
    """Whether a step computes prompt chunks and running requests together."""
    interruption_frac: float = Field(gt=0, le=1)
    """Share of the others' prefills that running requests wait for; less where prompts go first."""
    queue_frac: float = Field(ge=0)
    """Prefills that a request waits for before its own, at a fixed concurrency, since answers of equal length end
    together and requests come in waves: times the others in flight, or times the square root of their number where
    steps do not mix prompts with running requests and a pass prefills what waits together."""
    queued_prompts: float = Field(default=0.0, ge=0)
    """Prompts ahead of a request besides those, once many are in flight."""
    queued_steps: float | None = Field(default=None, ge=0)
    """Steps of the others that pass before a request's own prefill and the delivery of its first token; without it,
    half of one (plans that were saved without it keep their hash)."""
    max_in_flight: int = Field(gt=0)
    even_ranks: bool | None = None
    """Whether prompts wait until all data-parallel ranks have some: balanced work, at the price of TTFT."""
    usable_memory_frac: float = Field(gt=0, le=1)
    fp8_kv: bool = False
    """Whether FP8 checkpoints keep their KV cache in 8 bits unless told otherwise."""
    reserved_output_frac: float = Field(ge=0, le=1)
    """Share of the output whose KV memory a request holds on average: 0.5 as it grows, 1 if reserved."""
    basis: Basis = "estimated"
    points: int = Field(default=0, ge=0)
    error_frac: float | None = Field(default=None, ge=0)
