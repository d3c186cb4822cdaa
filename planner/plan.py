"""The plan: a fleet, what it costs, what is proved about it, and all it was made from. Versioned JSON.

The saved plan is the hub: every other command reads it, the case inside included.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from planner.case import Assumption, Case
from planner.complaints import Complaint, InputError
from planner.validation import Strict

PLAN_FORMAT = "fleetplan-plan/1"
Status = Literal["optimal", "within-gap", "feasible", "interrupted"]


class SlotRecord(Strict):
    label: str
    month: int
    day: str
    hour: int
    hours_per_month: float


class Costs(Strict):
    """USD per month, averaged over the months; they add up to the cost of the plan."""

    reserved_usd_per_month: float
    on_demand_usd_per_month: float
    spot_usd_per_month: float
    api_usd_per_month: float
    engineers_usd_per_month: float

    def total(self) -> float:
        return float(sum(dict(self).values()))


class Baseline(Strict):
    """The same demand bought from the API model named in the demand file."""

    provider: str
    model: str
    cost_usd_per_month: float
    usd_per_1m_tokens: float
    savings_usd_per_month: float
    savings_frac: float
    source: str
    date: str | None = None


class FleetLine(Strict):
    """Instances of one offer bought in one way."""

    offer: str
    gpu: str
    gpus_per_instance: int
    purchase: str
    instances_by_slot: tuple[int, ...]
    usd_per_h: float
    """for one instance"""
    cost_usd_per_month: float
    price_source: str
    price_date: str | None = None
    price_assumption: str | None = None


class DeploymentRecord(Strict):
    """What one replica of a workload is."""

    key: str
    model: str
    quantization: str
    offer: str
    gpu: str
    gpus_per_replica: int
    seconds_per_request: tuple[float, ...]
    """replica-seconds per request [bucket]"""
    requests_in_flight: float
    ttft_ms: float
    """at the objective's percentile, of the longest prompt it binds, in the busiest slot, queueing included"""
    most_load_frac: float
    """mean load of a replica up to which TTFT holds"""
    tpot_ms: float
    """at the objective's percentile, of the slowest bucket"""
    e2e_ms: float | None = None
    """to the last token of the longest answer that the objective binds, where there is one"""
    bound_by: str
    quality_loss_frac: float
    basis: str
    """how far the throughput is backed: measured, interpolated, scaled, calibrated or estimated"""
    error_frac: float
    """how far off it is on average, as far as that is known"""


class ApiFlow(Strict):
    """Requests that go to the API in a slot."""

    slot: int
    requests_per_s: tuple[float, ...]
    """[bucket]"""


class WorkloadPlan(Strict):
    name: str
    deployment: DeploymentRecord | None = None
    quantization: str | None = None
    api: str | None = None
    replicas_by_slot: tuple[int, ...]
    firm_replicas_by_slot: tuple[int, ...]
    api_flows: tuple[ApiFlow, ...]
    requests_per_month: float
    tokens_per_month: float
    api_share_frac: float
    """share of the requests that go to the API"""
    utilization_frac: float | None = None
    """mean load over the replicas that run; instances that are paid for may be emptier"""
    gpu_cost_usd_per_month: float
    api_cost_usd_per_month: float
    cost_usd_per_month: float
    usd_per_1m_tokens: float


class CostRange(Strict):
    """Cost with the same deployments if throughput is off by its own error; None where the limits then cannot hold."""

    low_usd_per_month: float | None = None
    mid_usd_per_month: float
    high_usd_per_month: float | None = None


class OptionRecord(Strict):
    """One way to serve a workload by itself, and what that would cost."""

    workload: str
    option: str
    model: str | None = None
    quantization: str | None = None
    gpu: str | None = None
    gpus_per_replica: int = 0
    offer: str | None = None
    cost_usd_per_month: float | None = None
    """alone, without engineers and limits, at the prices of the menu; None where the menu cannot buy it"""
    peak_replicas: int = 0
    api_share_frac: float = 0.0
    """share of the requests that would go to the API"""
    chosen: bool


class RejectionRecord(Strict):
    workload: str
    candidate: str
    reason: str
    limit: str
    value: str


class Commitment(Strict):
    """What reserved instances still cost after the quarter."""

    offer: str
    term: str
    instances: int
    beyond_horizon_usd: float


class Proof(Strict):
    """What "proved" covers."""

    covers: str
    solver: str
    rounds: int
    columns: int
    servings_left_out: int
    notes: tuple[str, ...]


class Plan(Strict):
    format: str = PLAN_FORMAT
    name: str
    status: Status
    cost_usd_per_month: float = Field(ge=0)
    bound_usd_per_month: float
    gap_frac: float = Field(ge=0)
    usd_per_1m_tokens: float
    tokens_per_month: float
    costs: Costs
    baseline: Baseline
    fleet: tuple[FleetLine, ...]
    workloads: tuple[WorkloadPlan, ...]
    commitments: tuple[Commitment, ...]
    spot_at_p95_usd_per_month: float
    """cost of the same plan if spot stays at the 95th percentile of its price"""
    if_throughput_is_off: CostRange
    options: tuple[OptionRecord, ...]
    rejected: tuple[RejectionRecord, ...]
    slots: tuple[SlotRecord, ...]
    proof: Proof
    assumptions: tuple[Assumption, ...]
    case_hash: str
    case: Case
    fleetplan_version: str

    def as_json(self) -> dict[str, Any]:
        """Every key is always there; what does not apply is null."""
        return self.model_dump(mode="json", exclude={"case"}) | {"case": self.case.as_json()}

    def to_json(self) -> str:
        """The same plan gives the same bytes."""
        return json.dumps(self.as_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plan_from_json(text: str, file: str = "<plan>") -> Plan:
    """Read a saved plan; raises InputError where it is none."""
    try:
        data = json.loads(text)
        found = data.get("format") if isinstance(data, dict) else None
        if found != PLAN_FORMAT:
            raise ValueError(f"expected a plan of format '{PLAN_FORMAT}', got {found!r}")
        return Plan.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError([Complaint(file, None, None, where, first["msg"], "Plan it again")]) from None
    except (ValueError, RecursionError) as error:
        remedy = "Give a file written by 'fleetplan plan --out'"
        raise InputError([Complaint(file, None, None, "", f"not a plan: {error}", remedy)]) from None


def read_plan(path: Path | str) -> Plan:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InputError([Complaint(str(path), None, None, "", f"cannot be read: {reason}")]) from None
    return plan_from_json(text, str(path))
