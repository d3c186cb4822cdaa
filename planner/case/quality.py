"""What a quantization costs a workload in quality, on which benchmark, and how near that was measured."""

from __future__ import annotations

from dataclasses import dataclass

from planner.case.case import Case, Workload
from planner.catalog.entries import DEFAULT_BENCHMARK, benchmark_family

NO_BENCHMARK = "none"


@dataclass(frozen=True)
class QualityBasis:
    """The loss of a quantization for a workload, and what it rests on."""

    loss_frac: float
    benchmark: str
    """empty where nothing is lost by definition"""
    measured_on: str
    asked: str
    """the family of benchmarks that the loss is held against"""
    fallback: bool
    """it was measured on benchmarks of another family"""
    borrowed: bool
    """it was measured on a model of another family"""
    cache_assumed: bool = False
    """a part of it is that of a KV cache in 8 bits, which is an assumption"""

    @property
    def as_asked(self) -> bool:
        return not (self.fallback or self.borrowed or self.cache_assumed)

    @property
    def remark(self) -> str:
        """What a reader should know; empty where it was measured as asked."""
        parts = [f"no figure on {self.asked}, so {self.benchmark} is used instead"] if self.fallback else []
        parts += [f"borrowed from {self.measured_on}"] if self.borrowed else []
        parts += ["the part of the KV cache in 8 bits is assumed"] if self.cache_assumed else []
        return "; ".join(parts)


def quality_of(case: Case, w: Workload, model: str, quantization: str) -> QualityBasis:
    """The loss by quantization alone, as the limit of the workload counts it."""
    scheme, entry = case.quantizations[quantization], case.models[model]
    asked = w.quality_benchmark or DEFAULT_BENCHMARK
    loss = scheme.loss_for(entry, quantization, asked)
    benchmark = scheme.benchmark_of(loss)
    exact = entry.native_quantization == (scheme.weights or quantization) or benchmark == NO_BENCHMARK
    return QualityBasis(
        loss_frac=loss.loss_frac,
        benchmark="" if exact else benchmark,
        measured_on="" if exact else loss.measured_on,
        asked=asked,
        fallback=not exact and benchmark_family(benchmark) != asked,
        borrowed=not exact and loss.family is not None and loss.family != entry.family,
        cache_assumed=scheme.kv_loss is not None and scheme.kv_loss.assumption is not None,
    )
