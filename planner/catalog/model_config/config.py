"""A config.json as a set of named values, how its weights are stored, and parameter counts that were published.

What is missing is collected, so that all of it is asked for at once."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.catalog.entries import shipped_catalog
from planner.catalog.names import checkpoint
from planner.io.errors import Diagnostic, InputError, Problem, input_error, shown
from planner.io.formatting import counted
from planner.io.input_files import read_input
from planner.io.units import parse_count

MOST_BYTES = 20_000_000
MOST = 10**12
TEXT_PARTS = ("text_config", "llm_config", "language_config")
"""where configs of models that also see or hear keep the language model"""
OTHER_PARTS = ("vision_config", "audio_config")
METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "awq": "int4-awq", "gptq": "int4-gptq"}
ALGORITHMS = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4", "NVFP4_AWQ": "nvfp4"}
"""of checkpoints made by NVIDIA's Model Optimizer"""
TOLERANCE_FRAC = 0.05
_ACTIVE_AND_EXPERTS = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)b-\d+e(?![a-z0-9])")
_ACTIVE = re.compile(r"(?i)[-_]a(\d+(?:\.\d+)?)b(?![a-z0-9])")
_TOTAL = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)([bmt])(?![a-z0-9])")
_UNITS_B = {"m": 1e-3, "b": 1.0, "t": 1e3}


