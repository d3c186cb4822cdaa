"""What one deployment does: memory, latency and throughput at a concurrency or inside an SLO, with its sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from planner.catalog.entries import DEFAULT_ENGINE, Catalog, find, names_of, shipped_catalog
from planner.io.errors import Diagnostic, InputError, did_you_mean, input_error
from planner.io.input_files import read_input
from planner.io.units import parse_positive_count
from planner.performance.closed_loop import closed_loop, largest_in_flight
from planner.performance.latency import Machine
from planner.performance.memory import kv_bytes, kv_room_bytes, weight_bytes
from planner.performance.queueing import Loaded, under_load
from planner.performance.throughput import Lengths, Limits, throughput
from problems.staffing import z_of

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
    """at the objective's percentile; the mean where TTFT binds before"""
    ttft_ms: float
    """at the objective's percentile, with the queueing of a replica by itself; without an objective, the mean"""
    bound_by: str


@dataclass(frozen=True)
class Estimate:
    model: str
    gpu: str
    gpus_per_replica: int
    quantization: str
    engine: str
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
    sweep: tuple[Point, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def machine_for(catalog: Catalog, model: str, gpu: str, gpus: int, quantization: str, engine: str) -> Machine:
    """A replica by names; raises InputError for names and combinations that cannot be."""
    found = {}
    diagnostics = []
    wanted: dict[str, tuple[str, Mapping[str, Any]]] = {
        "model": (model, catalog.models), "gpu": (gpu, catalog.gpus),
        "quantization": (quantization, catalog.quantizations), "engine": (engine, catalog.engines),
    }  # fmt: skip
    for what, (name, entries) in wanted.items():
        key = find(name, entries)
        if key is None:
            remedy = did_you_mean(name, list(names_of(entries)))
            diagnostics.append(Diagnostic(f"--{what}", None, None, "", f"there is no {what} '{name}'", remedy))
        else:
            found[what] = entries[key]
    if diagnostics:
        raise InputError(diagnostics)
    machine = Machine(found["model"], found["quantization"], found["gpu"], gpus,
                      catalog.efficiency_of(find(gpu, catalog.gpus) or gpu), found["engine"])  # fmt: skip
    needs = machine.quantization.needs
    if needs != "none" and needs not in machine.gpu.dense_tflops:
        raise input_error(
            "--quantization", f"{gpu} has no native {needs}, which {quantization} needs", "Choose another one"
        )
    if machine.model.query_heads % gpus:
        message = f"{machine.model.query_heads} attention heads do not split over {gpus} GPUs"
        raise input_error("--gpus-per-replica", message, "Use 1, 2, 4 or 8")
    if kv_room_bytes(machine.model, machine.gpu, gpus, machine.quantization) <= 0:
        need = weight_bytes(machine.model, machine.quantization) / 1e9
        message = f"{need:.0f} GB of weights do not fit into {gpus} x {machine.gpu.vram_gb:g} GB"
        raise input_error("--gpus-per-replica", message, "Use more GPUs per replica or a smaller quantization")
    return machine


def estimate(
    model: str,
    gpu: str,
    input_tokens: float,
    output_tokens: float,
    *,
    gpus_per_replica: int = 1,
    quantization: str = "fp16",
    engine: str = DEFAULT_ENGINE,
    concurrency: float | None = None,
    ttft: tuple[float, float] | None = None,
    tpot: tuple[float, float] | None = None,
    e2e: tuple[float, float] | None = None,
    arrival_scv: float = 1.0,
    catalog: Catalog | None = None,
) -> Estimate:
    """One deployment; objectives are (seconds, percentile)."""
    catalog = catalog or shipped_catalog()
    machine = machine_for(catalog, model, gpu, gpus_per_replica, quantization, engine)
    most = int(largest_in_flight(machine, input_tokens, output_tokens))
    asked = _points(machine, [concurrency], input_tokens, output_tokens)[0] if concurrency else None
    slo = _inside(machine, input_tokens, output_tokens, ttft, tpot, e2e, arrival_scv) if ttft or tpot or e2e else None
    sweep = _points(machine, sorted({*(b for b in SWEEP if b <= most), max(most, 1)}), input_tokens, output_tokens)
    return Estimate(
        model=find(model, catalog.models) or model, gpu=find(gpu, catalog.gpus) or gpu,
        gpus_per_replica=gpus_per_replica, quantization=find(quantization, catalog.quantizations) or quantization,
        engine=find(engine, catalog.engines) or engine, input_tokens=input_tokens, output_tokens=output_tokens,
        basis=machine.basis, error_frac=machine.rates.error_frac, source=machine.rates.source,
        weights_gb=weight_bytes(machine.model, machine.quantization) / 1e9,
        kv_room_gb=kv_room_bytes(machine.model, machine.gpu, gpus_per_replica, machine.quantization) / 1e9,
        kv_gb_per_request=float(kv_bytes(machine.model, machine.quantization, input_tokens + output_tokens)) / 1e9,
        largest_batch=most, at=asked, slo=slo, sweep=tuple(sweep) if most else (),
    )  # fmt: skip


def _points(machine: Machine, concurrency: list[Any], input_tokens: float, output_tokens: float) -> list[Point]:
    many = np.array(concurrency, dtype=float)
    done = closed_loop(machine, many, input_tokens, output_tokens)
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
    arrival_scv: float,
) -> InsideSlo:
    """The largest rate whose TPOT, KV memory and, with queueing, TTFT hold."""
    tpot_s, tpot_percentile = tpot or (np.inf, e2e[1] if e2e else 0.5)
    lengths = Lengths(np.array([input_tokens]), np.array([output_tokens]), np.zeros(1))
    best = throughput(machine, lengths, Limits(tpot_s, z_of(tpot_percentile), e2e[0] if e2e else np.inf))
    rate, bound_by = float(best.requests_per_s[0]), best.bound_by[0]
    tpot_ms = 1e3 * float(best.tpot_s[0])
    if ttft is None or not rate:
        in_flight = float(best.in_flight[0])
        ttft_ms = 1e3 * float(closed_loop(machine, max(in_flight, 1.0), input_tokens, output_tokens).ttft_s)
        return InsideSlo(rate, rate * output_tokens, in_flight, tpot_ms, ttft_ms, bound_by)
    ttft_s, percentile = ttft

    def at(requests_per_s: float) -> Loaded:
        return under_load(machine, input_tokens, output_tokens, requests_per_s, arrival_scv, percentile)

    if at(rate).ttft_percentile_s > ttft_s:
        bound_by = "TTFT"
        low, high = 0.0, rate
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if at(middle).ttft_percentile_s <= ttft_s else (low, middle)
        rate = low if low > 1e-6 * high else 0.0
    loaded = at(rate)
    if bound_by == "TTFT":
        tpot_ms = 1e3 * loaded.tpot_s
    return InsideSlo(rate, rate * output_tokens, loaded.in_flight, tpot_ms, 1e3 * loaded.ttft_percentile_s, bound_by)


MOST_POINTS_BYTES = 100_000_000
COLUMNS = ("model", "gpu", "gpus_per_replica", "quantization", "input", "output", "concurrency")


def predict_points(path: Path, catalog: Catalog | None = None) -> list[dict[str, Any]]:
    """Every row of a CSV with its prediction; the last three of COLUMNS and the first two must be there."""
    import csv
    import io

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
    gpus, quantization = int(row.get("gpus_per_replica") or 1), row.get("quantization") or "fp16"
    machine = machine_for(catalog, row["model"], row["gpu"], gpus, quantization, row.get("engine") or DEFAULT_ENGINE)
    tokens = {name: parse_positive_count(row[name]) for name in ("input", "output", "concurrency")}
    point = _points(machine, [tokens["concurrency"]], tokens["input"], tokens["output"])[0]
    given = {"model": row["model"], "gpu": row["gpu"], "gpus_per_replica": gpus, "quantization": quantization}
    return given | tokens | {k: v for k, v in asdict(point).items() if k != "concurrency"} | {"basis": machine.basis}
