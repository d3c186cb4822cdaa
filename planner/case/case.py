"""A case: everything a plan is made from, resolved to plain numbers and frozen.

It is self-contained (the catalog entries it uses are inside), travels in the plan's JSON, and a what-if is a
changed copy of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo

from planner.case.controller import Controller
from planner.case.power import CasePower
from planner.catalog.entries import ApiModel, Efficiency, Engine, Gpu, Model, Offer, Quantization, ServiceTier
from planner.catalog.profile import Profile
from planner.catalog.variant import Parallelism
from planner.io import upwards
from planner.io.errors import input_error
from planner.io.named_files import NamedFiles
from planner.io.result import Result
from planner.io.strict_yaml import Document
from planner.io.units import PERIOD_NAMES
from planner.io.validation import Strict
from planner.performance.length_spread import LengthSpread
from planner.performance.sessions import Sessions, ages_of

CASE_FORMAT = "fleetplan-case/2"
API_KEEPS_S = 300.0
"""for which providers keep a prompt that is not used: Anthropic 5 minutes, OpenAI 5 to 10 (their pages on prompt
caching, 2026-11)"""
HOURS_OF_DAYS = 48
"""of a weekday and a weekend day"""
CACHE_KINDS = ("prefix", "template", "semantic", "host", "disk")
KV_TIERS = ("host", "disk")
"""memory besides that of the GPUs in which the KV cache of prompts may wait"""


def kinds_of(option: str) -> frozenset[str]:
    """The kinds of cache of a choice, such as prefix+semantic: how files write it."""
    return frozenset(option.split("+")) - {"none"}


class ModelChoice(Strict):
    model: str
    quality_loss_frac: float = Field(ge=0, le=1)


class Bucket(Strict):
    """Requests of about one length."""

    share_frac: float = Field(gt=0, le=1)
    input_tokens: float = Field(gt=0)
    output_tokens: float = Field(gt=0)


class LatencyTarget(Strict):
    """A latency limit and the share of requests it must hold for."""

    seconds: float = Field(gt=0)
    percentile: float = Field(gt=0, lt=1)


class LengthLimit(Strict):
    """The longest request that a workload lets in, prompt and answer together."""

    tokens: int = Field(gt=0)
    refused_frac: float = Field(ge=0, lt=1)
    """share of the requests that arrive and are longer: refused, and in none of the buckets"""


class ReusePoint(Strict):
    cache_tokens: float = Field(gt=0)
    hit_frac: float = Field(ge=0, lt=1)
    """share of prompt tokens that a cache of this size finds"""


class PrefixReuse(Strict):
    """What one cache that sees all requests finds of their prompts, by its size; blocks used last stay."""

    points: tuple[ReusePoint, ...] = Field(min_length=1)
    """by size"""
    tokens_per_s: float = Field(gt=0)
    """prompt tokens a second of the requests that it was measured on"""

    def found_frac(self, cache_tokens: float) -> float:
        """Between points on a straight line, from nothing on; beyond the last as much as there."""
        sizes, shares = zip(*((p.cache_tokens, p.hit_frac) for p in self.points), strict=True)
        return float(np.interp(cache_tokens, (0.0, *sizes), (0.0, *shares)))


class Accepted(Strict):
    """What a workload accepts of the drafts of a method for a model."""

    model: str
    method: str
    chances: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(min_length=1)
    """that the first draft of a step is accepted, that the first two are, ..."""
    source: str


class Drafter(Strict):
    """What drafts for a model by a method."""

    shape: Model | None = None
    """a head as a model of one layer, or another model; None: drafts are looked up in the prompt"""
    shares_head: bool = False
    """whether its output matrix is the model's own"""
    as_quantized: bool = False
    """whether it comes in the precision of the model; else in 16 bit"""
    checkpoint: str | None = None
    """None: in the model's own weights, or not known"""
    source: str


