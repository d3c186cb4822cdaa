"""Write fitted constants as planner/data/efficiency.yaml and engines.yaml, scores into docs/evidence/performance.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from performance_constants import ENGINES, GPUS, MOE_ON, PRECISIONS, efficiency, engine, facts

from planner.catalog.entries import shipped_data
from planner.performance.accuracy import Errors, errors_of
from planner.performance.machine import Machine
from planner.performance.measurements import MachineKey, Point

ROOT = Path(__file__).resolve().parents[1]
DATA, PAGE = ROOT / "planner" / "data", ROOT / "docs" / "evidence" / "performance.md"
BEGIN, END = "<!-- scores: begin -->", "<!-- scores: end -->"
EFFICIENCY_HEAD = """\
# How much of a datasheet figure kernels reach, and their latencies. Written by benchmarks/fit_performance.py.
# rates: by precision (w4a16: 4-bit weights, 16-bit arithmetic). points: measurements on that GPU in that
# precision; error_frac: mean absolute error on them; dense and moe: the same for dense models and mixtures of
# experts. An entry named like an architecture stands in for its other GPUs, and "default" for all the rest: both
# are estimates.
"""
ENGINE_HEAD = """\
# Serving engines as sets of constants. Written by benchmarks/fit_performance.py. The GPU's own constants are
# in efficiency.yaml; factors multiply them. An engine is found by a key or alias that its name begins with.
# moe_on: kernels for experts on GPUs of an architecture where they differ from moe_read_factor and its like.
"""
FEWEST_POINTS = 8
"""below this many measurements the constants are the priors still"""
FITTED = "benchmarks/fit_performance.py on public measurements: {sources}"
PRIORS = "benchmarks/performance_constants.py: kernel times on an H200, datasheets, other GPUs of the family"
A10G_FP16 = {
    "compute_frac": 0.8,
    "weight_read_frac": 0.9,
    "source": "an earlier roofline fit to public A10G measurements, not refitted here; links as on other "
    "PCIe cards, the rest from a100-80gb",
}
METRICS = {"decode_step_ms": "decode step", "tpot_ms": "TPOT", "output_tok_s": "output tokens/s",
           "req_s": "requests/s", "prefill_ms": "prefill", "ttft_ms": "TTFT"}  # fmt: skip

NAMED_ENGINES = ("vllm", "vllm-2025", "sglang", "tensorrt-llm")
"""whose scores stand apart"""
NEWER_SETS = {"mlenergy-v3": "ML.ENERGY", "sglang-cookbook": "SGLang's cookbook"}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return value


class Backed:
    """What the points say about the constants that they touch."""

    def __init__(self, points: Sequence[Point], machines: Mapping[MachineKey, Machine], errors: np.ndarray) -> None:
        self.points, self.machines, self.errors = points, machines, errors
        self.counted = [i for i, p in enumerate(points) if not (p.metric == "ttft_ms" and p.concurrency > 1)]

    def members(self, wanted: Callable[[MachineKey], bool]) -> list[int]:
        return [i for i in self.counted if wanted(self.points[i].machine_key)]

    def is_moe(self, key: MachineKey) -> bool:
        return self.machines[key].model.moe is not None

    def figures(self, members: list[int]) -> dict[str, Any]:
        if not members:
            return {"basis": "estimated", "points": 0}
        basis = "calibrated" if len(members) >= FEWEST_POINTS else "estimated"
        return {"basis": basis, "points": len(members), "error_frac": float(np.abs(self.errors[members]).mean())}

    def stated(self, members: list[int]) -> dict[str, Any]:
        sources = ", ".join(sorted({self.points[i].source for i in members}))
        source = FITTED.format(sources=sources) if members else PRIORS
        return {**self.figures(members), "source": source, "date": date.today().isoformat()}


def write(
    values: dict[str, float],
    points: Sequence[Point],
    machines: Mapping[MachineKey, Machine],
    errors: np.ndarray,
    kept: bool,
    table: str,
) -> None:
    """Constants with what they rest on; `kept` ones of GPUs before Blackwell keep what they state."""
    backed, catalog = Backed(points, machines, errors), facts()
    entries: dict[str, Any] = {}
    for gpu, family in GPUS.items():
        data = efficiency(values, gpu, catalog).model_dump(exclude_none=True, exclude={"source"})
        before = shipped_data()["efficiency"].get(gpu) if kept and not family.startswith("blackwell") else None
        for precision, rates in data["rates"].items():
            here = backed.members(lambda k, g=gpu, p=precision: k.gpu == g and _precision(k, catalog) == p)
            rates.pop("source")
            rates.update(_before(before["rates"][precision]) if before else backed.stated(here))
            for name, moe in (("dense", False), ("moe", True)):
                own = [i for i in here if backed.is_moe(points[i].machine_key) == moe]
                rates[name] = backed.figures(own)
        said = _before(before) if before else backed.stated(backed.members(lambda k, g=gpu: k.gpu == g))
        entries[gpu] = {**data, **{k: v for k, v in said.items() if k in ("source", "date")}}
    for family in PRECISIONS:
        entries[family] = _of_family(entries, family)
    entries["a10g"] = _of_family(entries, "ampere")
    entries["a10g"]["rates"]["fp16"].update(A10G_FP16)
    links = {k: entries["l4"][k] for k in ("link_frac", "all_reduce_latency_us")}
    entries["a10g"].update(links, kv_read_frac=0.8, source=A10G_FP16["source"])
    entries["default"] = _of_family(entries, "hopper")
    _dump("efficiency", EFFICIENCY_HEAD, entries)
    _dump("engines", ENGINE_HEAD, {name: _engine(values, name, backed) for name in ENGINES})
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def _engine(values: dict[str, float], name: str, backed: Backed) -> dict[str, Any]:
    data = engine(values, name).model_dump(exclude_none=True, exclude={"source", "name"})
    data["moe_on"] = {}
    for on in MOE_ON[1:]:
        here = backed.members(lambda k, on=on: k.engine == name and backed.is_moe(k) and GPUS[k.gpu] == on)
        if here:
            kernels = {k: values[f"engine:{name}/moe/{on}/{k}"] for k in ("read_factor", "compute_factor", "layer_us")}
            data["moe_on"][on] = {**kernels, **{k: v for k, v in backed.stated(here).items() if k != "basis"}}
    stated = backed.stated(backed.members(lambda k: k.engine == name))
    return {**data, "aliases": list(ENGINES[name]["aliases"]), **stated}


def _precision(key: MachineKey, catalog: Any) -> str:
    return str(catalog.quantizations[key.quantization].precision)


def _before(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k in ("basis", "points", "error_frac", "source", "date")}


def _of_family(entries: dict[str, Any], family: str) -> dict[str, Any]:
    """The family's constants for a GPU nobody measured: those of the member that was measured most."""
    members = [g for g, f in GPUS.items() if f == family]
    most = max(members, key=lambda g: sum(r["points"] for r in entries[g]["rates"].values()))
    entry = {k: v for k, v in entries[most].items() if k not in ("source", "date")}
    source = {"source": f"constants of {most}, for want of measurements", "date": entries[most]["date"]}
    kept = ("compute_frac", "weight_read_frac")
    estimated = {"basis": "estimated", "points": 0, **source}
    entry["rates"] = {p: {**{k: r[k] for k in kept}, **estimated} for p, r in entry["rates"].items()}
    return {**entry, **source}


