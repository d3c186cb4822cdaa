"""What one deployment does: memory, latency and throughput at a concurrency or inside an SLO, and for rows of a CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from planner.catalog.engine_support import Verdict, known_support
from planner.catalog.entries import DEFAULT_ENGINE, Catalog, find, shipped_catalog
from planner.catalog.profile import Profile, find_profile
from planner.catalog.variant import TENSOR, Parallelism, Variant
from planner.io.errors import Diagnostic, InputError, input_error, shown
from planner.io.input_files import read_input
from planner.io.result import Result
from planner.io.units import parse_positive_count
from planner.performance.calibration.correction import UNCORRECTED
from planner.performance.calibration.fitting import correction_of
from planner.performance.calibration.lookup import basis_of
from planner.performance.calibration.profiles import read_profiles
from planner.performance.closed_loop import closed_loop, largest_in_flight
from planner.performance.length_spread import LengthSpread
from planner.performance.machine import Machine
from planner.performance.machine_by_name import machine_for, parallelism_named
from planner.performance.memory import kv_bytes, kv_room_bytes, weight_bytes
from planner.performance.queueing import Loaded, under_load
from planner.performance.speculation import Speculation
from planner.performance.steady_state import Scaling
from planner.performance.throughput import Lengths, Limits, throughput
from problems.staffing import z_of

MOST_POINTS_BYTES = 100_000_000
COLUMNS = ("model", "gpu", "gpus_per_replica", "parallelism", "quantization", "input", "output", "concurrency")
SWEEP = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True)
class Point:
    """One replica with so many requests in flight; latencies are means."""

    concurrency: float
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    output_tok_s: float
    requests_per_s: float


@dataclass(frozen=True)
class InsideSlo:
    """The most that one replica carries inside its objectives."""

    requests_per_s: float
    output_tok_s: float
    in_flight: float
    tpot_ms: float
    """at the objectives' percentile, as is TTFT: of a replica by itself, whose number of requests in flight varies"""
    ttft_ms: float
    bound_by: str
    e2e_ms: float | None = None
    """at the percentile, where it has an objective"""


@dataclass(frozen=True, repr=False)
class Estimate(Result):
    model: str
    gpu: str
    gpus_per_replica: int
    parallelism: Parallelism
    quantization: str
    engine: str
    support: Verdict
    """whether the engine is known to run it"""
    support_reason: str
    input_tokens: float
    output_tokens: float
    basis: str
    """measured, calibrated or estimated"""
    error_frac: float | None
    """mean absolute error of the model on measurements of this GPU and precision"""
    source: str
    weights_gb: float
    kv_room_gb: float
    kv_gb_per_request: float
    largest_batch: int
    at: Point | None
    slo: InsideSlo | None
    loaded: Loaded | None
    """at a rate of arrivals; nothing but the rate in JSON where they pile up"""
    sweep: tuple[Point, ...]
    input_spread: LengthSpread | None = None
    output_spread: LengthSpread | None = None
    """of the answers under load; None: all are taken to be equally long, and so is E2E at its percentile"""

    speculation: str | None = None
    accepted_tokens: float | None = None
    """that a step with its drafts brings; both None without drafts"""

    @property
    def variant(self) -> Variant:
        replica = self.gpu, self.gpus_per_replica, self.parallelism, self.speculation or ""
        return Variant(self.model, self.quantization, *replica)

    def as_json(self) -> dict[str, Any]:
        data = asdict(self)
        for name in ("speculation", "accepted_tokens"):
            if data[name] is None:
                del data[name]
        for name in ("input_spread", "output_spread"):
            spread = getattr(self, name)
            data[name] = None if spread is None else spread.model_dump()
        if self.loaded is not None:
            data["loaded"] = {k: v if np.isfinite(v) else None for k, v in asdict(self.loaded).items()}
        return data


