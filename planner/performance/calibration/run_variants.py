"""Whose measurement a benchmark run is: the model, GPUs, quantization and parallelism that it was made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from planner.catalog.entries import Catalog, names_of
from planner.catalog.names import checkpoint, find_gpu, find_model, unknown_model
from planner.catalog.variant import PARALLELISMS, TENSOR, Parallelism, Variant
from planner.io.errors import Diagnostic, did_you_mean, listed, shown
from planner.performance.calibration.benchmark_runs import BenchPoint
from planner.performance.machine_by_name import cannot_share
from planner.performance.memory import Layout, parallelism_of

ONE_REPLICA = "Benchmark one replica; a plan multiplies them"
NO_PIPELINES = "Measure tensor parallelism: plans have no pipelines"
ONE_WAY = "Add enable_expert_parallel=true to its metadata if it was on, or give --parallelism"


@dataclass
class RunVariants:
    """The variant of each run; what is given here wins over what files say, and complaints are collected."""

    catalog: Catalog
    options: Mapping[str, str | None]
    gpus: int | None
    parallelism: Parallelism | None
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def variant(self, point: BenchPoint) -> Variant | None:
        if point.model is not None and self.options["model"] is None:
            named, stored = checkpoint(point.model, self.catalog.models, self.catalog.quantizations)
            point = replace(point, model=named or point.model, quantization=point.quantization or stored)
        model = self._named(point, "model", self.catalog.models, "model")
        gpu = self._named(point, "gpu", self.catalog.gpus, "GPU")
        quantization = self._named(point, "quantization", self.catalog.quantizations, "quantization", model)
        gpus = self.gpus if self.gpus is not None else point.gpus_per_replica
        if gpus is None:
            self._ask(point, "GPUs per replica", "--gpus-per-replica 1")
        elif gpus < 1:
            self._complain(point, f"a replica cannot have {gpus} GPUs", "Give --gpus-per-replica 1 or more")
            gpus = None
        if model is None or gpu is None or quantization is None or gpus is None:
            return None
        parallelism = self._parallelism(point, model, gpus)
        if parallelism is None:
            return None
        found = Variant(model, quantization, gpu, gpus, parallelism)
        cannot = cannot_share(found, self.catalog.models[model])
        if cannot:
            self._complain(point, cannot, "Check --gpus-per-replica and --parallelism")
        return None if cannot else found

    def _parallelism(self, point: BenchPoint, model: str, gpus: int) -> Parallelism | None:
        """How the GPUs shared the model: as the option says, the file's words, or its degrees of parallelism."""
        layout, mixture = point.sharing.layout(gpus), self.catalog.models[model].moe is not None
        words = self.parallelism or (point.sharing.parallelism or "").lower()
        if not mixture and layout.attention_copies > 1:
            message = f"was measured on {layout.attention_copies} replicas together: {model} is no mixture of experts"
            self._complain(point, message, ONE_REPLICA)
            return None
        if words:
            found = next((way for way in PARALLELISMS if way == words), None)
            if found is None:
                self._complain(point, f"there is no parallelism {shown(words)}", f"Use {listed(PARALLELISMS)}")
            return found
        if not mixture and layout.stages == 1:
            return TENSOR
        found = parallelism_of(layout, gpus)
        if found is None:
            remedy = NO_PIPELINES if layout.stages > 1 else ONE_WAY
            self._complain(point, f"{_in_degrees(layout)} on {gpus} GPUs: plans know no such mix", remedy)
        return found

    def _complain(self, point: BenchPoint, message: str, remedy: str) -> None:
        self.diagnostics.append(Diagnostic(point.file, point.line, None, "", message, remedy))

    def _named(
        self, point: BenchPoint, name: str, entries: Mapping[str, Any], what: str, model: str | None = None
    ) -> str | None:
        option = self.options[name]
        written = option if option is not None else getattr(point, name)
        if written is None:
            native = self.catalog.models[model].native_quantization if model is not None else None
            self._ask(point, what, f"--{name} {native or 'NAME'}")
            return None
        found = (find_gpu if name == "gpu" else find_model)(written, entries)
        if found is None:
            file, line = (f"--{name}", None) if option is not None else (point.file, point.line)
            message = f"there is no {what} {shown(written, 60)} in the catalog"
            short = written.rsplit("/", 1)[-1]
            known = unknown_model(short, entries) if name == "model" else did_you_mean(short, names_of(entries))
            remedy = known or f"Give --{name} NAME, or add it to a catalog of your own"
            self.diagnostics.append(Diagnostic(file, line, None, "", message, remedy))
        return found

    def _ask(self, point: BenchPoint, what: str, option: str) -> None:
        # The file as a whole lacks it, so a file of a thousand lines asks once.
        asked = Diagnostic(point.file, None, None, "", f"does not say the {what}", f"Give it with {option}")
        if asked not in self.diagnostics:
            self.diagnostics.append(asked)


def _in_degrees(layout: Layout) -> str:
    degrees = [f"{layout.attention_copies} x attention", f"{layout.expert_groups} x experts"]
    return listed([*degrees, *([f"{layout.stages} stages"] if layout.stages > 1 else [])], "and")