class Workload(Strict):
    name: str
    models: tuple[ModelChoice, ...]
    weekday_rps: tuple[float, ...] = Field(min_length=24, max_length=24)
    """requests that arrive, those refused for their length included"""
    weekend_rps: tuple[float, ...] = Field(min_length=24, max_length=24)
    team: str | None = None
    """who pays for it; None: nobody said"""
    growth_per_month_frac: float
    month_factors: tuple[float, ...] | None = None
    """times its rates in each month of the case, growth included; None: they grow from month to month"""
    log_days: float | None = Field(default=None, gt=0)
    """of the log that its rates are from; None: they are not from one, or nobody said"""
    rate_cv: float
    arrival_scv: float
    buckets: tuple[Bucket, ...]
    """of the requests that are let in"""
    input_spread: LengthSpread | None = None
    """the distribution that the buckets were cut from; None where the file gives buckets"""
    output_spread: LengthSpread | None = None
    length_cuts: tuple[int, ...] | None = None
    """tokens of a whole request at which the buckets were cut besides: contexts that some requests exceed"""
    length_limit: LengthLimit | None = None
    """None: requests of any length are let in"""
    shared_prefix_tokens: float
    prefix_hit_frac: float
    prefixes: float = Field(default=1.0, ge=1)
    """different prefixes that each replica keeps"""
    prefix_reuse: PrefixReuse | None = None
    """what of prompts is found by the memory of a replica, shared prefixes included; None: only these"""
    sessions: Sessions | None = None
    """turns that come back with all that was said before; None: the fields around this say what is reused"""
    template_tokens: float = Field(default=0.0, ge=0)
    """fixed parts inside the prompts (tools, documents), after the prefix"""
    template_hit_frac: float = Field(default=0.0, ge=0, le=1)
    semantic_hit_frac: float = Field(default=0.0, ge=0, lt=1)
    """share of requests whose answer is found whole"""
    caching: tuple[str, ...] = ("none",)
    """what may be cached, the choices: none, or kinds joined by + in the order of CACHE_KINDS"""
    sharing: bool = False
    """whether it may share replicas with other workloads of the same model"""
    adapter_gb: float | None = Field(default=None, gt=0)
    """its LoRA adapter, where it is a fine-tuned variant of the model"""
    deadline_h: float | None = Field(default=None, gt=0)
    """hours that a request may wait: batch work, which fills troughs"""
    api_wait_h: float = Field(default=0.0, ge=0)
    """hours that an API may take to answer: where that is long enough, its batch price counts"""
    regions: tuple[str, ...] | None = None
    """where its data may go; None: wherever the menu says"""
    providers: tuple[str, ...] | None = None
    shed_usd_per_request: float | None = Field(default=None, gt=0)
    """penalty of turning a request away; None: never. It orders what is shed, and is no part of any cost"""
    ttft: LatencyTarget
    ttft_prompt_tokens: float = Field(gt=0)
    """length of the prompt at the percentile of the TTFT objective"""
    tpot: LatencyTarget
    e2e: LatencyTarget | None = None
    """from arrival to the last token; it binds all but the longest answers beyond its percentile"""
    e2e_per_token: LatencyTarget | None = None
    """from arrival to the last token, over the tokens of the answer; of all requests together"""
    max_quality_loss_frac: float
    quality_benchmark: str | None = None
    """family of benchmarks that the limit is held against; None: the default one"""
    unmeasured_forbidden: bool | None = None
    """whether a loss must have been measured on that family of benchmarks, for a model of the same family"""
    critical_share_frac: float
    api_allowed: bool
    smaller_apis_forbidden: bool | None = None
    """whether no API may answer it that sells a smaller model than it lists first; None: as the limits say"""
    api_tier: ServiceTier | None = None
    """the service tier at which APIs must answer it; None: any that promises enough"""
    baseline: str | None = None
    """the API model that it is compared with; None: that of the case"""
    drafts: tuple[Accepted, ...] | None = None
    """what is known of the drafts that it accepts; None: nothing drafts"""

    @property
    def reuses(self) -> bool:
        """Whether what is found of its prompts hangs on how long a memory keeps them."""
        return self.prefix_reuse is not None or self.sessions is not None

    @property
    def admitted_frac(self) -> float:
        """Share of the requests that arrive which are not refused for their length."""
        return 1 - (self.length_limit.refused_frac if self.length_limit else 0.0)

    def cached_tokens(self, input_tokens: float) -> float:
        """Prompt tokens of a request whose KV is found, on average."""
        prefix = min(self.shared_prefix_tokens, input_tokens)
        template = min(self.template_tokens, input_tokens - prefix)
        return self.prefix_hit_frac * prefix + self.template_hit_frac * template

    def api_cached_tokens(self, input_tokens: float) -> float:
        """Prompt tokens that an API provider has cached, on average: shared prefixes, and sessions that go on."""
        if self.sessions is not None:
            return ages_of(self.sessions, 1).found_frac(API_KEEPS_S) * input_tokens
        return self._shared_tokens(input_tokens)

    def api_written_tokens(self, input_tokens: float) -> float:
        """Prompt tokens that an API provider is asked to keep: what is new in the turns of sessions."""
        return 0.0 if self.sessions is None else input_tokens - self.api_cached_tokens(input_tokens)

    def _shared_tokens(self, input_tokens: float) -> float:
        return self.prefix_hit_frac * min(self.shared_prefix_tokens, input_tokens)

    @property
    def shared_found_frac(self) -> float:
        """Share of the prompt tokens that are found as part of the prefix that requests share."""
        tokens = sum(b.share_frac * b.input_tokens for b in self.buckets)
        return sum(b.share_frac * self._shared_tokens(b.input_tokens) for b in self.buckets) / tokens

    def with_caching(self, option: str) -> Workload:
        """The workload as the GPUs or an API see it when this much is cached and no more."""
        kinds = kinds_of(option)
        missed = 1 - self.semantic_hit_frac if "semantic" in kinds else 1.0
        change: dict[str, Any] = {
            "weekday_rps": tuple(missed * r for r in self.weekday_rps),
            "weekend_rps": tuple(missed * r for r in self.weekend_rps),
            "caching": (option,),
        }
        if "prefix" not in kinds:
            change |= {"shared_prefix_tokens": 0.0, "prefix_hit_frac": 0.0, "prefix_reuse": None, "sessions": None}
        if "template" not in kinds:
            change |= {"template_tokens": 0.0, "template_hit_frac": 0.0}
        return self.model_copy(update=change)


