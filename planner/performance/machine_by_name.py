"""A replica by the names of a command line or a file: model, GPU, quantization and engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.catalog.entries import Catalog, Model, find, names_of
from planner.catalog.names import unknown_model
from planner.catalog.variant import PARALLELISMS, TENSOR, Parallelism, Variant
from planner.io.errors import Diagnostic, InputError, did_you_mean, input_error, listed
from planner.performance.machine import Machine
from planner.performance.memory import does_not_split, kv_room_bytes, layout_of, weight_bytes

USUAL_GPUS = (1, 2, 4, 8, 16)


def parallelism_named(text: str) -> Parallelism:
    """A way to share a mixture of experts, as people write it."""
    found = next((way for way in PARALLELISMS if way == text.strip().lower()), None)
    if found is None:
        raise input_error("--parallelism", f"there is no parallelism '{text}'", f"Use {listed(PARALLELISMS)}")
    return found


def machine_for(catalog: Catalog, v: Variant, engine: str) -> Machine:
    """A replica by names; raises InputError for names and combinations that cannot be."""
    found = {}
    diagnostics = []
    wanted: dict[str, tuple[str, Mapping[str, Any]]] = {
        "model": (v.model, catalog.models), "gpu": (v.gpu, catalog.gpus),
        "quantization": (v.quantization, catalog.quantizations), "engine": (engine, catalog.engines),
    }  # fmt: skip
    for what, (name, entries) in wanted.items():
        key = find(name, entries)
        if key is None:
            remedy = unknown_model(name, entries) if what == "model" else did_you_mean(name, list(names_of(entries)))
            diagnostics.append(Diagnostic(f"--{what}", None, None, "", f"there is no {what} '{name}'", remedy))
        else:
            found[what] = entries[key]
    if v.gpus_per_replica < 1:
        message = f"a replica cannot have {v.gpus_per_replica} GPUs"
        diagnostics.append(Diagnostic("--gpus-per-replica", None, None, "", message, "Give 1 or more"))
    if diagnostics:
        raise InputError(diagnostics)
    gpus, layout = v.gpus_per_replica, layout_of(v.parallelism, v.gpus_per_replica)
    efficiency = catalog.efficiency_of(find(v.gpu, catalog.gpus) or v.gpu)
    parts = found["model"], found["quantization"], found["gpu"], gpus, efficiency, found["engine"]
    machine = Machine(*parts, layout=layout)
    lacked = machine.quantization.lacked_by(machine.gpu)
    if lacked:
        raise input_error(
            "--quantization", f"{v.gpu} has no native {lacked}, which {v.quantization} needs", "Choose another one"
        )
    _check_sharing(v, machine.model)
    if kv_room_bytes(machine.model, machine.gpu, gpus, machine.quantization, layout=layout) <= 0:
        need = weight_bytes(machine.model, machine.quantization, layout) / 1e9
        message = f"{need:.0f} GB of weights do not fit into {gpus} x {machine.gpu.vram_gb:g} GB"
        remedy = "Use more GPUs per replica or a smaller quantization" + _as_published(machine, catalog, need)
        if layout.attention_copies > 1:
            message += f", with {layout.attention_copies} copies of attention"
            sliced = kv_room_bytes(machine.model, machine.gpu, gpus, machine.quantization) > 0
            remedy += ", or --parallelism expert" * sliced
        raise input_error("--gpus-per-replica", message, remedy)
    return machine


def _as_published(machine: Machine, catalog: Catalog, need_gb: float) -> str:
    """That its published weights are smaller, where they are."""
    native = machine.model.native_quantization
    stored = catalog.quantizations.get(native)
    if stored is None or stored.lacked_by(machine.gpu):
        return ""
    published_gb = weight_bytes(machine.model, stored, machine.layout) / 1e9
    return f"; it is published in {native}, {published_gb:.0f} GB" if published_gb < need_gb else ""


def cannot_share(v: Variant, model: Model) -> str:
    """Why the GPUs of a variant cannot share the model so; empty if they can."""
    if v.parallelism != TENSOR and model.moe is None:
        return f"{v.model} is not a mixture of experts"
    if v.parallelism != TENSOR and v.gpus_per_replica == 1:
        return f"one GPU has nothing to share by {v.parallelism} parallelism"
    whole = does_not_split(model, v.gpus_per_replica, layout_of(v.parallelism, v.gpus_per_replica))
    return f"{whole} do not split over {v.gpus_per_replica} GPUs" if whole else ""


def _check_sharing(v: Variant, model: Model) -> None:
    why = cannot_share(v, model)
    if why and model.moe is None and v.parallelism != TENSOR:
        raise input_error("--parallelism", why, "Leave it out: its GPUs share it by tensor parallelism")
    if why and v.gpus_per_replica == 1:
        raise input_error("--parallelism", why, "Leave it out, or give --gpus-per-replica 2 or more")
    if why:
        fitting = [n for n in USUAL_GPUS if not cannot_share(replace(v, gpus_per_replica=n), model)]
        raise input_error("--gpus-per-replica", why, f"Use {listed([str(n) for n in fitting])}")
