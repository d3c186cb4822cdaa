"""A catalog entry from a config.json: as a model, as YAML, and in a file of its own or added to one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from planner.catalog.entries import KINDS, Model, find, shipped_catalog
from planner.catalog.model_config.config import (
    OTHER_PARTS,
    ModelConfig,
    check_published,
    doubts,
    experts_alone,
    experts_in_fp4,
    native_quantization,
)
from planner.catalog.model_config.layers import (
    HIDDEN,
    Attention,
    FeedForward,
    mamba_blocks,
    read_attention,
    read_feed_forward,
    read_mamba_hybrid,
    read_searched,
)
from planner.io.errors import InputError, input_error, shown
from planner.io.strict_yaml import parse_yaml, read_yaml

MOST_LAYERS = 10_000
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")
TIED = {
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma4", "cohere", "cohere2", "bloom", "gpt2", "opt"), True),
    **dict.fromkeys(("llama", "llama4", "mistral", "mistral3", "mixtral", "phi3", "phi", "gptj", "gpt_neox"), False),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gpt_oss", "deepseek_v3", "glm4_moe"), False),
    **dict.fromkeys(("deepseek_v4", "deepseek_ref"), False),
}
"""whether the output layer is the embedding, for kinds of models whose configs leave out what is the default there"""
FAMILIES = {
    "bloom": "bloom", "deepseek_v2": "deepseek", "deepseek_v3": "deepseek", "falcon": "falcon", "gemma2": "gemma",
    "gemma3": "gemma", "gptj": "gpt-j", "gpt_oss": "gpt-oss", "internlm": "internlm", "kimi_k2": "kimi",
    "kimi_k25": "kimi", "llama": "llama", "llama4": "llama-4", "mistral": "mistral", "mistral3": "mistral",
    "mixtral": "mistral", "qwen2": "qwen", "qwen3": "qwen", "qwen3_moe": "qwen", "qwen3_5": "qwen3.5",
    "qwen3_5_moe": "qwen3.5", "minimax_m2": "minimax", "glm_moe_dsa": "glm", "glm4_moe": "glm-4.5",
    "deepseek_v32": "deepseek-v3.2", "gemma4": "gemma-4", "deepseek_ref": "deepseek-v4", "kimi_k3": "kimi-k3",
    "minimax_m3": "minimax-m3", "nemotron_h": "nemotron-h", "glm5_next": "glm-5-next",
}  # fmt: skip
"""families of the catalog, by which it is known what engines run; others keep the name of their kind"""
_STORED_NAME = re.compile(r"(?:models--)?([^/]+?)--([^/]+?)(?:_config)?(?:\.json)?")
_SEEN_ALONE = re.compile(r"config(?:[-_. ]?\d*)?")
LAST = ("source", "date", "notes")


@dataclass(frozen=True)
class ModelEntry:
    key: str
    model: Model
    warnings: tuple[str, ...] = ()


def make_entry(config: ModelConfig, name: str | None = None, published_b: float | None = None) -> ModelEntry:
    """The catalog entry of a model; raises InputError with everything that the config leaves open."""
    name = name or model_name(config)
    attention, ffn = _blocks(config)
    hidden, vocab = config.count(*HIDDEN, example=4096), config.count("vocab_size", "padded_vocab_size", example=128256)
    context = config.count(*CONTEXT, example=131072)
    tied, stored = _tied(config), native_quantization(config, name)
    config.check()
    vocabulary_b = vocab * hidden * (1 if tied else 2) / 1e9
    total_b = (attention.parameters + ffn.parameters) / 1e9 + vocabulary_b
    active_b = total_b - ffn.routed * (1 - ffn.chosen_frac) / 1e9
    check_published(published_b, total_b)
    if "moe" in ffn.fields and stored.startswith("int4") and experts_alone(config):
        ffn.fields["moe"]["quantized_alone"] = True
    if "moe" in ffn.fields and experts_in_fp4(config):
        ffn.fields["moe"] |= {"quantized_alone": True, "other_bits": 8}
    fields: dict[str, Any] = {
        "name": name.rsplit("/", 1)[-1],
        "family": _family(config),
        "parameters_b": round(total_b, 2 if total_b >= 1 else 3),
        "active_parameters_b": round(active_b, 2 if active_b >= 1 else 3),
        "layers": attention.layers, "hidden": hidden, "vocab": vocab, "max_context_tokens": context,
        "native_quantization": stored, "source": _source(config, name, published_b), "date": str(date.today()),
        **attention.fields, **ffn.fields,
    }  # fmt: skip
    if tied:
        fields["tied_embeddings"] = True
    if "/" in name:
        fields |= {"aliases": [name], "checkpoint": name}
    notes = [*config.notes, *_not_counted(config)]
    if notes:
        fields["notes"] = " ".join(dict.fromkeys(notes))
    key = re.sub(r"[^a-z0-9.]+", "-", name.rsplit("/", 1)[-1].lower()).strip("-.")
    if not key:
        raise input_error("--name", f"has no letters or digits: {shown(name)}", "Write --name my-model-7b")
    warnings = doubts(name, total_b, active_b, vocabulary_b) if published_b is None else []
    model = Model.model_validate_json(json.dumps(fields))
    return ModelEntry(key, model, (*warnings, *_known_already(key, name)))


def model_name(config: ModelConfig) -> str:
    """The name of a model: as its config has it, or the name of its file or folder."""
    stated = config.get("_name_or_path")
    if isinstance(stated, str) and "/" in stated and not stated.startswith((".", "/")) and stated.count("/") == 1:
        return stated
    path = Path(config.file).resolve()
    for part in (path.name, *(parent.name for parent in path.parents)):
        if match := _STORED_NAME.fullmatch(part):
            return f"{match[1]}/{match[2]}"
    if not _SEEN_ALONE.fullmatch(path.stem):
        return path.stem.removesuffix("_config")
    raise input_error(config.file, "the model has no name", "Give one with --name, such as --name my-org/my-model-7b")


def _blocks(config: ModelConfig) -> tuple[Attention, FeedForward]:
    blocks = mamba_blocks(config)
    if blocks is not None:
        return read_mamba_hybrid(config, blocks)
    layers = config.count(*LAYERS, example=32, most=MOST_LAYERS)
    if config.get("block_configs"):
        return read_searched(config, layers)
    return read_attention(config, layers), read_feed_forward(config, config.count(*HIDDEN, example=4096), layers)


def _family(config: ModelConfig) -> str:
    kinds = (config.whole_type, config.model_type)
    return next((FAMILIES[kind] for kind in kinds if kind in FAMILIES), config.model_type.replace("_", "-"))


def _tied(config: ModelConfig) -> bool:
    value = config.get("tie_word_embeddings")
    if not isinstance(value, bool):
        value = TIED.get(config.model_type)
        if value is None:
            config.ask("tie_word_embeddings", "false", "whether the output layer is the embedding")
    return bool(value)


def _source(config: ModelConfig, name: str, published_b: float | None) -> str:
    parts = [f"{Path(config.file).name} of {name}"]
    if config.given:
        parts.append("by hand: " + ", ".join(f"{key}={json.dumps(value)}" for key, value in config.given.items()))
    if published_b is not None:
        parts.append(f"{published_b:g}B parameters published")
    return "; ".join(parts)


def _not_counted(config: ModelConfig) -> list[str]:
    notes = []
    if any(config.mapping(part) for part in OTHER_PARTS):
        notes.append("Language model only; the encoder of images or sound is not counted.")
    if config.get("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"):
        notes.append("Without the multi-token-prediction module.")
    return notes


def _known_already(key: str, name: str) -> list[str]:
    known = shipped_catalog().models
    known_key = find(key, known) or find(name, known)
    if known_key is None:
        return []
    if known_key == key:
        return [f"the shipped catalog already has {known_key}; in a demand file this entry overrides it"]
    return [f"the shipped catalog already has it, as {known_key}"]


def entry_text(entry: ModelEntry) -> str:
    """The entry as lines under `models:`."""
    dumped = entry.model.model_dump(mode="json", exclude_none=True)
    dumped |= {key: dumped.pop(key) for key in LAST if key in dumped}
    data = {key: value for key, value in dumped.items() if value != []}
    text = yaml.safe_dump({entry.key: data}, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return "".join(f"  {line}\n" for line in text.splitlines())


def file_text(entry: ModelEntry, out: Path | None, replace: bool = False) -> str:
    """A file with the entry, added to what stands in `out` already; comments there stay."""
    added = entry_text(entry)
    if out is None or not out.is_file():
        return f"# Models of your own: name this file at `catalog:` of a demand file.\nmodels:\n{added}"
    document = read_yaml(out)
    stranger = next((kind for kind in document.data if kind not in KINDS), None)
    if stranger is not None:
        raise input_error(
            out, f"is not a catalog file: it has the key {shown(stranger)}", "Choose another name for --out"
        )
    before = out.read_text(encoding="utf-8-sig")
    models = document.data.get("models") or {}
    if entry.key in models:
        if not replace:
            raise input_error(
                out, f"has an entry {shown(entry.key)} already", "Add --replace, or choose another --name"
            )
        before = _without(before, document.key_marks, entry.key)
    text = _inserted(before, added)
    wanted = document.data | {"models": models | parse_yaml(f"models:\n{added}").data["models"]}
    try:
        if parse_yaml(text).data == wanted:
            return text
    except InputError:
        pass
    remedy = "Write to a new file with --out, and copy the entry from there"
    raise input_error(out, "has a layout to which an entry cannot be added", remedy)


def _inserted(text: str, entry: str) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    at = next((k for k, line in enumerate(lines) if re.match(r"models:\s*(#.*)?$", line)), None)
    if at is None:
        return "".join([*lines, "models:\n", entry])
    return "".join([*lines[: at + 1], entry, *lines[at + 1 :]])


def _without(text: str, key_marks: dict[Any, Any], key: str) -> str:
    """The text without the lines of one model."""
    start = key_marks["models", key].line
    later = sorted(mark.line for path, mark in key_marks.items() if len(path) <= 2 and mark.line > start)
    lines = text.splitlines(keepends=True)
    end = later[0] - 1 if later else len(lines)
    return "".join([*lines[: start - 1], *lines[end:]])