RouterName = Literal["least-requests", "prefix-aware", "round-robin", "random"]
LEAST_REQUESTS: RouterName = "least-requests"
PREFIX_AWARE: RouterName = "prefix-aware"


HOURS_KEPT_FRAC = 0.9
"""share of the hours in which a promise is kept when a plan is served, unless the file says otherwise"""


class Limits(Strict):
    budget_usd_per_month: float | None = None
    budget_usd: float | None = None
    """most that each so many months may cost together, counted from the first day; None: any amount"""
    budget_months: int | None = None
    """3 or 12, where there is such a budget"""
    power_kw: float | None = None
    """most that may be drawn at any time, GPUs in use at the most that they draw; None: any"""
    api_per_minute: dict[str, float] | None = None
    """most that an API takes in the busiest minute of an hour, by API and what is counted (requests, tokens,
    input_tokens, output_tokens), such as "openai/gpt-4.1 tokens"; None: any amount"""
    api_cached_weight: dict[str, float] | None = None
    """input tokens that a cached one counts as there, by API; None: 1"""
    api_minute_peak: dict[str, float] | None = None
    """the busiest minute of an hour over its mean, by API; None: by the variation and burstiness of each workload"""
    max_gpus: dict[str, int]
    max_instances: dict[str, int]
    min_replicas: int
    max_gpus_per_replica: int
    max_gpu_types: int | None = Field(default=None, ge=1)
    """kinds of GPU that the team is ready to operate"""
    max_deployments: int = Field(default=2, ge=1)
    """deployments that may serve one workload together, K"""
    max_boxes_per_replica: dict[str, int] | None = None
    """by model, boxes that a replica may span where one does not hold it; None: one, whatever the model"""
    parallelism: tuple[Parallelism, ...] | None = None
    """ways in which the GPUs of a replica may share a mixture of experts; None: tensor parallelism alone"""
    speculation: tuple[str, ...] | None = None
    """methods by which tokens may be drafted, and none; None: none alone"""
    routing: RouterName = LEAST_REQUESTS
    """which replica of a deployment a request goes to"""
    unproven_forbidden: bool | None = None
    """whether what the engine was never seen to run may not be used; None: not where its loss of quality is borrowed"""
    smaller_apis_forbidden: bool | None = None
    """whether no API may answer a workload that sells a smaller model than it lists first; None: it may"""
    max_vendors: dict[str, int] | None = None
    """providers, regions and APIs that may be in use, by kind (provider, region, api); None: any number"""
    vendor_usd_per_month: dict[str, float] | None = None
    """fixed cost of a vendor in use, by kind and name, such as "region aws us-east-1"; None: nothing"""
    new_api_usd_per_month: float | None = None
    """fixed cost of a provider of APIs that the case does not name; None: nothing"""
    hours_kept_frac: float | None = Field(default=None, ge=0, le=1)
    """share of the hours in which each promise must be kept when the plan is served; None: HOURS_KEPT_FRAC"""
    simpler_within_frac: float | None = Field(default=None, ge=0, le=1)
    """how much of the cost simplicity may take; None: 2%"""
    choose_simplest: bool | None = None
    """whether the simplest plan within that is the plan; None: the cheapest is"""
    spread: bool | None = None
    """whether two replicas or more of a deployment stand on at least two instances; None: they may share one"""

    @property
    def budget_period(self) -> str:
        """What a budget over several months holds for: a quarter or a year."""
        return PERIOD_NAMES[self.budget_months or 1]