def estimate(
    model: str,
    gpu: str,
    input_tokens: float,
    output_tokens: float,
    *,
    gpus_per_replica: int = 1,
    quantization: str = "fp16",
    parallelism: Parallelism = TENSOR,
    speculation: Speculation | None = None,
    engine: str = DEFAULT_ENGINE,
    concurrency: float | None = None,
    ttft: tuple[float, float] | None = None,
    tpot: tuple[float, float] | None = None,
    e2e: tuple[float, float] | None = None,
    arrival_scv: float = 1.0,
    rate: float | None = None,
    prompts: LengthSpread | None = None,
    answers: LengthSpread | None = None,
    profile: Path | None = None,
    catalog: Catalog | None = None,
) -> Estimate:
    """One deployment; objectives are (seconds, percentile), `rate` is in requests per second.

    `prompts` and `answers` are their spreads, for TTFT and E2E under load; without one, all are equally long. `profile`
    is a file of `fleetplan calibrate`.
    """
    catalog = catalog or shipped_catalog()
    machine = machine_for(catalog, Variant(model, quantization, gpu, gpus_per_replica, parallelism), engine)
    variant = Variant(
        find(model, catalog.models) or model, find(quantization, catalog.quantizations) or quantization,
        find(gpu, catalog.gpus) or gpu, gpus_per_replica, parallelism,
    )  # fmt: skip
    if speculation is not None:
        machine, variant = replace(machine, speculation=speculation), replace(variant, speculation=speculation.key)
    engine = find(engine, catalog.engines) or engine
    support = known_support(engine, variant, machine.model, machine.gpu)
    measured = _measured(profile, catalog, replace(variant, speculation="")) if profile else None
    scaling = correction_of(measured, machine) if measured else UNCORRECTED
    most = int(largest_in_flight(machine, input_tokens, output_tokens))
    asked = points_at(machine, [concurrency], input_tokens, output_tokens, scaling)[0] if concurrency else None
    asks = ttft or tpot or e2e

    def at(requests_per_s: float, percentile: float = 0.95) -> Loaded:
        return under_load(
            machine, input_tokens, output_tokens, requests_per_s, arrival_scv, percentile, scaling, prompts, answers
        )

    slo = _inside(machine, input_tokens, output_tokens, ttft, tpot, e2e, scaling, at) if asks else None
    loaded = at(rate) if rate else None
    sweep = points_at(
        machine, sorted({*(b for b in SWEEP if b <= most), max(most, 1)}), input_tokens, output_tokens, scaling
    )
    return Estimate(
        model=variant.model, gpu=variant.gpu, gpus_per_replica=gpus_per_replica, parallelism=parallelism,
        quantization=variant.quantization, engine=engine, support=support.verdict, support_reason=support.reason,
        input_tokens=input_tokens, output_tokens=output_tokens, speculation=variant.speculation or None,
        accepted_tokens=machine.accepted_tokens if machine.speculation else None,
        basis=basis_of(measured, input_tokens, output_tokens)
        if measured and scaling.corrects_rates and machine.speculation is None else machine.basis,
        error_frac=None if measured else machine.rates.error_frac,
        source=str(profile) if measured else machine.rates.source,
        weights_gb=weight_bytes(machine.model, machine.quantization, machine.layout) / 1e9,
        kv_room_gb=kv_room_bytes(
            machine.model, machine.gpu, gpus_per_replica, machine.quantization, layout=machine.layout
        ) / 1e9,
        kv_gb_per_request=float(kv_bytes(machine.model, machine.quantization, input_tokens + output_tokens)) / 1e9,
        largest_batch=most, at=asked, slo=slo, loaded=loaded, sweep=tuple(sweep) if most else (),
        input_spread=prompts, output_spread=answers,
    )  # fmt: skip


def _measured(path: Path, catalog: Catalog, wanted: Variant) -> Profile:
    """What a profile says of this deployment."""
    profiles = read_profiles(path, catalog)
    found = find_profile(profiles, wanted)
    if found is None:
        held = "; ".join(p.name for p in profiles)
        raise input_error(path, f"has no profile of {wanted}", f"It has {held}")
    if found.max_rates:
        raise input_error(path, "is a table of highest rates, which says nothing of latencies", "Calibrate runs")
    return found


def points_at(
    machine: Machine, concurrency: list[Any], input_tokens: float, output_tokens: float, scaling: Scaling | None = None
) -> list[Point]:
    many = np.array(concurrency, dtype=float)
    done = closed_loop(machine, many, input_tokens, output_tokens, scaling=scaling)
    return [
        Point(
            concurrency=float(c), ttft_ms=1e3 * float(ttft), tpot_ms=1e3 * float(tpot),
            e2e_ms=1e3 * float(ttft + (output_tokens - 1) * tpot), output_tok_s=float(rate * output_tokens),
            requests_per_s=float(rate),
        )
        for c, ttft, tpot, rate in zip(many, done.ttft_s, done.tpot_s, done.requests_per_s, strict=True)
    ]  # fmt: skip


