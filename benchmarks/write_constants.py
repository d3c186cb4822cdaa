"""Write fitted constants as planner/data/efficiency.yaml and engines.yaml, with where they come from."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from performance_constants import ENGINES, GPUS, PRECISIONS, efficiency, engine, facts

from planner.performance.measurements import Point

DATA = Path(__file__).resolve().parents[1] / "planner" / "data"
EFFICIENCY_HEAD = """\
# How much of a datasheet figure kernels reach, and their latencies. Written by benchmarks/fit_performance.py.
# rates: by precision (w4a16: 4-bit weights, 16-bit arithmetic). points: measurements on that GPU in that
# precision; error_frac: mean absolute error on them. An entry named like an architecture stands in for its
# other GPUs, and "default" for all the rest: both are estimates.
"""
ENGINE_HEAD = """\
# Serving engines as sets of constants. Written by benchmarks/fit_performance.py. The GPU's own constants are
# in efficiency.yaml; factors multiply them. An engine is found by a key or alias that its name begins with.
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


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return value


def _stated(sources: set[str], n: int, error: float | None) -> dict[str, Any]:
    today = date.today().isoformat()
    if not n:
        return {"basis": "estimated", "points": 0, "source": PRIORS, "date": today}
    source = FITTED.format(sources=", ".join(sorted(sources)))
    basis = "calibrated" if n >= FEWEST_POINTS else "estimated"
    return {"basis": basis, "points": n, "error_frac": error, "source": source, "date": today}


def write(values: dict[str, float], points: list[Point], errs: np.ndarray) -> None:
    catalog = facts()
    of_gpu: dict[tuple[str, str], list[int]] = defaultdict(list)
    of_engine: dict[str, list[int]] = defaultdict(list)
    for i, p in enumerate(points):
        if p.metric == "ttft_ms" and p.concurrency > 1:
            continue
        of_gpu[p.gpu, catalog.quantizations[p.machine_key[1]].precision].append(i)
        of_engine[p.machine_key[5]].append(i)

    def stated(members: list[int]) -> dict[str, Any]:
        error = float(np.abs(errs[members]).mean()) if members else None
        return _stated({points[i].source for i in members}, len(members), error)

    entries = {}
    for gpu in GPUS:
        data = efficiency(values, gpu, catalog).model_dump(exclude_none=True, exclude={"source"})
        for precision, rates in data["rates"].items():
            rates.pop("source")
            rates.update(stated(of_gpu[gpu, precision]))
        all_of_gpu = [i for (g, _), members in of_gpu.items() if g == gpu for i in members]
        entries[gpu] = {**data, **{k: v for k, v in stated(all_of_gpu).items() if k in ("source", "date")}}
    for family in PRECISIONS:
        entries[family] = _of_family(entries, family)
    entries["a10g"] = _of_family(entries, "ampere")
    entries["a10g"]["rates"]["fp16"].update(A10G_FP16)
    links = {k: entries["l4"][k] for k in ("link_frac", "all_reduce_latency_us")}
    entries["a10g"].update(links, kv_read_frac=0.8, source=A10G_FP16["source"])
    entries["default"] = _of_family(entries, "hopper")
    engines = {}
    for name in ENGINES:
        data = engine(values, name).model_dump(exclude_none=True, exclude={"source", "name"})
        engines[name] = {**data, "aliases": list(ENGINES[name]["aliases"]), **stated(of_engine[name])}
    _dump("efficiency", EFFICIENCY_HEAD, entries)
    _dump("engines", ENGINE_HEAD, engines)


def _of_family(entries: dict[str, Any], family: str) -> dict[str, Any]:
    """The family's constants for a GPU nobody measured: those of the member that was measured most."""
    members = [g for g, f in GPUS.items() if f == family]
    most = max(members, key=lambda g: sum(r["points"] for r in entries[g]["rates"].values()))
    entry = {k: v for k, v in entries[most].items() if k not in ("source", "date")}
    source = {"source": f"constants of {most}, for want of measurements", "date": date.today().isoformat()}
    kept = ("compute_frac", "weight_read_frac")
    estimated = {"basis": "estimated", "points": 0, **source}
    entry["rates"] = {p: {**{k: r[k] for k in kept}, **estimated} for p, r in entry["rates"].items()}
    return {**entry, **source}


def _dump(kind: str, head: str, entries: dict[str, Any]) -> None:
    ordered = {key: _rounded(entries[key]) for key in sorted(entries)}
    text = yaml.safe_dump({kind: ordered}, sort_keys=False, width=110)
    (DATA / f"{kind}.yaml").write_text(head + text, encoding="utf-8")