class CacheCosts(Strict):
    """What caching costs beyond GPU memory."""

    tier_usd_per_month: float = Field(ge=0)
    """for each workload with a prefix or template cache: the store that replicas share"""
    vector_store_usd_per_month: float = Field(ge=0)
    """for each workload with a semantic cache"""
    embedding_usd_per_1m_tokens: float = Field(ge=0)
    """for the prompt of every request of a workload with a semantic cache"""


class KvDisk(Strict):
    """Local disks of every box, as far as they may keep KV cache: the user's own figures."""

    gb: float = Field(gt=0)
    read_gb_per_s: float = Field(gt=0)
    """of all its GPUs together"""


class Tenancy(Strict):
    """Rules for workloads that share replicas."""

    max_share_frac: float = Field(gt=0, le=1)
    """most of a shared pool's load that one workload may be, so that it cannot starve the others"""
    correlation: float = Field(ge=0, le=1)
    """between the swings of two workloads around their hourly means"""
    adapters_per_replica: int = Field(ge=1)


class LinearTime(Strict):
    """Seconds of something that takes longer with every layer of a model."""

    fixed_s: float = Field(ge=0)
    per_layer_s: float = Field(default=0.0, ge=0)

    def of(self, layers: int) -> float:
        return self.fixed_s + self.per_layer_s * layers


class StartParts(Strict):
    """What a start is made of, but for the weights (planner/case/start_up.py)."""

    node_s: float = Field(ge=0)
    """from the order of an instance to a machine that runs; 0 where one waits"""
    image_s: float = Field(ge=0)
    framework_s: float = Field(ge=0)
    """the engine's own: imports, workers, tokenizer"""
    compile: LinearTime
    graphs: LinearTime
    profiling: LinearTime
    wake_gb_per_s: float | None = Field(default=None, gt=0)
    """of replicas that sleep on their GPUs and are woken in place of all this; None: they do not"""


