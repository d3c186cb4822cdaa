"""A case: everything a plan is made from, resolved to plain numbers and frozen.

It is self-contained (the catalog entries it uses are inside), travels in the plan's JSON, and a what-if is a
changed copy of it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import Field

from planner.catalog import ApiModel, Efficiency, Engine, Gpu, Model, Offer, Quantization
from planner.profiles.schema import Profile
from planner.validation import Strict

CASE_FORMAT = "fleetplan-case/1"


class ModelChoice(Strict):
    model: str
    quality_loss_frac: float = Field(ge=0, le=1)


class Bucket(Strict):
    """Requests of about one length."""

    share_frac: float = Field(gt=0, le=1)
    input_tokens: float = Field(gt=0)
    output_tokens: float = Field(gt=0)


class Objective(Strict):
    """A latency limit and the share of requests it must hold for."""

    seconds: float = Field(gt=0)
    percentile: float = Field(gt=0, lt=1)


class Workload(Strict):
    name: str
    models: tuple[ModelChoice, ...]
    weekday_rps: tuple[float, ...] = Field(min_length=24, max_length=24)
    weekend_rps: tuple[float, ...] = Field(min_length=24, max_length=24)
    growth_per_month_frac: float
    rate_cv: float
    arrival_scv: float
    buckets: tuple[Bucket, ...]
    shared_prefix_tokens: float
    prefix_hit_frac: float
    ttft: Objective
    ttft_prompt_tokens: float = Field(gt=0)
    """length of the prompt at the percentile of the TTFT objective"""
    tpot: Objective
    e2e: Objective | None = None
    """from arrival to the last token; it binds all but the longest answers beyond its percentile"""
    max_quality_loss_frac: float
    critical_share_frac: float
    api_allowed: bool

    def cached_tokens(self, input_tokens: float) -> float:
        """Prompt tokens of a request found in the prefix cache, on average."""
        return self.prefix_hit_frac * min(self.shared_prefix_tokens, input_tokens)


class Limits(Strict):
    budget_usd_per_month: float | None = None
    max_gpus: dict[str, int]
    max_instances: dict[str, int]
    min_replicas: int
    max_gpus_per_replica: int


class Assumption(Strict):
    """A value that nobody gave."""

    key: str
    value: str
    why: str


class Case(Strict):
    format: str = CASE_FORMAT
    name: str
    workloads: tuple[Workload, ...]
    purchase: tuple[str, ...]
    gpus: dict[str, Gpu]
    offers: dict[str, Offer]
    models: dict[str, Model]
    quantizations: dict[str, Quantization]
    efficiency: dict[str, Efficiency]
    engine_name: str
    engine: Engine
    apis: dict[str, ApiModel]
    menu_apis: tuple[str, ...]
    baseline: str
    profiles: tuple[Profile, ...] = ()
    """the user's own measurements of deployments"""
    limits: Limits
    engineers_usd_per_month: float
    assumptions: tuple[Assumption, ...]

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)

    def hash(self) -> str:
        """Same inputs, same hash."""
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def case_from_json(data: dict[str, Any]) -> Case:
    return Case.model_validate_json(json.dumps(data))
