"""One benchmark run as every format tells it, and the means to read it out of loosely kept records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Any

from planner.io.errors import Diagnostic, shown
from planner.performance.memory import Layout

Key = str | tuple[str | int, ...]
"""A key of a record, or the keys and indices that lead to a value inside it."""

TENSOR_KEYS = ("tensor_parallel_size", "tensor_parallel", "tp_size", "tp")
COPIES_KEYS = ("data_parallel_size", "attention_dp", "dp_size", "dp")
GROUPS_KEYS = ("expert_parallel_size", "moe_ep", "ep_size", "ep")
STAGES_KEYS = ("pipeline_parallel_size", "pp_size", "pp")
DRAFTS_KEYS = ("speculation", "speculative_config", "speculative_method", "speculative_algorithm", "spec_method")
"""of a run whose steps verified drafts"""
EXPERTS_KEYS = ("enable_expert_parallel", "enable_ep")
ATTENTION_KEYS = ("enable_dp_attention", "enable_attention_dp", "dp_attention")
"""of SGLang, TensorRT-LLM and InferenceX, whose tensor parallelism then counts all GPUs"""
YES_OR_NO = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
UNKNOWN_WORDS = ("", "unknown", "none", "null", "n/a", "nan")


@dataclass(frozen=True)
class Spread:
    """What a run says of one latency; None where it says nothing."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None

    @property
    def typical(self) -> float | None:
        return self.p50 if self.mean is None else self.mean

    @property
    def tail(self) -> float | None:
        return self.p99 if self.p95 is None else self.p95

    @property
    def is_tail_only(self) -> bool:
        return self.typical is None and self.tail is not None

    def times(self, factor: float) -> Spread:
        scaled = (None if v is None else v * factor for v in (self.mean, self.p50, self.p95, self.p99))
        return Spread(*scaled)


