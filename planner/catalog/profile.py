"""The profile file: what was measured of each deployment, as YAML that people can read and write.

    format: fleetplan-profile/1
    profiles:
      - model: llama-3.1-8b
        quantization: fp16
        gpu: h100
        gpus_per_replica: 1
        points:
          - {input_tokens: 1024, output_tokens: 256, concurrency: 8, tpot_ms: 9.1, requests_per_s: 3.1}

In place of `points`, `max_rates` holds requests/s by length inside the user's own SLO, which are used as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import yaml
from pydantic import Field, model_validator

from planner.catalog.variant import TENSOR, Parallelism, Variant
from planner.io.errors import listed
from planner.io.validation import FieldProblem, Strict

PROFILE_FORMAT = "fleetplan-profile/1"
MEASUREMENTS = ("tpot_ms", "ttft_ms", "requests_per_s", "decode_step_ms")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "infinity", "nan"}


class MeasuredPoint(Strict):
    """One benchmark run of one replica; latencies are means."""

    input_tokens: float = Field(gt=0, examples=[1024])
    output_tokens: float = Field(gt=0, examples=[256])
    concurrency: float = Field(gt=0, examples=[8])
    """Requests in flight, at most or on average."""
    offered_per_s: float | None = Field(default=None, gt=0, examples=[6.5])
    """Arrivals, of a run that sent requests at a rate and kept up; absent where each answer starts a request."""
    lengths_vary: bool | None = None
    """Whether answers had different lengths; where absent, a mean that is no whole number says so."""
    tpot_ms: float | None = Field(default=None, gt=0)
    """Between output tokens, the first one left out."""
    ttft_ms: float | None = Field(default=None, gt=0)
    requests_per_s: float | None = Field(default=None, gt=0)
    decode_step_ms: float | None = Field(default=None, gt=0)
    """One step of a static batch, undisturbed by prefills."""
    source: str | None = None
    """The file it comes from."""
    date: str | None = None
    """When it was measured, as YYYY-MM-DD."""

    @model_validator(mode="after")
    def _measures_something(self) -> MeasuredPoint:
        if all(getattr(self, name) is None for name in MEASUREMENTS):
            raise FieldProblem((), "a point must measure something", f"Give {listed(MEASUREMENTS)}")
        return self

    @property
    def run(self) -> tuple[float, float, float]:
        """Points that share this are repetitions of one run."""
        return self.input_tokens, self.output_tokens, self.concurrency


class MaxRate(Strict):
    """The most requests/s of one length that a replica carries inside the SLO."""

    input_tokens: float = Field(gt=0, examples=[1024])
    output_tokens: float = Field(gt=0, examples=[256])
    requests_per_s: float = Field(gt=0, examples=[2.5])


class Profile(Strict):
    """What was measured of one deployment."""

    model: str = Field(min_length=1, examples=["llama-3.1-8b"])
    quantization: str = Field(min_length=1, examples=["fp16"])
    gpu: str = Field(min_length=1, examples=["h100"])
    gpus_per_replica: int = Field(gt=0, examples=[1])
    parallelism: Parallelism | None = None
    """How its GPUs share a mixture of experts; tensor where absent."""
    engine: str | None = None
    source: str | None = None
    """Where a table of max_rates comes from."""
    date: str | None = None
    points: tuple[MeasuredPoint, ...] = ()
    max_rates: tuple[MaxRate, ...] = ()

    @model_validator(mode="after")
    def _has_one_kind(self) -> Profile:
        if bool(self.points) == bool(self.max_rates):
            wrong = "holds both points and max_rates" if self.points else "holds neither points nor max_rates"
            raise FieldProblem((), wrong, "Give one of the two")
        seen: set[tuple[float, float]] = set()
        for k, rate in enumerate(self.max_rates):
            lengths = (rate.input_tokens, rate.output_tokens)
            if lengths in seen:
                raise FieldProblem(("max_rates", k), "these lengths were already given", "Keep one of the two")
            seen.add(lengths)
        return self

    @property
    def variant(self) -> Variant:
        return Variant(self.model, self.quantization, self.gpu, self.gpus_per_replica, self.parallelism or TENSOR)

    @property
    def name(self) -> str:
        return str(self.variant)


class ProfileFile(Strict):
    format: Literal["fleetplan-profile/1"] = Field(examples=[PROFILE_FORMAT])
    profiles: tuple[Profile, ...] = Field(min_length=1)


def find_profile(profiles: Iterable[Profile], variant: Variant) -> Profile | None:
    """The profile of a variant, by catalog keys."""
    return next((profile for profile in profiles if profile.variant == variant), None)


def profiles_text(profiles: Sequence[Profile]) -> str:
    """The YAML file of these profiles; the same profiles give the same bytes, in whichever order they come."""
    lines = ["# Measurements of your own deployments; a plan uses them before its own estimates.", ""]
    lines += [f"format: {PROFILE_FORMAT}", "profiles:"]
    for profile in sorted(profiles, key=lambda p: p.variant):
        head = {k: v for k, v in profile.model_dump(exclude_none=True).items() if k not in ("points", "max_rates")}
        for k, (key, value) in enumerate(head.items()):
            lines.append(f"  {'- ' if k == 0 else '  '}{key}: {_scalar(value)}")
        for key, rows in (("points", profile.points), ("max_rates", profile.max_rates)):
            lines += [f"    {key}:"] if rows else []
            lines += sorted((f"      - {_flow(row.model_dump(exclude_none=True))}" for row in rows), key=_numbers_first)
    return "\n".join(lines) + "\n"


def _numbers_first(line: str) -> tuple[list[float], str]:
    """Sorts lines by the lengths and concurrency at their start, as numbers."""
    return [float(number) for number in re.findall(r": ([-+.e0-9]+)(?=[,}])", line)[:3]], line


def _flow(values: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items()) + "}"


def _scalar(value: object) -> str:
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
            return value
        return yaml.safe_dump(value, default_style='"', width=10**9, allow_unicode=True).rstrip("\n")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)
