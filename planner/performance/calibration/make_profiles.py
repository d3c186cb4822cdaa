"""Profiles out of benchmark points: what they measure, and whether that can be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.catalog.entries import Catalog
from planner.catalog.profile import MaxRate, MeasuredPoint, Profile
from planner.catalog.variant import TENSOR, Parallelism, Variant
from planner.io.errors import Diagnostic, InputError, escaped, listed
from planner.performance.calibration.benchmark_runs import BenchPoint
from planner.performance.calibration.datasheet_limits import (
    Replica,
    beyond_limits,
    in_other_units,
    rate_beyond_limits,
    replica_of,
    too_large,
)
from planner.performance.calibration.run_variants import RunVariants

MOST_FAILED_FRAC = 0.1
KEPT_UP_FRAC = 0.9
"""of the arrivals: below it, requests of an open loop pile up"""
CHECK_DEPLOYMENT = "Check GPUs and quantization"
CHECK_UNITS = "Are these microseconds? Divide by 1,000: latencies are read in ms"
GIVE_MEANS = "Add the means beside them (ttft_ms, tpot_ms)"


def make_profiles(
    points: Sequence[BenchPoint],
    *,
    catalog: Catalog,
    model: str | None = None,
    gpu: str | None = None,
    gpus_per_replica: int | None = None,
    parallelism: Parallelism | None = None,
    quantization: str | None = None,
) -> tuple[Profile, ...]:
    """A profile for each deployment that was measured; what is given here wins over what the files say."""
    names = {"model": model, "gpu": gpu, "quantization": quantization}
    runs = RunVariants(catalog, names, gpus_per_replica, parallelism)
    groups: dict[Variant, list[BenchPoint]] = {}
    for point in points:
        variant = runs.variant(point)
        if variant is not None:
            groups.setdefault(variant, []).append(point)
    maker = _Maker(catalog, runs.diagnostics)
    profiles = [maker.profile(variant, group) for variant, group in sorted(groups.items())]
    if not points:
        maker.diagnostics.append(Diagnostic("results", None, None, "", "there is nothing to calibrate from"))
    if maker.diagnostics:
        raise InputError(maker.diagnostics)
    return tuple(profile for profile in profiles if profile is not None)


@dataclass
class _Maker:
    catalog: Catalog
    diagnostics: list[Diagnostic]

    def complain(self, point: BenchPoint, message: str, remedy: str = "") -> None:
        self.diagnostics.append(Diagnostic(point.file, point.line, None, "", message, remedy))

    def profile(self, variant: Variant, group: Sequence[BenchPoint]) -> Profile | None:
        replica = replica_of(variant, self.catalog)
        reason = too_large(replica)
        if reason:
            self.complain(group[0], reason, "Check --gpu, --gpus-per-replica and --quantization")
            return None
        before = len(self.diagnostics)
        rates = [point for point in group if _is_max_rate(point)]
        runs = [point for point in group if not _is_max_rate(point)]
        if rates and runs:
            self.complain(
                rates[0],
                "gives a highest rate without latencies, beside runs that have them",
                "Calibrate tables of highest rates and benchmark runs apart",
            )
        points = [measured for point in runs if (measured := self._measured(point, replica))]
        table = self._table(rates, replica)
        if len(self.diagnostics) > before or not (points or table):
            return None
        return Profile(
            model=variant.model,
            quantization=variant.quantization,
            gpu=variant.gpu,
            gpus_per_replica=variant.gpus_per_replica,
            parallelism=None if variant.parallelism == TENSOR else variant.parallelism,
            engine=_joined(point.engine for point in group),
            source=_joined(escaped(point.file) for point in rates),
            date=max((point.date for point in rates if point.date), default=None),
            points=tuple(sorted(points, key=lambda p: (p.run, p.source or "", p.tpot_ms or 0.0))),
            max_rates=tuple(sorted(table, key=lambda r: (r.input_tokens, r.output_tokens))),
        )

    def _measured(self, point: BenchPoint, replica: Replica) -> MeasuredPoint | None:
        if point.failed and point.n_requests and point.failed > MOST_FAILED_FRAC * point.n_requests:
            self.complain(
                point,
                f"{point.failed} of {point.n_requests} requests failed, so the others had the replica to themselves",
                "Run it again with fewer requests in flight",
            )
            return None
        rate = _requests_per_s(point)
        tpot = point.tpot_ms.typical
        if tpot is None and rate is None and point.ttft_ms.typical is None and point.decode_step_ms is None:
            tails = [name for name, spread in point.latencies.items() if spread.is_tail_only]
            if tails:
                tails_only = (
                    f"gives percentiles of {listed(tails, 'and')} and no mean or median, from which nothing is fitted"
                )
                self.complain(point, tails_only, f"{GIVE_MEANS}, or output_tok_s")
            else:
                self.complain(point, "measures no latency and no rate", "Benchmark with streaming on")
            return None
        concurrency = point.concurrency or _in_flight(point, rate)
        if concurrency is None:
            self.complain(point, "says nothing about the requests in flight", "Add the concurrency to the file")
            return None
        measured = MeasuredPoint(
            input_tokens=_tidy(point.input_tokens),
            output_tokens=_tidy(point.output_tokens),
            concurrency=_tidy(concurrency),
            offered_per_s=_tidied(_offered_per_s(point, rate)),
            tpot_ms=_tidied(tpot),
            ttft_ms=_tidied(point.ttft_ms.typical),
            requests_per_s=_tidied(rate),
            decode_step_ms=_tidied(point.decode_step_ms),
            source=escaped(point.file),
            date=point.date,
        )
        # A tail is checked as if it were a mean: it is in the unit of all else, and of no mean where it stands alone.
        tail = measured.model_copy(update={"tpot_ms": point.tpot_ms.tail if tpot is None else tpot})
        units = list(in_other_units(replica, tail))
        broken = list(beyond_limits(replica, measured))
        for _, arithmetic in units:
            self.complain(point, arithmetic, CHECK_UNITS)
        for _, arithmetic in broken:
            self.complain(point, arithmetic, CHECK_DEPLOYMENT)
        return None if units or broken else measured

    def _table(self, points: Iterable[BenchPoint], replica: Replica) -> list[MaxRate]:
        table: dict[tuple[float, float], MaxRate] = {}
        for point in points:
            rate = MaxRate(
                input_tokens=_tidy(point.input_tokens),
                output_tokens=_tidy(point.output_tokens),
                requests_per_s=_tidy(_requests_per_s(point) or 0.0),
            )
            for _, arithmetic in rate_beyond_limits(replica, rate):
                self.complain(point, arithmetic, CHECK_DEPLOYMENT)
            earlier = table.setdefault((rate.input_tokens, rate.output_tokens), rate)
            if earlier != rate:
                both = f"{earlier.requests_per_s:g} and {rate.requests_per_s:g} requests/s"
                self.complain(point, f"gives these lengths a second time: {both}", "Keep one of the two")
        return list(table.values())


def _is_max_rate(point: BenchPoint) -> bool:
    latencies = (point.tpot_ms.typical, point.ttft_ms.typical, point.e2e_ms.typical, point.decode_step_ms)
    return point.concurrency is None and _requests_per_s(point) is not None and not any(latencies)


def _requests_per_s(point: BenchPoint) -> float | None:
    if point.requests_per_s is not None or point.output_tok_s is None:
        return point.requests_per_s
    return point.output_tok_s / point.output_tokens


def _in_flight(point: BenchPoint, rate: float | None) -> float | None:
    """Little's law. Of requests sent all at once, only the time after their long wait for a first token counts."""
    tpot, ttft = point.tpot_ms.typical, point.ttft_ms.typical
    if rate is None or tpot is None:
        return None
    waits = point.request_rate_per_s is None
    return max(1.0, rate * (point.output_tokens * tpot + (0.0 if waits or ttft is None else ttft)) / 1e3)


def _offered_per_s(point: BenchPoint, rate: float | None) -> float | None:
    """Arrivals, where the replica kept up with them; else it was full, as in a closed loop."""
    offered = point.request_rate_per_s
    return offered if offered is not None and rate is not None and rate >= KEPT_UP_FRAC * offered else None


def _joined(names: Iterable[str | None]) -> str | None:
    return ", ".join(sorted({name for name in names if name})) or None


def _tidy(value: float) -> float:
    """Six digits: more than any benchmark repeats, and few enough to read."""
    return float(f"{value:.6g}")


def _tidied(value: float | None) -> float | None:
    return None if value is None else _tidy(value)