class ColdStart(Strict):
    """How long capacity takes to start."""

    instance_s: float = Field(ge=0)
    """from the order to a machine that can load weights; it is paid for"""
    weights_gb_per_s: float = Field(gt=0)
    spot_within_s: float = Field(ge=0)
    """a deployment that takes longer is not run on spot, unless none of its load is critical"""
    parts: StartParts | None = None
    """None in a case that knows the time of an instance alone"""


class Assumption(Strict):
    """A value that nobody gave."""

    key: str
    value: str
    why: str


class LoadFactor(Strict):
    """What serving a plan taught about one kind of replica: it carries less than the staffing rule says.

    In mixes and for work that may wait the lowest factor holds in all hours.
    """

    workloads: tuple[str, ...]
    """of the pool"""
    replica: str
    """model/quantization/GPUs x/GPU"""
    factor: float = Field(gt=0, le=1)
    """share of the load of the staffing rule that its replicas carry"""
    hours: tuple[Annotated[int, Field(ge=0, lt=HOURS_OF_DAYS)], ...] | None = Field(default=None, min_length=1)
    """of a weekday (0 to 23) and of a weekend day (24 to 47), in every month; None: all"""


class Month(Strict):
    """A month that a case plans for, where that is not simply the first, the second or the third of a quarter."""

    label: str
    """such as 2027-01, and its scenario where there are several"""
    weight: float = Field(default=1.0, gt=0)
    """how much it counts in means over the months, 1 on average: its probability times their number"""


OWNED = "owned"
"""a box that costs money only while it runs; all other holdings are paid for in any case"""
SAVINGS_PLAN = "savings-plan"
"""instances that a commitment to spend so much an hour pays for, as far as a bill shows it"""


class Holding(Strict):
    """Instances that are there before anything is bought: signed for, reserved, or owned."""

    offer: str
    purchase: str
    """reserved-1y and so on, capacity-reservation, savings-plan, or owned"""
    instances: int = Field(gt=0)
    usd_per_h: float = Field(ge=0)
    """for one instance: as signed, a payment up front spread over the term; of an owned box, while it runs"""
    first_day: date | None = None
    last_day: date | None = None
    """both included; None: before or beyond the horizon"""


Day = date
"""by a name that no field has"""
AllowanceTerm = Literal["hourly", "1mo", "1y", "3y"]


class Allowance(Strict):
    """A commitment paid in every hour that covers usage as it comes: a savings plan, or provisioned units of an API."""

    name: str
    usd_per_h: float = Field(gt=0)
    """of a unit; of a savings plan that is a dollar"""
    rates: dict[str, float] | None = None
    """offer -> what an hour of an instance on demand takes of a savings plan [USD/h]; None: it is none"""
    api: str | None = None
    """whose tokens provisioned units hold"""
    tokens_per_minute: float | None = Field(default=None, gt=0)
    """of a unit"""
    output_weight: float = Field(default=1.0, ge=0)
    cached_weight: float = Field(default=1.0, ge=0)
    """tokens that one of output, or one that the provider has cached, counts as"""
    fewest: float = Field(default=0.0, ge=0)
    """units that are signed at least, where any are"""
    step: float | None = Field(default=None, gt=0)
    """of units beyond these; None: any amount"""
    most: float | None = Field(default=None, ge=0)
    """units that may be signed, or be signed anew when what is held has lapsed; 0: none"""
    held: float = Field(default=0.0, ge=0)
    """units that are signed already, and paid in any case; then no more are signed"""
    last_day: Day | None = None
    """of what is held; None: it outlasts the plan"""
    in_months: tuple[int, ...] | None = None
    """of the case, from 0, in which what is held is there; None: in all"""
    term: AllowanceTerm = "1y"
    source: str
    date: str | None = None
    """of what is published about it"""


