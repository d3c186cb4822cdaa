"""The demand file as people write it: workloads, menu, prices, baseline and policy.

Docstrings of fields are what editors show (JSON schema) and what the error messages quote. Reading it into a
Case, with every default said, is planner/loading.py.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from planner.demand_workloads import WorkloadSpec
from planner.units import (
    Count,
    Duration,
    Fraction,
    PositiveCount,
    PositiveWhole,
    PriceChange,
    Usd,
    UsdBare,
    UsdPerHour,
    WholeNumber,
)
from planner.validation import FieldProblem, Strict

MOST_MIN_REPLICAS, MOST_USD_PER_YEAR, MOST_STARTUP_S, MOST_DEPLOYMENTS = 1000, 1e12, 86_400.0, 8
"""beyond these a figure is a slip of the pen, and a fleet for it would not fit into memory"""

PurchaseName = Literal["on-demand", "spot", "reserved-1y", "reserved-3y", "reserved-1y-upfront", "reserved-3y-upfront"]
CacheKind = Literal["prefix", "template", "semantic"]
TenancyName = Literal["dedicated", "shared"]


class MenuSpec(Strict):
    """What the optimizer may choose from."""

    gpus: tuple[str, ...] | None = Field(default=None, min_length=1)
    quantizations: tuple[str, ...] | None = Field(default=None, min_length=1)
    purchase: tuple[PurchaseName, ...] | None = Field(default=None, min_length=1)
    """Ways to buy. A commitment (reserved-1y, reserved-3y, and -upfront of both) outlives the quarter, so list it."""
    providers: tuple[str, ...] | None = Field(default=None, min_length=1)
    regions: tuple[str, ...] | None = Field(default=None, min_length=1)
    apis: tuple[str, ...] | None = None
    """API models that may serve requests, as provider/model. By default the baseline; [] for none."""
    engine: str = "vllm"
    """The serving engine: vllm, sglang, tensorrt-llm or tgi."""
    max_gpus_per_replica: PositiveWhole = 8
    max_deployments: PositiveWhole = 2
    """Most deployments that may serve one workload together, each for the lengths it is good at."""
    caching: tuple[CacheKind, ...] | None = None
    """Caches that may be used, out of prefix, template and semantic. By default all; [] for none."""
    tenancy: tuple[TenancyName, ...] = Field(default=("dedicated", "shared"), min_length=1)
    """Whether workloads that allow it may share replicas: [dedicated] switches sharing off."""
    defer: bool = Field(default=True, examples=[False])
    """Whether work with a deadline may wait for a cheaper hour."""
    api_batch: bool = Field(default=True, examples=[False])
    """Whether work with a deadline may go to an API at its batch price."""

    @model_validator(mode="after")
    def _within_reason(self) -> MenuSpec:
        if self.max_deployments > MOST_DEPLOYMENTS:
            raise FieldProblem(("max_deployments",), f"is above {MOST_DEPLOYMENTS}", "Two or three are enough")
        if "dedicated" not in self.tenancy:
            message = "must have 'dedicated': each workload can be served by itself"
            raise FieldProblem(("tenancy",), message, "Write [dedicated, shared]")
        return self


class UpfrontSpec(Strict):
    """A commitment with a payment when it is signed, for one instance and its whole term."""

    upfront: Usd
    """Paid once, such as $200k."""
    per_hour: UsdPerHour = 0.0
    """Paid besides, for every hour of the term."""

    @model_validator(mode="after")
    def _is_paid(self) -> UpfrontSpec:
        if not self.upfront:
            raise FieldProblem(("upfront",), "must be above $0", "Without a payment up front, use reserved_1y")
        return self


UPFRONT = [{"upfront": "$200k", "per_hour": "$10/h"}]


class PriceSpec(Strict):
    """Your own prices of an instance: per hour for the whole instance, or a change in percent.

    A change of on_demand is on the catalog's price; of spot and reserved, on the on-demand price.
    """

    on_demand: PriceChange | None = None
    spot: PriceChange | None = None
    reserved_1y: PriceChange | None = None
    reserved_3y: PriceChange | None = None
    reserved_1y_upfront: UpfrontSpec | None = Field(default=None, examples=UPFRONT)
    """A year with a payment up front: {upfront: $200k, per_hour: $10/h}."""
    reserved_3y_upfront: UpfrontSpec | None = Field(default=None, examples=UPFRONT)

    @model_validator(mode="after")
    def _above_zero(self) -> PriceSpec:
        for name in ("on_demand", "spot", "reserved_1y", "reserved_3y"):
            price = getattr(self, name)
            if price is not None and price.applied_to(1.0) <= 0:
                raise FieldProblem((name,), "must be above $0 per hour", 'Write a price such as "$0.01/h"')
        return self


class Engineers(Strict):
    count: PositiveCount
    usd_per_year: UsdBare


class TenancySpec(Strict):
    """Rules for workloads that share replicas."""

    max_share: Fraction | None = None
    """Most of a shared pool's load that one workload may be, so that it cannot starve the others."""
    correlation: Count | None = None
    """Between the swings of two workloads around their hourly means, from 0 to 1: 0 is no relation."""
    adapters_per_replica: PositiveWhole | None = Field(default=None, examples=[64])
    """Most LoRA adapters that one replica serves."""

    @model_validator(mode="after")
    def _within_reason(self) -> TenancySpec:
        if self.max_share == 0:
            raise FieldProblem(("max_share",), "leaves nothing to share", "Write a share such as 60%")
        if (self.correlation or 0) > 1:
            raise FieldProblem(("correlation",), "is above 1", "Write a number from 0 to 1")
        return self


