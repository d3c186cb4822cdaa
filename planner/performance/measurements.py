"""Measured points from a CSV, each resolved to a machine of the catalog or left out with the reason.

Columns: source, model, gpu, n_gpus, tp, dtype_weights, dtype_kv, engine, input_len, output_len,
batch_or_concurrency, metric, value, notes; where a replica is not tensor parallel throughout, attention_dp (copies of
attention), moe_ep (groups of experts) and pp (pipeline stages), and n_gpus = tp x attention_dp x pp. Rows that name the
GPUs of prefill and decode apart are of disaggregated serving and left out. A run that sent requests at a rate has
request_rate in place of the concurrency, and may have burstiness (squared CV of the gaps), input_p50, input_p95,
output_p50 and output_p95; its metrics may be 95th percentiles.
"""

from __future__ import annotations

import csv
import io
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from planner.catalog.entries import DEFAULT_ENGINE, Catalog, Engine, Gpu, Model, Quantization, find
from planner.io.errors import InputError, input_error
from planner.io.input_files import read_unpacked
from planner.performance.calibration.benchmark_runs import DRAFTS_KEYS, drafts_of
from planner.performance.closed_loop import largest_in_flight
from planner.performance.latency import fastest_prefill_s, fastest_step_s
from planner.performance.length_spread import LengthSpread, least_mean, spread_around
from planner.performance.machine import Machine
from planner.performance.memory import Layout, kv_room_bytes

MOST_BYTES = 300_000_000
METRICS = ("decode_step_ms", "prefill_ms", "ttft_ms", "tpot_ms", "output_tok_s", "req_s")
OPEN_METRICS = ("ttft_ms", "ttft_p95_ms", "tpot_ms", "tpot_p95_ms", "e2e_ms", "e2e_p95_ms")
"""of runs that sent requests at a rate"""
COLUMNS = ("source", "model", "gpu", "tp", "dtype_weights", "input_len", "output_len", "batch_or_concurrency",
           "metric", "value")  # fmt: skip
KV_BITS = {"fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}
DISAGGREGATED = ("prefill_tp", "decode_tp", "prefill_workers", "decode_workers")
"""columns that only replicas with GPUs of their own for prompts have"""
AS_PUBLISHED = "as published"
"""the precision of a row that only names the checkpoint"""
BELIEVABLE_FRAC = 0.9
"""of the shortest possible step: routers that favour some experts and rounded figures get that much"""
NOMINAL_LENGTHS = ("silicon_sample.csv", 0.9)
"""InferenceX, whose runs this collection lists, draws lengths evenly from 0.8 to 1.0 of those it states; the
collection's own runs ("gap-analysis") have the lengths stated"""


class MachineKey(NamedTuple):
    """A replica by the catalog's names."""

    model: str
    quantization: str
    kv_bits: float
    gpu: str
    gpus: int
    engine: str
    layout: Layout


@dataclass(frozen=True)
class Arrivals:
    """Requests that were sent at a rate."""

    requests_per_s: float
    """to one replica"""
    burstiness: float
    prompts: LengthSpread | None
    answers: LengthSpread | None


@dataclass(frozen=True)
class Point:
    """A measurement that the model can be asked about."""

    row: int
    source: str
    gpu: str
    precision: str
    machine_key: MachineKey
    replicas: float
    """that share the load; the stages of a pipeline are each busy with a batch of its own"""
    input_tokens: float
    output_tokens: float
    concurrency: float
    """infinity: as many as the engine admits"""
    metric: str
    value: float
    median: bool = False
    """a median over tokens, which no prefill of another request interrupts, instead of a mean"""
    arrivals: Arrivals | None = None
    """None: a closed loop, in which an answer starts a request"""


class Unscorable(Exception):
    """Why a row is left out."""


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """The rows of a CSV, plain or gzipped; raises InputError where it is none of that kind."""

    def refuse(message: str, remedy: str = "") -> InputError:
        return input_error(path, message, remedy)

    try:
        text = read_unpacked(path, MOST_BYTES, "Score it in parts").decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise refuse(f"has no column {', '.join(missing)}", f"Its columns must be {', '.join(COLUMNS)}")
        return [{name: (value or "").strip() for name, value in row.items() if name} for row in reader]
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, EOFError, zlib.error, csv.Error):
        raise refuse("is not a CSV file", "Give a CSV file, plain or gzipped, in UTF-8") from None


