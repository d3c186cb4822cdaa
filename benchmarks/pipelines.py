"""Published throughput of pipelines against what plans count on for replicas over several boxes.

    python benchmarks/pipelines.py MEASURED.csv

The rows are those that `fleetplan accuracy` scores, of which those with two stages or more (`pp`) are taken. Stages of
published ones stand in one box: its own links, one way, are those between stages here.
"""

from __future__ import annotations

import sys

import numpy as np

from planner.catalog.entries import shipped_catalog
from planner.performance.accuracy import Scored, score
from planner.performance.closed_loop import closed_loop
from planner.performance.machine import Machine
from planner.performance.memory import Layout


def through_boxes(s: Scored) -> float:
    """Output tokens a second of all stages, as if each were a box."""
    p, catalog = s.point, shipped_catalog()
    key, layout = p.machine_key, p.machine_key.layout
    gpu, boxes = catalog.gpus[key.gpu], layout.stages
    scheme = catalog.quantizations[key.quantization].model_copy(update={"kv_bits": key.kv_bits})
    machine = Machine(
        catalog.models[key.model], scheme, gpu, key.gpus * boxes, catalog.efficiency_of(key.gpu),
        catalog.engines[key.engine], layout=Layout(layout.attention_copies, layout.expert_groups, boxes=boxes),
        link_gb_per_s=gpu.interconnect.gb_per_s / 2,
    )  # fmt: skip
    run = closed_loop(machine, p.concurrency * boxes, p.input_tokens, p.output_tokens)
    return float(run.requests_per_s) * p.output_tokens * p.replicas / boxes


def main(path: str) -> None:
    scored = [
        s for s in score(path).scored if s.point.machine_key.layout.stages > 1 and s.point.metric == "output_tok_s"
    ]
    ratios = np.array([through_boxes(s) / s.point.value for s in scored])
    for s, ratio in zip(scored, ratios.tolist(), strict=True):
        p, key = s.point, s.point.machine_key
        what = f"{key.model} {key.layout.stages} x {key.gpus} {key.gpu}"
        print(f"{what}, {p.input_tokens:.0f} in {p.output_tokens:.0f} out: {p.value:.0f} tok/s, {ratio:.2f} counted on")
    print(f"{len(ratios)} rows: mean error {np.abs(ratios - 1).mean():.1%}, {(ratios < 1).sum()} of them too low")


if __name__ == "__main__":
    main(sys.argv[1])
