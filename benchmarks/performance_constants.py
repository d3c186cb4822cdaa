"""The constants of the performance model as a flat list of parameters with priors, and back to entries.

A prior is a value and how far (as a logarithm) a fit may reasonably move it. Values come from kernel times on
an H200, from datasheets and from how the engines are built; see the sources written beside the constants.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from planner.catalog.entries import Catalog, Efficiency, Engine, MoeKernels, Rates, shipped_catalog, shipped_data

FAMILIES = ("ampere", "ada", "hopper", "turing", "blackwell", "blackwell-rtx")
GPUS = {"a100-80gb": "ampere", "a100-80gb-pcie": "ampere", "h100": "hopper", "h200": "hopper", "l4": "ada",
        "l40s": "ada", "t4": "turing", "b200": "blackwell", "b300": "blackwell", "gb200": "blackwell",
        "rtx-pro-6000-server": "blackwell-rtx"}  # fmt: skip
PRECISIONS = {"ampere": ("fp16", "int8", "w4a16"), "hopper": ("fp16", "fp8", "int8", "w4a16"),
              "ada": ("fp16", "fp8", "int8", "w4a16"), "turing": ("fp16", "int8", "w4a16"),
              "blackwell": ("fp16", "fp8", "fp4", "int8", "w4a16"),
              "blackwell-rtx": ("fp16", "fp8", "fp4", "int8", "w4a16")}  # fmt: skip
LINKS = ("nvlink.ampere", "nvlink.hopper", "nvlink.blackwell", "pcie")
MOST_FRAC = 0.95


@dataclass(frozen=True)
class Prior:
    value: float
    sigma: float
    """standard deviation of the logarithm"""


def _profile(
    aliases: list[str],
    mixes: bool,
    chunk: int,
    most: int,
    usable: float,
    reserved: float,
    fp8_kv: bool = False,
    even_ranks: bool | None = None,
) -> dict[str, Any]:
    """What an engine's documentation says, not fitted."""
    return {
        "aliases": aliases, "mixes_prefill": mixes, "chunk_tokens": chunk, "max_in_flight": most,
        "usable_memory_frac": usable, "reserved_output_frac": reserved, "fp8_kv": fp8_kv,
        "even_ranks": even_ranks,
    }  # fmt: skip


ENGINES: dict[str, dict[str, Any]] = {
    "exllamav2": _profile(["llama.cpp", "ctranslate"], False, 2048, 8, 0.9, 1.0),
    "lmdeploy": _profile(["turbomind"], False, 8192, 128, 0.9, 0.5),
    "sglang": _profile(["sgl"], False, 8192, 1024, 0.88, 0.5),
    "tensorrt-llm": _profile(["trtllm", "trt-llm", "tensorrt_llm"], True, 8192, 2048, 0.97, 1.0, True,
                             even_ranks=True),
    "tensorrt-llm-2024": _profile(["trtllm 0.", "tensorrt-llm 0."], True, 8192, 2048, 0.97, 1.0, True),
    "tgi": _profile(["text-generation-inference"], False, 4096, 256, 0.9, 1.0),
    "transformers": _profile(["autoawq", "huggingface", "hf", "deepspeed"], False, 8192, 64, 0.9, 1.0),
    "vllm": _profile(["vllm v1"], True, 8192, 1024, 0.9, 0.5),
    "vllm-2025": _profile(["vllm 0.9.", "vllm 0.10.", "vllm 0.11.", "vllm-0.9.", "vllm-0.10.", "vllm-0.11."],
                          True, 8192, 4096, 0.9, 0.5),
    "vllm-2023": _profile(["vllm 0.1.", "vllm 0.2.", "vllm 0.3."], False, 32768, 256, 0.9, 0.5),
}  # fmt: skip