class ModelConfig:
    """Values by their names in the file, those of the language model first, and what is wrong with them."""

    def __init__(self, file: str, data: dict[str, Any], given: dict[str, Any] | None = None) -> None:
        part: dict[str, Any] = next((data[name] for name in TEXT_PARTS if isinstance(data.get(name), dict)), {})
        self.file, self.given = file, given or {}
        self.whole_type = str(data.get("model_type"))
        """the kind of the model with all of its parts"""
        self.values: dict[str, Any] = data | part | self.given
        if data.get("quantization_config") and not part.get("quantization_config"):
            self.values["quantization_config"] = data["quantization_config"]
        self.diagnostics: list[Diagnostic] = []
        self.notes: list[str] = []

    @property
    def model_type(self) -> str:
        """The kind of model, without the suffix of a part."""
        return str(self.get("model_type") or "unknown").removesuffix("_text")

    def get(self, *names: str) -> Any:
        """The first of these values that is there and not null."""
        return next((self.values[name] for name in names if self.values.get(name) is not None), None)

    def count(
        self, *names: str, default: int | None = None, example: int | str = 8, least: int = 1, most: int = MOST
    ) -> int:
        """A whole number under one of its names; asked for by the first where it is missing and has no default."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
            if whole and least <= value <= most:
                return int(value)
            wanted = f"expected a whole number from {least} to {most:,}" if whole else "expected a whole number"
            self.complain(name, f"{wanted}, got {shown(value)}", f"--set {name}={example}")
            return 1
        if default is None:
            self.ask(names[0], example)
            return 1
        return default

    def list_of(self, name: str, length: int | None = None) -> Sequence[Any] | None:
        """A list with a value for each layer; None where there is none."""
        value = self.values.get(name)
        if value is None or value == []:
            return None
        if not isinstance(value, list) or (length is not None and len(value) != length):
            size = counted(len(value), "value") if isinstance(value, list) else shown(value)
            self.complain(name, f"expected a list with a value for each of the {length} layers, got {size}")
            return None
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.values.get(name)
        return value if isinstance(value, dict) else {}

    def ask(self, name: str, example: int | str, why: str = "") -> None:
        """Ask for a value that nothing in the file implies."""
        self.complain(name, f"is missing{', ' + why if why else ''}", f"Give it with --set {name}={example}")

    def complain(self, name: str, message: str, remedy: str = "") -> None:
        if remedy.startswith("--set"):
            remedy = f"Correct the file, or give it with {remedy}"
        self.diagnostics.append(Diagnostic(self.file, None, None, name, message, remedy))

    def check(self) -> None:
        if self.diagnostics:
            raise InputError(self.diagnostics)


def read_config(path: Path, given: dict[str, Any] | None = None) -> ModelConfig:
    """Read a config.json; `given` are values that it leaves open, by their names in it."""
    fix = "Give the config.json of a model on the Hugging Face Hub"
    try:
        text = read_input(path, MOST_BYTES, fix).decode("utf-8-sig")
        data = json.loads(text)
    except FileNotFoundError:
        raise input_error(path, "there is no such file", fix) from None
    except IsADirectoryError:
        raise input_error(path, "this is a directory", "Name the config.json in it") from None
    except json.JSONDecodeError as error:
        raise input_error(path, f"is not JSON: {error.msg}", fix, error.lineno, error.colno) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "it is not JSON text"
        raise input_error(path, f"cannot be read: {reason}", fix) from None
    if not isinstance(data, dict):
        raise input_error(path, f"expected an object with keys, got {shown(data)}", fix)
    return ModelConfig(str(path), data, given)


def parse_given(settings: Sequence[str]) -> dict[str, Any]:
    """Values of the form key=value; a value is JSON where it can be, else text."""
    given = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise input_error("--set", f"expected key=value, got {shown(setting)}", "Write --set num_key_value_heads=8")
        try:
            given[name.strip()] = json.loads(value)
        except ValueError:
            given[name.strip()] = {"True": True, "False": False, "None": None}.get(value, value)
    return given


def native_quantization(config: ModelConfig, name: str) -> str:
    """The quantization of the weights: as given, else as the config states, else as the name ends, else 16 bit."""
    given, known = config.get("native_quantization"), shipped_catalog().quantizations
    if given is not None:
        if given not in known:
            config.complain("native_quantization", f"there is no quantization {shown(given)}",
                            f"Known here: {', '.join(known)}")  # fmt: skip
            return "fp16"
        return str(given)
    stated = config.mapping("quantization_config")
    if not stated:
        stored = checkpoint(name, shipped_catalog().models, known)[1]
        if stored not in (None, "fp16"):
            config.notes.append(f"Its config names no quantization; {stored} is taken from the model's name.")
        return stored or "fp16"
    quantization = _stated_quantization(config, stated)
    if quantization is None:
        method = shown(stated.get("quant_method"))
        config.complain("quantization_config", f"the method {method} is not in the catalog",
                        "Give the nearest with --set native_quantization=int4-gptq")  # fmt: skip
    return quantization or "fp16"


def experts_alone(config: ModelConfig) -> bool:
    """Whether a 4-bit checkpoint keeps attention and shared experts in 16 bit."""
    skipped = config.mapping("quantization_config").get("ignore")
    return isinstance(skipped, list) and any("self_attn" in str(name) for name in skipped)


def experts_in_fp4(config: ModelConfig) -> bool:
    """Whether experts are published in 4 bits beside FP8 (DeepSeek-V4)."""
    stated = str(config.mapping("quantization_config").get("quant_method") or "").lower()
    return stated == "fp8" and config.get("expert_dtype") == "fp4"


def _stated_quantization(config: ModelConfig, stated: dict[str, Any]) -> str | None:
    method = str(stated.get("quant_method") or "").lower()
    if experts_in_fp4(config):
        return "nvfp4" if stated.get("moe_quant_algo") == "NVFP4" else "mxfp4"
    if method == "gptq" and stated.get("bits") not in (None, 4):
        return None
    if method in METHODS:
        return METHODS[method]
    algorithm = stated.get("quant_algo")
    if algorithm == "MIXED_PRECISION":
        config.notes.append("Published in a mix of FP8 and FP4, counted as FP8: its weights are smaller than that.")
        return "fp8"
    if algorithm is not None:
        return ALGORITHMS.get(str(algorithm).upper())
    return _compressed(stated) if method == "compressed-tensors" else None


def _compressed(stated: dict[str, Any]) -> str | None:
    """The first group of a compressed-tensors config."""
    groups = stated.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        return None
    kind, bits = weights.get("type"), weights.get("num_bits")
    if kind == "float" and bits == 4:
        return "nvfp4" if weights.get("group_size") == 16 else "mxfp4"
    if kind == "float" and bits == 8:
        return "fp8"
    return {4: "int4-gptq", 8: "int8"}.get(bits) if kind == "int" and isinstance(bits, int) else None


@dataclass(frozen=True)
class NamedCounts:
    """What a name says, in units of 10^9."""

    total_b: float | None = None
    active_b: float | None = None
    active_step_b: float = 1.0
    """what the last digit of the active count stands for"""


def parse_parameters(value: object) -> float:
    """A number of parameters with its unit, such as "70.6B"."""
    count = parse_count(value)
    if count < 1e6:
        raise Problem(f"expected a number of parameters, got {shown(value)}", 'Write one such as "70.6B" or "1.04T"')
    return count


def named_counts(name: str) -> NamedCounts:
    """ "-70B" is all parameters, "-30B-A3B" all and active ones, "-17B-16E" active ones and experts."""
    name = name.rsplit("/", 1)[-1]
    if match := _ACTIVE_AND_EXPERTS.search(name):
        return NamedCounts(active_b=float(match[1]), active_step_b=_step(match[1]))
    total = _TOTAL.search(name)
    active = _ACTIVE.search(name)
    return NamedCounts(
        float(total[1]) * _UNITS_B[total[2].lower()] if total else None,
        float(active[1]) if active else None,
        _step(active[1]) if active else 1.0,
    )


def doubts(name: str, total_b: float, active_b: float, vocabulary_b: float) -> list[str]:
    """Where the name disagrees with what was computed by more than 5%.

    Published active counts are rounded, and some leave the embedding and the output layer out.
    """
    named = named_counts(name)
    disagreements = []
    if named.total_b is not None and abs(total_b / named.total_b - 1) > TOLERANCE_FRAC:
        disagreements.append(_disagree("parameters", total_b, named.total_b))
    if named.active_b is not None:
        allowed = max(TOLERANCE_FRAC * named.active_b, named.active_step_b / 2)
        if not -allowed <= active_b - named.active_b <= allowed + vocabulary_b:
            disagreements.append(_disagree("active parameters", active_b, named.active_b))
    return disagreements


def check_published(published_b: float | None, total_b: float) -> None:
    """Refuse an entry whose weights are more than 5% off what was published."""
    if published_b is not None and abs(total_b / published_b - 1) > TOLERANCE_FRAC:
        off = f"{total_b / published_b - 1:+.1%} from {published_b:g}B"
        message = f"the shapes in the config add up to {total_b:,.2f}B, {off}"
        raise input_error("--parameters", message, "Check the config, or leave --parameters out to take its count")


def _disagree(what: str, computed_b: float, named_b: float) -> str:
    return f"the name says {named_b:g}B {what}, the shapes in the config add up to {computed_b:,.2f}B: check the config"


def _step(digits: str) -> float:
    return float(10 ** -len(digits.partition(".")[2]))
