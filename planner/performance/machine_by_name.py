"""A replica by the names of a command line or a file: model, GPU, quantization and engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.catalog.entries import Catalog, find, names_of
from planner.catalog.names import unknown_model
from planner.io.errors import Diagnostic, InputError, did_you_mean, input_error
from planner.performance.machine import Machine
from planner.performance.memory import kv_room_bytes, weight_bytes


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
            remedy = unknown_model(name, entries) if what == "model" else did_you_mean(name, list(names_of(entries)))
            diagnostics.append(Diagnostic(f"--{what}", None, None, "", f"there is no {what} '{name}'", remedy))
        else:
            found[what] = entries[key]
    if diagnostics:
        raise InputError(diagnostics)
    machine = Machine(found["model"], found["quantization"], found["gpu"], gpus,
                      catalog.efficiency_of(find(gpu, catalog.gpus) or gpu), found["engine"])  # fmt: skip
    lacked = machine.quantization.lacked_by(machine.gpu)
    if lacked:
        raise input_error(
            "--quantization", f"{gpu} has no native {lacked}, which {quantization} needs", "Choose another one"
        )
    if machine.model.query_heads % gpus:
        message = f"{machine.model.query_heads} attention heads do not split over {gpus} GPUs"
        raise input_error("--gpus-per-replica", message, "Use 1, 2, 4 or 8")
    if kv_room_bytes(machine.model, machine.gpu, gpus, machine.quantization) <= 0:
        need = weight_bytes(machine.model, machine.quantization) / 1e9
        message = f"{need:.0f} GB of weights do not fit into {gpus} x {machine.gpu.vram_gb:g} GB"
        raise input_error("--gpus-per-replica", message, "Use more GPUs per replica or a smaller quantization")
    return machine