ENGINE_PRIORS = {
    "step_overhead_ms": Prior(1.0, 0.6),
    "layer_overhead_factor": Prior(1.0, 0.2),
    "host_layer_us": Prior(0.0, 0.0),
    "sequence_overhead_us": Prior(10.0, 0.7),
    "prefill_overhead_ms": Prior(3.0, 0.7),
    "compute_factor": Prior(1.0, 0.12),
    "weight_read_factor": Prior(1.0, 0.05),
    "kv_read_factor": Prior(1.0, 0.15),
    "interruption_frac": Prior(0.9, 0.3),
    "queue_frac": Prior(0.05, 0.7),
    "queued_steps": Prior(1.5, 1.0),
}
MOE_PRIORS = {"read_factor": Prior(0.75, 0.35), "compute_factor": Prior(0.7, 0.3), "layer_us": Prior(25.0, 0.7)}
MOE_ON = ("default", "blackwell")
"""architectures whose kernels for experts are fitted apart, for each engine"""
BATCHED_PROMPTS = {"interruption_frac": Prior(0.5, 0.3), "queue_frac": Prior(1.5, 0.7)}
"""for engines that prefill first"""
OF_2023 = {"sequence_overhead_us": Prior(150.0, 0.7), "compute_factor": Prior(0.85, 0.12)}
"""scheduling in Python and unfused kernels"""
EAGER = {"vllm-2023": 500.0, "transformers": 600.0, "exllamav2": 150.0}
COMPUTE = {"fp16": 0.65, "fp8": 0.60, "fp4": 0.45, "int8": 0.45, "w4a16": 0.55}
READ = {"fp16": 0.85, "fp8": 0.80, "fp4": 0.70, "int8": 0.80, "w4a16": 0.85}
LAYER_US = {"hopper": 40.0, "ampere": 50.0, "ada": 45.0, "turing": 80.0, "blackwell": 35.0, "blackwell-rtx": 45.0}
HOST = {"ampere": 1.0, "ada": 0.8, "hopper": 0.67, "turing": 1.2, "blackwell": 0.6, "blackwell-rtx": 0.7}
LINK = {"nvlink.ampere": (0.55, 15.0), "nvlink.hopper": (0.55, 10.0), "nvlink.blackwell": (0.5, 8.0),
        "pcie": (0.5, 30.0)}  # fmt: skip


def priors() -> dict[str, Prior]:
    out: dict[str, Prior] = {}
    for family in FAMILIES:
        out[f"{family}/layer_overhead_us"] = Prior(LAYER_US[family], 0.3)
        out[f"{family}/kv_read_frac"] = Prior(0.85, 0.12)
        out[f"{family}/host_factor"] = Prior(HOST[family], 0.15)
        out[f"{family}/attention_frac"] = Prior(0.5, 0.3)
        for precision in PRECISIONS[family]:
            unpacked_slowly = family == "turing" and precision == "w4a16"
            compute = 0.25 if unpacked_slowly else COMPUTE[precision]
            out[f"{family}/{precision}/compute_frac"] = Prior(compute, 0.15)
            out[f"{family}/{precision}/weight_read_frac"] = Prior(READ[precision], 0.1)
    for link in LINKS:
        out[f"{link}/link_frac"] = Prior(LINK[link][0], 0.3)
        out[f"{link}/all_reduce_latency_us"] = Prior(LINK[link][1], 0.3)
    for gpu in GPUS:
        for precision in PRECISIONS[GPUS[gpu]]:
            out[f"{gpu}/{precision}/compute_frac"] = Prior(1.0, 0.06)
            out[f"{gpu}/{precision}/weight_read_frac"] = Prior(1.0, 0.04)
    for engine in ENGINES:
        for name, prior in ENGINE_PRIORS.items():
            if name == "host_layer_us":
                prior = Prior(EAGER.get(engine, 0.0), 0.4 if engine in EAGER else 0.0)
            if engine == "vllm-2023":
                prior = OF_2023.get(name, prior)
            if not ENGINES[engine]["mixes_prefill"]:
                prior = BATCHED_PROMPTS.get(name, prior)
            out[f"engine:{engine}/{name}"] = prior
        for on in MOE_ON:
            out.update({f"engine:{engine}/moe/{on}/{name}": prior for name, prior in MOE_PRIORS.items()})
    return out