def _inside(
    machine: Machine,
    input_tokens: float,
    output_tokens: float,
    ttft: tuple[float, float] | None,
    tpot: tuple[float, float] | None,
    e2e: tuple[float, float] | None,
    scaling: Scaling | None,
    loaded_at: Callable[[float, float], Loaded],
) -> InsideSlo:
    """The largest rate of a replica by itself at which TTFT, TPOT, E2E and KV memory hold."""
    tpot_s, tpot_percentile = tpot or (np.inf, e2e[1] if e2e else 0.5)
    lengths = Lengths(np.array([input_tokens]), np.array([output_tokens]), np.zeros(1))
    limits = Limits(tpot_s, z_of(tpot_percentile), e2e[0] if e2e else np.inf)
    best = throughput(machine, lengths, limits, scaling)
    rate, bound_by = float(best.requests_per_s[0]), best.bound_by[0]
    percentile = max([limit[1] for limit in (ttft, tpot, e2e) if limit], default=0.95)

    def at(requests_per_s: float) -> Loaded:
        return loaded_at(requests_per_s, percentile)

    def broken(loaded: Loaded) -> str | None:
        kept = {
            "TTFT": ttft is None or loaded.ttft_percentile_s <= ttft[0],
            "TPOT": tpot is None or loaded.tpot_percentile_s <= tpot[0],
            "E2E": e2e is None or loaded.e2e_percentile_s <= e2e[0],
        }
        return next((name for name, holds in kept.items() if not holds), None)

    if rate and broken(at(rate)):
        low, high = 0.0, rate
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if broken(at(middle)) else (middle, high)
        bound_by = broken(at(high)) or bound_by
        rate = low if low > 1e-6 * high else 0.0
    loaded = at(rate) if rate else at(1e-9)
    return InsideSlo(
        rate, rate * output_tokens, loaded.in_flight, 1e3 * loaded.tpot_percentile_s, 1e3 * loaded.ttft_percentile_s,
        bound_by, 1e3 * loaded.e2e_percentile_s if e2e else None,
    )  # fmt: skip


def predict_points(path: Path, catalog: Catalog | None = None) -> list[dict[str, Any]]:
    """Every row of a CSV with its prediction; the last three of COLUMNS and the first two must be there."""
    catalog = catalog or shipped_catalog()
    try:
        text = read_input(path, MOST_POINTS_BYTES, "Predict it in parts").decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise input_error(path, f"cannot be read as CSV: {error}") from None
    found = []
    diagnostics = []
    for line, row in enumerate(rows, start=2):
        try:
            found.append(_predicted(row, catalog))
        except InputError as error:
            diagnostics += [replace(c, file=str(path), line=line, where=c.file.lstrip("-")) for c in error.diagnostics]
        except (KeyError, TypeError, ValueError) as error:
            message = f"{error}" if not isinstance(error, KeyError) else f"has no column {error}"
            diagnostics.append(Diagnostic(str(path), line, None, "", message, f"Columns: {', '.join(COLUMNS)}"))
    if diagnostics or not found:
        raise InputError(diagnostics or [Diagnostic(str(path), None, None, "", "has no rows")])
    return found


def _predicted(row: dict[str, str], catalog: Catalog) -> dict[str, Any]:
    empty = [name for name in ("model", "gpu", "input", "output", "concurrency") if not row[name]]
    if empty:
        raise ValueError(f"needs a value for {', '.join(empty)}")
    gpus, quantization = _whole(row.get("gpus_per_replica") or "1"), row.get("quantization") or "fp16"
    parallelism = parallelism_named(row.get("parallelism") or TENSOR)
    variant = Variant(row["model"], quantization, row["gpu"], gpus, parallelism)
    machine = machine_for(catalog, variant, row.get("engine") or DEFAULT_ENGINE)
    tokens = {name: parse_positive_count(row[name]) for name in ("input", "output", "concurrency")}
    point = points_at(machine, [tokens["concurrency"]], tokens["input"], tokens["output"])[0]
    given = {
        "model": row["model"], "gpu": row["gpu"], "gpus_per_replica": gpus, "parallelism": parallelism,
        "quantization": quantization,
    }  # fmt: skip
    return given | tokens | {k: v for k, v in asdict(point).items() if k != "concurrency"} | {"basis": machine.basis}


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"gpus_per_replica must be a whole number, got {shown(text)}") from None
