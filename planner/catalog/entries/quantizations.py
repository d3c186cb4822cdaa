"""Quantizations: how weights are stored, what computes them, and what quality that costs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.catalog.entries.benchmarks import DEFAULT_BENCHMARK, benchmark_family, nearest_families
from planner.catalog.entries.gpus import Gpu
from planner.catalog.entries.models import Model
from planner.catalog.entries.sourced import Named, Sourced

Precision = Literal["fp16", "fp8", "int8", "fp4", "w8a16", "w4a16"]


class QualityLoss(Sourced):
    min_parameters_b: float = Field(ge=0)
    loss_frac: float = Field(ge=0, le=1)
    measured_on: str = "unknown"
    family: str | None = None
    """Of the model that it was measured on; None: nobody says."""
    benchmark: str | None = None
    """None: that of the quantization."""


class CacheLoss(Sourced):
    loss_frac: float = Field(ge=0, le=1)


class Quantization(Named):
    """A way to store weights and to compute."""

    weight_bits: float = Field(gt=0)
    compute: Literal["fp16", "fp8", "int8", "fp4"]
    needs: Literal["fp16", "fp8", "int8", "fp4", "none"]
    kv_bits: float = Field(gt=0)
    by_default: bool = True
    """Whether a menu that names no quantizations has it."""
    experts_only: bool = False
    """In a mixture of experts, the other weights stay in 16 bit."""
    vllm_on_load: str | None = None
    """What `vllm serve --quantization` takes to make it of a 16-bit checkpoint while loading; None: that needs a
    checkpoint quantized so, from which vLLM reads the method by itself."""
    benchmark: str = "none"
    quality_loss: tuple[QualityLoss, ...] = Field(min_length=1)
    weights: str | None = None
    """The entry whose weights these are, where the KV cache alone differs; None: they are its own."""
    kv_loss: CacheLoss | None = None
    """What the KV cache loses beside the weights."""

    @property
    def precision(self) -> Precision:
        """Which kernels run: those of the arithmetic, or weight-only ones that unpack to 16 bit."""
        if self.compute == "fp16" and self.weight_bits < 12:
            return "w8a16" if self.weight_bits > 6 else "w4a16"
        return self.compute

    @property
    def needed(self) -> tuple[str, ...]:
        """Precisions that a GPU must have natively: that of the weights, and FP8 for an 8-bit cache."""
        weights = () if self.needs == "none" else (self.needs,)
        return tuple(dict.fromkeys((*weights, *(("fp8",) if self.kv_bits <= 8 else ()))))

    def lacked_by(self, gpu: Gpu) -> str | None:
        """The precision that a GPU would need and has not."""
        return next((precision for precision in self.needed if precision not in gpu.dense_tflops), None)

    def loss_for(self, model: Model, name: str, benchmark: str | None = None) -> QualityLoss:
        """The loss that applies to a model of this size and family on a family of benchmarks, or the nearest to it.

        Its native format loses nothing; a KV cache of fewer bits loses its own part beside the weights.
        """
        loss = self._loss_of_weights(model, name, benchmark)
        if self.kv_loss is None:
            return loss
        return loss.model_copy(update={"loss_frac": min(1.0, loss.loss_frac + self.kv_loss.loss_frac)})

    def _loss_of_weights(self, model: Model, name: str, benchmark: str | None) -> QualityLoss:
        if model.native_quantization == (self.weights or name):
            published = "the model is published in this format"
            return QualityLoss(min_parameters_b=0, loss_frac=0, source=published)
        levels = [q for q in self.quality_loss if q.min_parameters_b <= model.parameters_b]
        if not levels:
            return max(self.quality_loss, key=lambda q: q.loss_frac)
        order = nearest_families(benchmark or DEFAULT_BENCHMARK)

        def fit(q: QualityLoss) -> tuple[float, float, bool, float]:
            family = benchmark_family(self.benchmark_of(q))
            place = order.index(family) if family in order else len(order)
            return -place, q.min_parameters_b, q.family == model.family, q.loss_frac

        return max(levels, key=fit)

    def benchmark_of(self, loss: QualityLoss) -> str:
        return loss.benchmark or self.benchmark