class Resolver:
    """Rows to points; every machine that occurs is built once."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.machines: dict[MachineKey, Machine] = {}

    def point(self, number: int, row: Mapping[str, str]) -> Point:
        if "SUSPECT" in row.get("notes", "").upper():
            raise Unscorable("marked SUSPECT")
        if any(row.get(name) for name in DISAGGREGATED):
            raise Unscorable("disaggregated serving, which is not modelled")
        if any(drafts_of(row.get(name)) for name in DRAFTS_KEYS):
            raise Unscorable("speculative decoding, which is scored apart (benchmarks/speculation_accuracy.py)")
        is_open = bool(row.get("request_rate"))
        if row["metric"] not in (OPEN_METRICS if is_open else METRICS):
            percentile = row["metric"] in OPEN_METRICS
            raise Unscorable("a percentile without a request rate" if percentile else "unknown metric")
        value = _number(row["value"], "no value")
        if value <= 0:
            raise Unscorable("no value")
        model = self._entry("model", row["model"], self.catalog.models)
        gpu = self._entry("GPU", row["gpu"], self.catalog.gpus)
        drawn = _drawn_frac(row)
        prompt = _number(row["input_len"], "no lengths") * drawn
        output = _number(row["output_len"], "no lengths") * drawn
        concurrency = 1.0 if is_open else _concurrency(row["batch_or_concurrency"])
        layout = Layout(*(_degree(row, name) for name in ("attention_dp", "moe_ep", "pp")))
        gpus = _number(row["tp"] or row.get("n_gpus", ""), "no tensor-parallel degree") * layout.attention_copies
        in_all = _number(row.get("n_gpus", "") or row["tp"], "no tensor-parallel degree")
        key = self._machine(model, gpu, row, int(gpus), layout)
        if row["metric"].startswith("tpot") and output < 2:
            raise Unscorable("no second token")
        point = Point(
            row=number, source=row["source"], gpu=gpu, precision=row["dtype_weights"], machine_key=key,
            replicas=max(in_all / gpus, layout.stages), input_tokens=prompt, output_tokens=output,
            concurrency=concurrency, metric=row["metric"], value=value,
            median="p50 per-token" in row.get("notes", ""), arrivals=_arrivals(row, prompt, output, in_all / gpus),
        )  # fmt: skip
        if self._too_fast(point):
            raise Unscorable("faster than the datasheet of the GPUs allows")
        return point

    def _too_fast(self, p: Point) -> bool:
        """Faster than the datasheet: no model of these GPUs can agree, so the row is about something else."""
        machine = self.machines[p.machine_key]
        most = float(largest_in_flight(machine, p.input_tokens, p.output_tokens))
        inside = max(min(p.concurrency, most), 1.0)
        if p.metric.startswith("e2e"):
            return False
        if p.metric in ("prefill_ms", "ttft_ms", "ttft_p95_ms"):
            tokens = p.input_tokens * (inside if p.metric == "prefill_ms" else 1.0)
            return p.value / 1e3 < BELIEVABLE_FRAC * float(fastest_prefill_s(machine, tokens))
        per_step_s = p.value / 1e3
        if p.metric in ("output_tok_s", "req_s"):
            tokens_per_s = p.value * (p.output_tokens if p.metric == "req_s" else 1.0)
            per_step_s = inside * p.replicas / tokens_per_s
        bound_s = float(fastest_step_s(machine, inside, p.input_tokens + p.output_tokens / 2))
        return per_step_s < BELIEVABLE_FRAC * bound_s

    def _entry(self, what: str, name: str, entries: Mapping[str, Model] | Mapping[str, Gpu]) -> str:
        key = find(name, entries)
        if key is None:
            raise Unscorable(f"unknown {what}")
        return key

    def _machine(self, model: str, gpu: str, row: Mapping[str, str], gpus: int, layout: Layout) -> MachineKey:
        quantization = self._quantization(_precision(row), model, gpu)
        scheme = self.catalog.quantizations[quantization]
        engine = engine_named(row.get("engine", ""), self.catalog.engines)
        usual = 8 if scheme.compute in ("fp8", "fp4") and self.catalog.engines[engine].fp8_kv else scheme.kv_bits
        kv_bits = KV_BITS.get(row.get("dtype_kv", "").lower(), usual)
        key = MachineKey(model, quantization, float(kv_bits), gpu, gpus, engine, layout)
        if key not in self.machines:
            self.machines[key] = self._built(key, scheme)
        machine = self.machines[key]
        usable = machine.engine.usable_memory_frac
        if kv_room_bytes(machine.model, machine.gpu, gpus, machine.quantization, usable, layout) <= 0:
            raise Unscorable("weights exceed the memory of the GPUs stated")
        return key

    def _built(self, key: MachineKey, scheme: Quantization) -> Machine:
        catalog = self.catalog
        return Machine(
            catalog.models[key.model], scheme.model_copy(update={"kv_bits": key.kv_bits}), catalog.gpus[key.gpu],
            key.gpus, catalog.efficiency_of(key.gpu), catalog.engines[key.engine], layout=key.layout,
        )  # fmt: skip

    def _quantization(self, dtype: str, model: str, gpu: str) -> str:
        rates = self.catalog.gpus[gpu].dense_tflops
        native = self.catalog.models[model].native_quantization
        if (native == "mxfp4" and dtype.lower() in ("fp4", "fp8")) or dtype == AS_PUBLISHED:
            return native
        if dtype.lower() == "fp4":
            return "nvfp4" if "fp4" in rates else "mxfp4"
        key = find(dtype, self.catalog.quantizations) if dtype else None
        if key is None:
            raise Unscorable("unknown precision")
        needs = self.catalog.quantizations[key].needs
        if needs != "none" and needs not in rates:
            raise Unscorable(f"the GPU has no native {needs}")
        return key


def engine_named(text: str, engines: Mapping[str, Engine]) -> str:
    """The profile whose name or alias is the longest beginning of the text; the default one for strangers."""
    lowered = text.lower()
    names = [(name.lower(), key) for key, e in engines.items() for name in (key, *e.aliases)]
    fitting = [(len(name), key) for name, key in names if lowered.startswith(name)]
    return max(fitting)[1] if fitting else DEFAULT_ENGINE


def _drawn_frac(row: Mapping[str, str]) -> float:
    """How long requests are on average, over the lengths that the row states."""
    collection, frac = NOMINAL_LENGTHS
    own = collection not in row.get("url_or_repo_path", "") or "gap-analysis" in row.get("notes", "")
    return 1.0 if own else frac


def _degree(row: Mapping[str, str], name: str) -> int:
    """A degree of parallelism from its column, else from the notes; 1 where it is not recorded."""
    noted = re.search(rf"\b{name}=(\d+)", row.get("notes", ""))
    text = row.get(name, "") or (noted[1] if noted and name not in row else "1")
    return max(int(_number(text, f"{name} is not a number")), 1)


def _precision(row: Mapping[str, str]) -> str:
    inferred = row["dtype_weights"] == "unknown" and "DTYPE INFERRED from checkpoint" in row.get("notes", "")
    return AS_PUBLISHED if inferred else row["dtype_weights"]


def _number(text: str, reason: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Unscorable(reason) from None
    if not math.isfinite(value):
        raise Unscorable(reason)
    return value


def _arrivals(row: Mapping[str, str], prompt: float, output: float, replicas: float) -> Arrivals | None:
    if not row.get("request_rate"):
        return None
    rate = _number(row["request_rate"], "no request rate")
    burstiness = _number(row.get("burstiness") or "1", "no burstiness")
    if rate <= 0 or burstiness < 0:
        raise Unscorable("no request rate")
    spreads = (_spread(row, "input", prompt), _spread(row, "output", output))
    return Arrivals(rate / max(replicas, 1.0), burstiness, *spreads)


def _spread(row: Mapping[str, str], of: str, mean: float) -> LengthSpread | None:
    p50, p95 = (_number(row[name], "no lengths") if row.get(name) else None for name in (f"{of}_p50", f"{of}_p95"))
    if p95 is None or p95 <= mean:
        return None
    known = p50 is not None and p50 <= p95 and mean >= least_mean(LengthSpread(p50=p50, p95=p95))
    return spread_around(mean, p95, p50 if known else None)


def _concurrency(text: str) -> float:
    if text.lower() == "max":
        return math.inf
    value = _number(text, "no batch or concurrency")
    if value < 1:
        raise Unscorable("no batch or concurrency")
    return value