class Amendment(Strict):
    """What is no longer as in the case from a quarter on: whole fields of it, each as it is then."""

    from_quarter: int = Field(ge=1)
    """from 0; the first quarter is one plan for all scenarios, so nothing of it is amended"""
    workloads: tuple[Workload, ...] | None = None
    """the same ones in the same order, with the rates of the case"""
    purchase: tuple[str, ...] | None = None
    gpus: dict[str, Gpu] | None = None
    offers: dict[str, Offer] | None = None
    """all of the case and perhaps more: what is signed now stays on the menu"""
    models: dict[str, Model] | None = None
    quantizations: dict[str, Quantization] | None = None
    efficiency: dict[str, Efficiency] | None = None
    engine_name: str | None = None
    engine: Engine | None = None
    apis: dict[str, ApiModel] | None = None
    menu_apis: tuple[str, ...] | None = None
    same_model_apis: tuple[str, ...] | None = None
    limits: Limits | None = None
    cache_costs: CacheCosts | None = None
    tenancy: Tenancy | None = None
    start: ColdStart | None = None
    power: CasePower | None = None
    engineers_usd_per_month: float | None = None


AMENDED = tuple(name for name in Amendment.model_fields if name != "from_quarter")
"""fields of a case that may differ from quarter to quarter"""


class Scenario(Strict):
    """One way that things may go."""

    name: str
    probability_frac: float = Field(gt=0, le=1)
    month_factors: dict[str, tuple[float, ...]]
    """workload -> times its rates in each month of the horizon; 0 before it is launched and after it is retired"""
    amendments: tuple[Amendment, ...] | None = None
    """by quarter; the last one that has begun holds, before the first the case as it is"""


RiskMeasure = Literal["expected", "worst-case"]
"""what is minimized over scenarios: the mean of their costs, or the largest"""


class Future(Strict):
    """Several quarters, or several ways that demand may go: what `plan_horizon` plans for."""

    starts: date
    """the first day of a month"""
    quarters: int = Field(ge=1, le=12)
    scenarios: tuple[Scenario, ...] = Field(min_length=1)
    unused_worth_frac: float | None = Field(default=None, ge=0, le=1)
    """worth of what a term of more than a year has left after the horizon; None: such terms are not bought"""
    max_liability_usd: float | None = Field(default=None, ge=0)
    """most that may be owed after the horizon in terms of more than a year; None: no such limit"""
    risk: RiskMeasure = "expected"


@dataclass(frozen=True, eq=False)
class Origin:
    """The demand file that a case was read from. Cases are equal wherever they come from."""

    document: Document
    default_name: str
    files: NamedFiles

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


T = TypeVar("T")
_READ: dict[tuple[str | None, str], Any] = {}
MOST_READ = 4096


def _read_before(part: T, info: ValidationInfo, name: str = "") -> T:
    """The equal part of a case that was read from JSON before, if there is one: what was worked out of it is known
    (planner/candidates/known_replicas.py). Cases that are not read from JSON share no part with these.
    """
    if info.mode != "json":
        return part
    key = (info.field_name, name)
    before = _READ.get(key)
    if type(before) is type(part) and before == part:
        return before
    if len(_READ) >= MOST_READ:
        _READ.clear()
    _READ[key] = part
    return part


def _each_read_before(parts: dict[str, T], info: ValidationInfo) -> dict[str, T]:
    return {name: _read_before(part, info, name) for name, part in parts.items()}


Known = AfterValidator(_read_before)
KnownByName = AfterValidator(_each_read_before)