def kept_priors() -> dict[str, Prior]:
    """Priors whose constants of dense models before Blackwell are those of planner/data, not to be moved."""
    out, catalog = priors(), shipped_catalog()

    def keep(name: str, value: float) -> None:
        out[name] = Prior(value, 0.0)

    for gpu, family in GPUS.items():
        if family.startswith("blackwell"):
            continue
        eff, first = catalog.efficiency[gpu], catalog.efficiency[next(g for g, f in GPUS.items() if f == family)]
        for name in ("layer_overhead_us", "kv_read_frac", "host_factor", "attention_frac"):
            keep(f"{family}/{name}", getattr(first, name))
        for name in ("link_frac", "all_reduce_latency_us"):
            keep(f"{link_of(gpu, catalog)}/{name}", getattr(eff, name))
        for precision in PRECISIONS[family]:
            for name in ("compute_frac", "weight_read_frac"):
                of_first = getattr(first.rates[precision], name)
                keep(f"{family}/{precision}/{name}", of_first)
                keep(f"{gpu}/{precision}/{name}", getattr(eff.rates[precision], name) / of_first)
    for name in ENGINES:
        for constant in ENGINE_PRIORS if name in catalog.engines else ():
            if not constant.startswith("queue"):
                keep(f"engine:{name}/{constant}", getattr(catalog.engines[name], constant))
    return out


def link_of(gpu: str, catalog: Catalog) -> str:
    card = catalog.gpus[gpu]
    if card.interconnect.kind == "pcie":
        return "pcie"
    return f"nvlink.{card.architecture}"


def efficiency(values: dict[str, float], gpu: str, catalog: Catalog) -> Efficiency:
    family, link = GPUS[gpu], link_of(gpu, catalog)

    def frac(precision: str, name: str) -> float:
        of_family, of_gpu = values[f"{family}/{precision}/{name}"], values[f"{gpu}/{precision}/{name}"]
        return float(min(of_family * of_gpu, MOST_FRAC))

    rates = {
        p: Rates(compute_frac=frac(p, "compute_frac"), weight_read_frac=frac(p, "weight_read_frac"))
        for p in PRECISIONS[family]
    }
    return Efficiency(
        rates=rates,  # type: ignore[arg-type]
        attention_frac=min(values[f"{family}/attention_frac"], MOST_FRAC),
        kv_read_frac=min(values[f"{family}/kv_read_frac"], MOST_FRAC),
        link_frac=min(values[f"{link}/link_frac"], MOST_FRAC),
        all_reduce_latency_us=values[f"{link}/all_reduce_latency_us"],
        layer_overhead_us=values[f"{family}/layer_overhead_us"],
        host_factor=values[f"{family}/host_factor"],
    )


def engine(values: dict[str, float], name: str) -> Engine:
    fitted = {key: values[f"engine:{name}/{key}"] for key in ENGINE_PRIORS}
    fitted["interruption_frac"] = min(fitted["interruption_frac"], 1.0)
    fixed = {**ENGINES[name], "aliases": tuple(ENGINES[name]["aliases"])}
    moe = {on: {k: values[f"engine:{name}/moe/{on}/{k}"] for k in MOE_PRIORS} for on in MOE_ON}
    usual = {f"moe_{k}": v for k, v in moe.pop("default").items()}
    return Engine(**fixed, **fitted, **usual, moe_on={on: MoeKernels(**kernels) for on, kernels in moe.items()})


def facts() -> Catalog:
    """The shipped catalog with the constants at their priors, whatever was fitted before."""
    data = {kind: shipped_data()[kind] for kind in ("gpus", "models", "quantizations")}
    catalog = Catalog.model_validate_json(json.dumps(data))
    values = {name: prior.value for name, prior in priors().items()}
    return catalog.model_copy(
        update={
            "engines": {name: engine(values, name) for name in ENGINES},
            "efficiency": {gpu: efficiency(values, gpu, catalog) for gpu in GPUS},
        }
    )


def touched_by(name: str, gpu: str, family: str, link: str, engine_name: str, moe: bool) -> bool:
    """Whether a parameter has a say in a machine."""
    owner, *rest = name.split("/")
    if owner not in (gpu, family, link, f"engine:{engine_name}"):
        return False
    on = family if family in MOE_ON else "default"
    return rest[0] != "moe" or (moe and rest[1] == on)