class CacheCostSpec(Strict):
    """What caches cost beyond GPU memory."""

    tier_usd_per_month: UsdBare | None = Field(default=None, examples=[100])
    """For each workload with a prefix or template cache: a store that its replicas share."""
    vector_store_usd_per_month: UsdBare | None = Field(default=None, examples=[300])
    """For each workload with a semantic cache."""
    embedding_usd_per_1m_tokens: UsdBare | None = Field(default=None, examples=[0.02])
    """For the prompt of every request of a workload with a semantic cache."""


class PolicySpec(Strict):
    """Limits and costs of running it."""

    budget_usd_per_month: UsdBare | None = None
    max_gpus: dict[str, WholeNumber] = {}
    """Most GPUs of a type at any time."""
    max_instances: dict[str, WholeNumber] = {}
    """Most instances of an offer at any time."""
    max_gpu_types: PositiveWhole | None = Field(default=None, examples=[2])
    """Most kinds of GPU that the team is ready to operate."""
    min_replicas: PositiveWhole | None = None
    """Fewest replicas of a workload while it runs on GPUs."""
    engineers: Engineers | None = None
    """The team that self-hosting needs; nothing if all is bought from an API."""
    startup: Duration | None = None
    """From the order of an instance to a machine that can load a model; it is paid for."""
    tenancy: TenancySpec = TenancySpec()
    cache_costs: CacheCostSpec = CacheCostSpec()

    @model_validator(mode="after")
    def _within_reason(self) -> PolicySpec:
        if (self.min_replicas or 0) > MOST_MIN_REPLICAS:
            raise FieldProblem(("min_replicas",), f"is above {MOST_MIN_REPLICAS}", "Check the number")
        if (self.startup or 0) > MOST_STARTUP_S:
            raise FieldProblem(("startup",), "is above a day", "Check the number and its unit")
        team = self.engineers
        if team and team.count * team.usd_per_year > MOST_USD_PER_YEAR:
            raise FieldProblem(("engineers",), "cost over a trillion dollars a year", "Check the numbers")
        return self


class DemandFile(Strict):
    """A demand file."""

    name: str | None = None
    workloads: tuple[WorkloadSpec, ...] = Field(
        min_length=1,
        max_length=500,
        examples=[[{"name": "support-chat", "models": ["llama-3.1-8b"], "forecast": {"requests_per_day": "400k"}}]],
    )
    menu: MenuSpec = MenuSpec()
    prices: dict[str, PriceSpec] = {}
    catalog: dict[str, dict[str, Any]] | str | None = None
    """Your own entries (gpus, offers, models, quantizations, apis, efficiency, engines, shapes), or their file."""
    profiles: tuple[str, ...] = ()
    """Files written by `fleetplan calibrate`: your own measurements, used before any estimate."""
    baseline: str = Field(examples=["openai/gpt-4o-mini"])
    """The API model to compare with, as provider/model."""
    policy: PolicySpec = PolicySpec()