@dataclass(frozen=True)
class Sharing:
    """How the GPUs of a replica shared the model, as the file says it."""

    parallelism: str | None = None
    """in our own words, which win over degrees"""
    attention_copies: int | None = None
    expert_groups: int | None = None
    stages: int | None = None
    whole_experts: bool | None = None
    copies_attention: bool | None = None
    drafts: str | None = None
    """how its tokens were drafted, where they were"""

    def layout(self, gpus: int) -> Layout:
        """What the degrees come to on so many GPUs; everything is split over all of them unless they say otherwise."""
        stages = self.stages or 1
        copies = self.attention_copies or (gpus if self.copies_attention else 1)
        groups = self.expert_groups or (max(gpus // stages, 1) if self.whole_experts else 1)
        return Layout(copies, groups, stages)


@dataclass(frozen=True)
class BenchPoint:
    """One run of a benchmark; names are as the file writes them, latencies in ms."""

    file: str
    input_tokens: float
    """mean per request"""
    output_tokens: float
    """mean per request"""
    line: int | None = None
    engine: str | None = None
    model: str | None = None
    gpu: str | None = None
    gpus_per_replica: int | None = None
    sharing: Sharing = Sharing()
    quantization: str | None = None
    concurrency: float | None = None
    """requests in flight: the most allowed, or their mean; None where unknown"""
    request_rate_per_s: float | None = None
    """arrivals; None where all requests are sent at once or each follows another"""
    requests_per_s: float | None = None
    output_tok_s: float | None = None
    ttft_ms: Spread = Spread()
    tpot_ms: Spread = Spread()
    """between tokens, the first one left out"""
    e2e_ms: Spread = Spread()
    decode_step_ms: float | None = None
    """one step of a static batch, undisturbed by prefills"""
    duration_s: float | None = None
    n_requests: int | None = None
    """all that were sent"""
    failed: int | None = None
    date: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def latencies(self) -> dict[str, Spread]:
        return {"TTFT": self.ttft_ms, "TPOT": self.tpot_ms, "E2E": self.e2e_ms}


@dataclass
class Record:
    """One run inside a file. What cannot be read becomes a complaint, so that all of them are found."""

    data: Mapping[str, Any]
    file: str
    line: int | None = None
    where: str = ""
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def complain(self, message: str, remedy: str = "") -> None:
        self.diagnostics.append(Diagnostic(self.file, self.line, None, self.where, message, remedy))

    def get(self, *keys: Key) -> Any:
        """The first of these that is there and not null."""
        for key in keys:
            value = _at(self.data, key)
            if value is not None:
                return value
        return None

    def text(self, *keys: Key) -> str | None:
        value = self.get(*keys)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value).strip()
            return None if text.lower() in UNKNOWN_WORDS else text
        return None

    def number(self, *keys: Key) -> float | None:
        """A number of 0 or more; text that is a number counts, since some tools write it so."""
        value = self.get(*keys)
        if value is None or (isinstance(value, str) and value.strip().lower() in (*UNKNOWN_WORDS, "inf", "max")):
            return None
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
        except (ValueError, OverflowError):
            number = None
        if number is None:
            self.complain(f"'{_spelled(self._key_present(keys))}' must be a number, got {shown(value)}")
            return None
        if not isfinite(number):
            return None
        if number < 0:
            self.complain(f"'{_spelled(self._key_present(keys))}' cannot be negative, got {shown(value)}")
            return None
        return number

    def positive(self, *keys: Key) -> float | None:
        """A number above 0; tools write 0 for what they did not measure."""
        return self.number(*keys) or None

    def count(self, *keys: Key) -> int | None:
        value = self.number(*keys)
        if value is not None and value != int(value):
            self.complain(f"'{_spelled(self._key_present(keys))}' must be a whole number, got {shown(value)}")
            return None
        return None if value is None else int(value)

    def flag(self, *keys: Key) -> bool | None:
        value = self.get(*keys)
        if value is None or isinstance(value, bool):
            return value
        flag = YES_OR_NO.get(str(value).strip().lower())
        if flag is None:
            self.complain(f"'{_spelled(self._key_present(keys))}' must be true or false, got {shown(value)}")
        return flag

    def needed(self, what: str, value: float | None, remedy: str = "") -> float:
        """The value; its absence is a complaint, and the record is not used."""
        if value is None:
            self.complain(f"says nothing about the {what}", remedy)
            return 1.0
        return value

    def _key_present(self, keys: tuple[Key, ...]) -> Key:
        return next((key for key in keys if _at(self.data, key) is not None), keys[0])


def sharing_of(record: Record, *places: tuple[str, ...]) -> tuple[int | None, Sharing]:
    """GPUs of a replica and how they shared the model, from keys of the run or of some places inside it."""

    def at(*names: str) -> tuple[Key, ...]:
        return tuple((*place, name) for place in places or ((),) for name in names)

    sharing = Sharing(
        record.text(*at("parallelism")), record.count(*at(*COPIES_KEYS)), record.count(*at(*GROUPS_KEYS)),
        record.count(*at(*STAGES_KEYS)), record.flag(*at(*EXPERTS_KEYS)), record.flag(*at(*ATTENTION_KEYS)),
        drafts_of(record.get(*at(*DRAFTS_KEYS))),
    )  # fmt: skip
    given, tensor = record.count(*at("gpus_per_replica")), record.count(*at(*TENSOR_KEYS))
    beside = () if sharing.copies_attention else (sharing.attention_copies, sharing.stages)
    others = prod(n for n in beside if n)
    if given is None and (tensor is not None or others > 1):
        given = others * (1 if tensor is None else tensor)
    return given, sharing


def drafts_of(written: Any) -> str | None:
    """What a run says of its drafts: a method, or a configuration that has one; None where there were none."""
    if isinstance(written, Mapping):
        written = written.get("method") or "drafts"
    text = "" if written is None else str(written).strip()
    return None if text.lower() in (*UNKNOWN_WORDS, "false", "off", "0") else text


def _at(data: Any, key: Key) -> Any:
    for step in key if isinstance(key, tuple) else (key,):
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _spelled(key: Key) -> str:
    return key if isinstance(key, str) else ".".join(map(str, key))


def iso_date(text: object) -> str | None:
    """YYYY-MM-DD out of the ways in which tools write a time."""
    match = re.match(r"(\d{4})-?(\d\d)-?(\d\d)(?!\d)", text) if isinstance(text, str) else None
    return "-".join(match.groups()) if match else None