class Case(Result, Strict):
    format: str = CASE_FORMAT
    name: str
    workloads: tuple[Workload, ...]
    purchase: tuple[str, ...]
    gpus: Annotated[dict[str, Gpu], KnownByName]
    offers: dict[str, Offer]
    models: Annotated[dict[str, Model], KnownByName]
    quantizations: Annotated[dict[str, Quantization], KnownByName]
    efficiency: Annotated[dict[str, Efficiency], KnownByName]
    engine_name: str
    engine: Annotated[Engine, Known]
    apis: dict[str, ApiModel]
    menu_apis: tuple[str, ...]
    same_model_apis: tuple[str, ...] | None = None
    """those of the menu that answer only workloads which list the very model that they sell; None: none"""
    baseline: str
    compare_with: tuple[str, ...] | None = None
    """more API models whose bills are shown beside the baseline"""
    drafters: dict[str, Drafter] | None = None
    """by model and method; None: nothing drafts"""
    profiles: Annotated[tuple[Profile, ...], Known] = ()
    """the user's own measurements of deployments"""
    limits: Limits
    cache_costs: CacheCosts = CacheCosts(
        tier_usd_per_month=0.0, vector_store_usd_per_month=0.0, embedding_usd_per_1m_tokens=0.0
    )
    kv_disk: KvDisk | None = None
    """None: boxes have no disk for KV cache"""
    tenancy: Tenancy = Tenancy(max_share_frac=1.0, correlation=0.0, adapters_per_replica=64)
    start: ColdStart = ColdStart(instance_s=0.0, weights_gb_per_s=1.0, spot_within_s=300.0)
    autoscaler: Controller | None = None
    """what scales the replicas; None: nobody said"""
    power: CasePower | None = None
    """what is known of power and carbon; None: nothing"""
    engineers_usd_per_month: float
    assumptions: tuple[Assumption, ...]
    time_zone: str | None = None
    """whose hours of the day the rates are; None: UTC, or nobody said"""
    months: tuple[Month, ...] | None = None
    """what is planned for; None: a quarter"""
    starts: date | None = None
    """the first day of what is planned for; None: nobody said"""
    held: tuple[Holding, ...] | None = None
    """what is there before anything is bought: for all of these months, or with a future within their days"""
    allowances: tuple[Allowance, ...] | None = None
    """in the order in which they cover; None: there are none"""
    held_besides_usd_per_month: float | None = Field(default=None, gt=0)
    """what is paid for holdings that are there for a part of the quarter only, and of no use in it"""
    future: Future | None = None
    """the quarters and scenarios of a whole horizon; None: this case is one quarter, as it is forecast"""
    load_factors: tuple[LoadFactor, ...] | None = None
    """where plans of this case were served and missed a promise"""
    _origin: Origin | None = PrivateAttr(None)
    """None where it comes from a plan"""

    def with_origin(self, origin: Origin) -> Case:
        """The same case, which knows its demand file and so can be changed by the paths of that file."""
        case = self.model_copy()
        case._origin = origin
        return case

    @property
    def origin(self) -> Origin:
        """Raises InputError where the case does not come from a demand file."""
        if self._origin is None:
            remedy = "Read the demand file: planner.load_case(FILE)"
            raise input_error(self.name, "comes from a saved plan, which does not hold the demand file", remedy)
        return self._origin

    def with_changes(self, changes: Mapping[str, object]) -> Case:
        """A new case with other values of inputs, by the paths and in the syntax of `fleetplan what-if --set`.

        As in {"workloads.chat.forecast.requests_per_day": "900k", "prices.h100.on_demand": "-20%"}. Raises InputError
        for a path that the demand file cannot have, or a value that it refuses.
        """
        changed: Case = upwards.changes().changed_case(self, changes)
        return changed

    def load_factors_of(self, workloads: tuple[str, ...], replica: str) -> tuple[float, ...]:
        """Share of the staffing rule's load that replicas of this kind carry for a pool [hour of the two days]."""
        given = [f for f in self.load_factors or () if (f.workloads, f.replica) == (workloads, replica)]
        each = ([f.factor for f in given if f.hours is None or h in f.hours] for h in range(HOURS_OF_DAYS))
        return tuple(min(factors, default=1.0) for factors in each)

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)

    def hash(self) -> str:
        """Same inputs, same hash."""
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def case_from_json(data: dict[str, Any]) -> Case:
    return Case.model_validate_json(json.dumps(data))
