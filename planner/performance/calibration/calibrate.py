"""From benchmark result files to profiles: what was read, and the model's errors before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from planner.catalog.entries import DEFAULT_ENGINE, Catalog, shipped_catalog
from planner.catalog.profile import Profile, profiles_text
from planner.catalog.variant import Parallelism
from planner.io.errors import Diagnostic, InputError, listed
from planner.io.result import Result
from planner.performance.calibration.benchmark_runs import BenchPoint
from planner.performance.calibration.fitting import Assessed, ErrorRow, assessed
from planner.performance.calibration.profiles import GIVE_MEANS, make_profiles
from planner.performance.calibration.read_results import read_results
from planner.performance.machine_by_name import machine_for

MEASURE_INSTEAD = "Check model, GPUs and quantization, or measure varied lengths at 4 concurrencies"


@dataclass(frozen=True)
class CalibratedDeployment:
    profile: Profile
    result: Assessed | None
    """None for a table of highest rates, which is used as it is"""

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def errors(self) -> tuple[ErrorRow, ...]:
        return self.result.errors if self.result else ()

    @property
    def is_used(self) -> bool:
        return self.result is None or self.result.uses_rates or self.result.uses_ttft

    @property
    def prefill_basis(self) -> str:
        """measured (the TTFT of lone requests), fitted (what rates under load leave for it) or predicted"""
        if self.result is None or not self.is_used:
            return "predicted"
        return "measured" if self.result.uses_ttft else "fitted"


@dataclass(frozen=True, repr=False)
class Calibration(Result):
    points: int
    notes: tuple[str, ...]
    """units that were converted, and what else a reader should know of the files"""
    deployments: tuple[CalibratedDeployment, ...]
    profile_text: str

    def as_json(self) -> dict[str, Any]:
        return {
            "points": self.points,
            "notes": list(self.notes),
            "deployments": [
                {
                    "model": d.profile.model,
                    "quantization": d.profile.quantization,
                    "gpu": d.profile.gpu,
                    "gpus_per_replica": d.profile.gpus_per_replica,
                    "parallelism": d.profile.variant.parallelism,
                    "prefill_basis": d.prefill_basis,
                    "uses_rates": d.result is None or d.result.uses_rates,
                    "uses_ttft": d.result is not None and d.result.uses_ttft,
                    "errors": [asdict(row) for row in d.errors],
                }
                for d in self.deployments
            ],
        }


def calibrate(
    results: Sequence[Path],
    *,
    model: str | None = None,
    gpu: str | None = None,
    gpus_per_replica: int | None = None,
    parallelism: Parallelism | None = None,
    quantization: str | None = None,
    catalog: Catalog | None = None,
) -> Calibration:
    """Read result files and make profiles of them; raises InputError for files that cannot be believed."""
    catalog = catalog or shipped_catalog()
    points = read_results(results)
    profiles = make_profiles(
        points, catalog=catalog, model=model, gpu=gpu, gpus_per_replica=gpus_per_replica, parallelism=parallelism,
        quantization=quantization,
    )  # fmt: skip
    notes = dict.fromkeys(f"{p.file}: {text}" for p in points for text in (*p.notes, *_tails_only(p)))
    done = tuple(_calibrated(profile, catalog) for profile in profiles)
    if not any(d.is_used for d in done):
        losing = [Diagnostic(d.name, None, None, "", text, MEASURE_INSTEAD) for d in done for text in _left_out(d)]
        too_few = [Diagnostic(d.name, None, None, "", "these points are not enough", MEASURE_INSTEAD) for d in done]
        raise InputError(losing or too_few)
    doubts = tuple(f"{d.name}: {text}" for d in done for text in (*_left_out(d), *_doubts(d)))
    return Calibration(len(points), (*notes, *doubts), done, profiles_text([d.profile for d in done if d.is_used]))


def _tails_only(point: BenchPoint) -> Iterator[str]:
    names = [name for name, spread in point.latencies.items() if spread.is_tail_only]
    if names:
        yield f"percentiles of {listed(names, 'and')} without a mean or median are not used. {GIVE_MEANS}"


def _calibrated(profile: Profile, catalog: Catalog) -> CalibratedDeployment:
    machine = machine_for(catalog, profile.variant, DEFAULT_ENGINE)
    return CalibratedDeployment(profile, assessed(profile.points, machine) if profile.points else None)


def _left_out(d: CalibratedDeployment) -> Iterator[str]:
    """What is not used because it predicts runs that it was not fitted to worse than the model does."""
    for e in d.errors:
        if e.loses:
            part = "TTFT" if e.metric == "ttft_ms" else "rates and TPOT"
            where = "on runs held out" if e.held_out else "on these very runs"
            errors = f"off by {e.after_mean_ape:.0%} with it, {e.before_mean_ape:.0%} without, {where}"
            yield f"left out for {part}: {e.metric} {errors}"


def _doubts(d: CalibratedDeployment) -> Iterator[str]:
    if d.result is None:
        return
    if d.result.flattered:
        yield (
            "results faster than predicted do not count: requests of one length start and end together, which flatters "
            "a replica; measure lengths that vary (vllm bench serve --random-range-ratio 0.5), or write lengths_vary: "
            "true at the profile's points if they did"
        )
    if d.errors and not any(e.held_out for e in d.errors):
        yield "too few runs to test the calibration: measure at three or more concurrencies"
