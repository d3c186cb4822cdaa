"""From benchmark result files to profiles: what was read, and the model's errors before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from planner.catalog.entries import DEFAULT_ENGINE, Catalog, shipped_catalog
from planner.catalog.profile import Profile, profiles_text
from planner.performance.calibration.correction import correction_of
from planner.performance.calibration.errors import ErrorRow, errors_before_after
from planner.performance.calibration.make_profiles import make_profiles
from planner.performance.calibration.read_results import read_results
from planner.performance.estimate import machine_for

WORSE_FRAC = 0.05
"""by how much a correction may worsen the error on held-out runs before that is said"""


@dataclass(frozen=True)
class CalibratedDeployment:
    profile: Profile
    prefill_basis: str
    """measured, fitted or predicted; a table of highest rates corrects nothing"""
    errors: tuple[ErrorRow, ...]

    @property
    def name(self) -> str:
        p = self.profile
        return f"{p.model} {p.quantization} on {p.gpus_per_replica} x {p.gpu}"


@dataclass(frozen=True)
class Calibration:
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
                    "prefill_basis": d.prefill_basis,
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
    quantization: str | None = None,
    catalog: Catalog | None = None,
) -> Calibration:
    """Read result files and make profiles of them; raises InputError for files that cannot be believed."""
    catalog = catalog or shipped_catalog()
    points = read_results(results)
    profiles = make_profiles(
        points, catalog=catalog, model=model, gpu=gpu, gpus_per_replica=gpus_per_replica, quantization=quantization
    )
    notes = dict.fromkeys(f"{p.file}: {text}" for p in points for text in p.notes)
    done = tuple(_calibrated(profile, catalog) for profile in profiles)
    warnings = tuple(text for deployment in done for text in _doubts(deployment))
    return Calibration(len(points), (*notes, *warnings), done, profiles_text(profiles))


def _doubts(d: CalibratedDeployment) -> list[str]:
    """Runs that predict each other worse than the uncorrected model does are not runs of one deployment."""
    held_out = [e for e in d.errors if e.held_out and e.metric != "ttft_ms"]  # TTFT is scored on the lowest run alone
    worse = [e for e in held_out if e.after_mean_ape > e.before_mean_ape + WORSE_FRAC]
    return [
        f"{d.name}: {e.metric} is off by {e.after_mean_ape:.0%} corrected, {e.before_mean_ape:.0%} uncorrected; "
        "check model, GPU, number of GPUs and quantization of these runs"
        for e in worse
    ]


def _calibrated(profile: Profile, catalog: Catalog) -> CalibratedDeployment:
    p = profile
    machine = machine_for(catalog, p.model, p.gpu, p.gpus_per_replica, p.quantization, DEFAULT_ENGINE)
    basis = correction_of(profile, machine).prefill_basis
    return CalibratedDeployment(profile, basis, tuple(errors_before_after(profile, machine)))