def _dump(kind: str, head: str, entries: dict[str, Any]) -> None:
    ordered = {key: _rounded(entries[key]) for key in sorted(entries)}
    text = yaml.safe_dump({kind: ordered}, sort_keys=False, width=110)
    (DATA / f"{kind}.yaml").write_text(head + text, encoding="utf-8")


def score_table(
    points: Sequence[Point], machines: Mapping[MachineKey, Machine], fitted: np.ndarray, left_out: np.ndarray
) -> str:
    """Errors by metric, by kind of model and by class, as Markdown: mean, median, bias, as fitted and left out."""
    lines = ["| class | points | mean | median | bias | left out: mean | median | bias |", "|---" * 8 + "|"]

    def kind(p: Point) -> str:
        return "experts" if machines[p.machine_key].model.moe else "dense"

    for names in (
        _metric_of,
        lambda p: f"{_metric_of(p)}, {_set_of(p)}",
        lambda p: f"{_metric_of(p)}, {kind(p)}",
        lambda p: f"{_metric_of(p)}, {kind(p)}, {_class_of(p)}",
    ):
        members: dict[str, list[int]] = defaultdict(list)
        for i, p in enumerate(points):
            members[names(p)].append(i)
        for name in sorted(members, key=lambda n: ([*METRICS.values()].index(n.split(",")[0]), n)):
            cells = [_cells(errors_of(errors[members[name]].tolist())) for errors in (fitted, left_out)]
            lines.append(f"| {name} | {len(members[name])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(e: Errors) -> str:
    return f"{e.mape:.1%} | {e.median_ape:.1%} | {e.bias:+.1%}"


def _metric_of(p: Point) -> str:
    alone = p.metric in ("prefill_ms", "ttft_ms")
    return METRICS[p.metric] + ((", one request" if p.concurrency == 1 else ", several") if alone else "")


def _set_of(p: Point) -> str:
    return NEWER_SETS.get(p.source, "earlier sets")


def _class_of(p: Point) -> str:
    key = p.machine_key
    gpus = "Blackwell" if GPUS[key.gpu].startswith("blackwell") else "before Blackwell"
    return f"{gpus}, {key.engine if key.engine in NAMED_ENGINES else 'other engines'}"
