"""Workloads as people write them in a demand file: what comes, how long, how fast, and what may be done with it.

Docstrings of fields are what editors show (JSON schema) and what the error messages quote.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from planner.case.demand.future_schema import StepSpec
from planner.case.demand.session_schema import SessionsSpec
from planner.case.demand.spread_schema import MOST_TOKENS, Spread
from planner.case.teams import RESERVED
from planner.catalog.drafts import Domain
from planner.io.errors import shown
from planner.io.formatting import counted
from planner.io.units import (
    AnyFraction,
    Count,
    Duration,
    Fraction,
    GrowthRate,
    LongDuration,
    PositiveCount,
    PositiveWhole,
    SignedFraction,
    SizeGb,
    Usd,
    WholeNumber,
)
from planner.io.validation import FieldProblem, Strict
from planner.logs.reading.presets import FIELDS
from planner.performance.speculation import MOST_DRAFTS

MOST_REQUESTS_PER_DAY = 1e10
MOST_GROWTH, MOST_VARIATION, MOST_BURSTINESS = 9.0, 10.0, 1000.0
MOST_PREFIXES, MOST_ADAPTER_GB, MOST_CACHE_TOKENS = 10**6, 1000.0, 10**12
"""beyond these a figure is a slip of the pen, and a fleet for it would not fit into memory"""
SHORTEST_DEADLINE_S = 3600.0


class ModelSpec(Strict):
    """A model that may serve the workload."""

    name: str
    """A model of the catalog, or one of your own under `catalog: models:`."""
    quality_loss: Fraction = 0.0
    """The quality that this model loses compared with the first one, on the benchmark you care about."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}


def check_columns(columns: dict[str, str]) -> None:
    """Refuse columns of a log for fields that no log has."""
    for name in columns:
        if name not in FIELDS:
            raise FieldProblem(("columns", name), f"there is no {shown(name)}", f"Write one of {', '.join(FIELDS)}")


class Forecast(Strict):
    """How many requests come, and when."""

    requests_per_day: PositiveCount | None = None
    """Requests per day in its first month, as a mean over the week. Give this or `hourly`."""
    sessions_per_day: PositiveCount | None = None
    """Sessions per day in its first month, of a workload with `sessions`; its requests follow from their turns."""
    shape: str | None = None
    """Daily shape of the rate: flat, business-hours or consumer."""
    hourly: tuple[Count, ...] | None = None
    """Requests per hour: 24 numbers (every day), 48 (a weekday, then a weekend day) or 168 (a week from Monday)."""
    csv: str | None = Field(default=None, min_length=1)
    """A log next to this file, such as a CSV with columns time and requests (and workload, if it has several)."""
    columns: dict[str, str] = {}
    """The log's names for columns that it calls differently: time, requests, prompt, output, workload and others."""
    log_days: PositiveCount | None = None
    """Days of log that these figures come from, if they come from one; fewer than 28 are not enough to sign on."""
    growth_per_month: SignedFraction = 0.0
    """Growth of the rate from one month to the next, over the whole horizon."""
    growth: GrowthRate | None = Field(default=None, examples=["40%/year"])
    """The same by the year, quarter or month; it compounds from month to month. By default the file's `growth`."""
    variation: AnyFraction | None = None
    """Standard deviation of the rate around its hourly mean, day to day and within the hour."""
    burstiness: PositiveCount | None = None
    """Squared CV of the gaps between requests, each over the mean gap of its minute, as `fleetplan demand` measures it:
    1 is Poisson, chat traces show 1.1 to 6, code completion 23. By default that of the workload's `kind`."""

    @model_validator(mode="after")
    def _one_way(self) -> Forecast:
        ways = ("requests_per_day", "sessions_per_day", "hourly", "csv")
        given = [name for name in ways if getattr(self, name) is not None]
        if len(given) != 1:
            named = f", got {' and '.join(given)}" if given else ""
            message = f"needs one of 'requests_per_day', 'hourly' and 'csv'{named}"
            raise FieldProblem((), message, "Write requests_per_day: 400k")
        if self.csv is not None and self.shape is not None:
            raise FieldProblem(("shape",), "has no effect with 'csv'", "Remove one of them")
        if self.columns and self.csv is None:
            raise FieldProblem(("columns",), "has no effect without 'csv'", "Remove it")
        check_columns(self.columns)
        if self.hourly is not None:
            if len(self.hourly) not in (24, 48, 168):
                raise FieldProblem(
                    ("hourly",),
                    f"has {counted(len(self.hourly), 'number')}",
                    "Give 24, 48 (weekday, weekend) or 168 (a week)",
                )
            if self.shape is not None:
                raise FieldProblem(("shape",), "has no effect with 'hourly'", "Remove one of them")
            if not any(self.hourly):
                raise FieldProblem(("hourly",), "is zero at every hour", "Remove the workload, or give its requests")
        if self.growth is not None and self.growth_per_month:
            raise FieldProblem(("growth",), "says again what 'growth_per_month' does", "Remove one of them")
        if self.growth is not None and self.growth.frac <= -1:
            raise FieldProblem(("growth",), "leaves nothing", "Write a change above -100%")
        if self.growth is not None and self.growth.per_month_frac > MOST_GROWTH:
            raise FieldProblem(("growth",), f"is above {MOST_GROWTH:.0%} a month", "Check the number")
        if self.growth_per_month <= -1:
            raise FieldProblem(("growth_per_month",), "leaves nothing", "Write a change above -100%")
        if max(self.requests_per_day or 0.0, 24 * max(self.hourly or (0.0,))) > MOST_REQUESTS_PER_DAY:
            where = "hourly" if self.hourly else "requests_per_day"
            raise FieldProblem((where,), "is above 10 billion requests a day", "Check the number and its suffix")
        for name, most in (
            ("growth_per_month", MOST_GROWTH), ("variation", MOST_VARIATION), ("burstiness", MOST_BURSTINESS)
        ):  # fmt: skip
            if (getattr(self, name) or 0.0) > most:
                limit = f"{most:g}" if name == "burstiness" else f"{most:.0%}"
                raise FieldProblem((name,), f"is above {limit}", "Check the number")
        return self

    @property
    def monthly_growth_frac(self) -> float:
        return self.growth_per_month if self.growth is None else self.growth.per_month_frac


class BucketSpec(Strict):
    input: PositiveCount
    """Tokens of the prompt."""
    output: PositiveCount
    """Tokens generated."""
    share: Fraction
    """Share of the requests."""

    @model_validator(mode="after")
    def _not_too_long(self) -> BucketSpec:
        for name in ("input", "output"):
            if getattr(self, name) > MOST_TOKENS:
                raise FieldProblem((name,), "is above 100 million tokens", "Check the number and its suffix")
        return self


class Tokens(Strict):
    """How long requests are, in tokens."""

    input: Spread | None = None
    """Prompt tokens: {p50: 900, p95: 4000}, with the mean if you know it, or one number."""
    output: Spread | None = None
    """Generated tokens: {p50: 180, p95: 600}, or one number."""
    buckets: tuple[BucketSpec, ...] | None = Field(default=None, min_length=1, max_length=64)
    """Instead of the two: your own length buckets, whose shares add up to 100%."""
    longest: PositiveWhole | None = None
    """Tokens of the longest request that is let in, prompt and answer together; longer ones are refused, and the plan
    says how many. By default the largest context of its models if no more than 0.1% of the requests are longer, else
    none: longer ones then need an API."""

    @model_validator(mode="after")
    def _consistent(self) -> Tokens:
        if self.buckets is None:
            return self
        if self.input or self.output:
            raise FieldProblem(("buckets",), "cannot be combined with 'input' and 'output'", "Keep one of the two")
        total = sum(b.share for b in self.buckets)
        if abs(total - 1) > 1e-6:
            raise FieldProblem(("buckets",), f"has shares that add up to {total:.4%}", "Make them add up to 100%")
        return self


PERCENTS = (50, 90, 95, 99)


class Slo(Strict):
    """Latency objectives: to the first token, per further token, to the last token, and that time over the tokens of
    the answer; each at one percentile."""

    ttft_p50: Duration | None = None
    ttft_p90: Duration | None = None
    ttft_p95: Duration | None = None
    ttft_p99: Duration | None = None
    tpot_p50: Duration | None = None
    tpot_p90: Duration | None = None
    tpot_p95: Duration | None = None
    tpot_p99: Duration | None = None
    e2e_p50: Duration | None = None
    e2e_p90: Duration | None = None
    e2e_p95: Duration | None = None
    e2e_p99: Duration | None = None
    e2e_per_token_p50: Duration | None = None
    e2e_per_token_p90: Duration | None = None
    e2e_per_token_p95: Duration | None = None
    e2e_per_token_p99: Duration | None = None

    def given(self, kind: str) -> tuple[float, float] | None:
        """(seconds, percentile) of an objective, if it is given."""
        key = self.key(kind)
        return None if key is None else (getattr(self, key), int(key.rpartition("_p")[2]) / 100)

    def key(self, kind: str) -> str | None:
        """of the objective of a kind that is given"""
        return next(iter(self._keys(kind)), None)

    def _keys(self, kind: str) -> list[str]:
        keys = [f"{kind}_p{percent}" for percent in PERCENTS]
        return [key for key in keys if getattr(self, key) is not None]

    @model_validator(mode="after")
    def _one_of_each(self) -> Slo:
        for kind in ("ttft", "tpot", "e2e", "e2e_per_token"):
            names = self._keys(kind)
            if len(names) > 1:
                raise FieldProblem(
                    (names[1],), f"is a second objective in addition to '{names[0]}'", "Keep one of them"
                )
            for name in names:
                if getattr(self, name) <= 0:
                    raise FieldProblem((name,), "must be above zero", 'Write a duration such as "1.5s"')
        return self


class Quality(Strict):
    max_loss: Fraction
    """Largest quality loss accepted for a smaller model and a quantization together."""
    benchmark: Literal["mmlu", "openllm", "openllm-v2", "chat", "code"] = "mmlu"
    """Family of benchmarks that the limit refers to. Where a quantization was not measured on it, the nearest
    other family stands in, and the plan says so."""
    unmeasured: Literal["allowed", "forbidden"] = "allowed"
    """Whether a quantization may be used that was not measured on this benchmark, for a model of the same family."""


class ReusePointSpec(Strict):
    """A cache size and the hit rate it reaches."""

    tokens: PositiveWhole
    """Tokens of prompts that the cache holds."""
    hit_rate: Fraction
    """Share of prompt tokens that it finds."""


class PrefixReuseSpec(Strict):
    """How much of prompts a cache finds, by its size, as `fleetplan demand` measures it from block hashes."""

    curve: tuple[ReusePointSpec, ...] = Field(min_length=1)
    """Sizes in rising order: one cache that sees all requests and drops what was used least recently."""
    requests_per_s: PositiveCount | None = None
    """Mean rate of the requests that it was measured on. By default that of the workload."""

    @model_validator(mode="after")
    def _rises(self) -> PrefixReuseSpec:
        for k, (a, b) in enumerate(pairwise(self.curve), start=1):
            if b.tokens <= a.tokens:
                raise FieldProblem(("curve", k, "tokens"), "is no larger than the size before", "Sort them by size")
            if b.hit_rate < a.hit_rate:
                message = "is below the hit rate of a smaller cache"
                raise FieldProblem(("curve", k, "hit_rate"), message, "A larger cache finds at least as much")
        if self.curve[-1].hit_rate >= 1:
            raise FieldProblem(("curve", len(self.curve) - 1, "hit_rate"), "would leave nothing new in any prompt",
                               "Write a share below 100%")  # fmt: skip
        if self.curve[-1].tokens > MOST_CACHE_TOKENS:
            message = "is above a trillion tokens"
            raise FieldProblem(("curve", len(self.curve) - 1, "tokens"), message, "Check the number and its suffix")
        return self


class Caching(Strict):
    """What requests have in common. The optimizer decides what is worth caching."""

    shared_prefix_tokens: WholeNumber = 0
    """Tokens at the start of the prompt that many requests share (a system prompt)."""
    prefix_hit_rate: Fraction = 0.0
    """Share of requests that find this prefix in the cache."""
    prefixes: PositiveWhole = 1
    """Number of different prefixes that each replica keeps."""
    prefix_reuse: PrefixReuseSpec | None = None
    """What replicas find by the memory that they have for it; `prefix_hit_rate` is then what all requests share."""
    template_tokens: WholeNumber = 0
    """Tokens of fixed parts inside the prompt, after the prefix (tools, documents)."""
    template_hit_rate: Fraction = 0.0
    """Share of requests that find these parts in the cache."""
    semantic_hit_rate: Fraction = 0.0
    """Share of requests so similar to an earlier one that its answer can be reused."""
    kv_tiers: tuple[Literal["host", "disk"], ...] = Field(default=(), max_length=2)
    """Where the KV cache of waiting sessions may be kept besides GPU memory: host (memory of the box) and disk (its
    local disks). The optimizer decides whether they are used."""

    @model_validator(mode="after")
    def _both(self) -> Caching:
        for tokens, rate in (("shared_prefix_tokens", "prefix_hit_rate"), ("template_tokens", "template_hit_rate")):
            if bool(getattr(self, tokens)) != bool(getattr(self, rate)):
                raise FieldProblem((), f"needs both '{tokens}' and '{rate}'", "Give both or none")
        for tokens in ("shared_prefix_tokens", "template_tokens"):
            if getattr(self, tokens) > MOST_TOKENS:
                raise FieldProblem((tokens,), "is above 100 million tokens", "Check the number and its suffix")
        if self.prefixes > 1 and not self.shared_prefix_tokens:
            raise FieldProblem(("prefixes",), "has no effect without 'shared_prefix_tokens'", "Give how long they are")
        if self.prefixes > MOST_PREFIXES:
            raise FieldProblem(("prefixes",), "is above a million", "Check the number")
        if len(set(self.kv_tiers)) < len(self.kv_tiers):
            raise FieldProblem(("kv_tiers",), "names a tier twice", "Write [host] or [host, disk]")
        if self.semantic_hit_rate >= 1:
            raise FieldProblem(("semantic_hit_rate",), "would leave no request to serve", "Write a share below 100%")
        return self


class SpeculationSpec(Strict):
    """How many of the tokens that are drafted for it are accepted."""

    accepted: PositiveCount | None = Field(default=None, examples=[2.4])
    """Tokens that a step brought on average, the one that any step gives included: 1 + accepted / drafts of vLLM's
    metrics, measured on the workload's own requests. By default what the catalog knows of such prompts."""
    tokens: PositiveWhole = 3
    """Drafts a step when that was measured."""
    method: str | None = Field(default=None, examples=["eagle3"])
    """The method that it was measured with; by default it holds for all."""
    domain: Domain | None = None
    """Its kind of prompts, for what the catalog knows; by default the kind that accepts least."""

    @model_validator(mode="after")
    def _within_the_drafts(self) -> SpeculationSpec:
        if self.tokens > MOST_DRAFTS:
            raise FieldProblem(("tokens",), f"is above {MOST_DRAFTS}", "Measure with fewer drafts")
        if self.accepted is not None and not 1 <= self.accepted <= self.tokens + 1:
            most = f"must be between 1 and {self.tokens + 1}: one token, and at most {self.tokens} drafts"
            raise FieldProblem(("accepted",), most, "Write 1 + accepted / drafts of the engine's metrics, and 'tokens'")
        return self


class AdapterSpec(Strict):
    """A LoRA adapter: the workload is a fine-tuned variant of its model."""

    size: SizeGb
    """Size of its file, such as 100MB."""

    @model_validator(mode="before")
    @classmethod
    def _size_alone(cls, value: Any) -> Any:
        return value if isinstance(value, dict | list | None) else {"size": value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [TypeAdapter(SizeGb).json_schema(), handler(core_schema)]}

    @model_validator(mode="after")
    def _within_reason(self) -> AdapterSpec:
        if not 0 < self.size <= MOST_ADAPTER_GB:
            wrong = "is above 1 TB" if self.size else "must be above zero"
            raise FieldProblem(("size",), wrong, "Write the size of the adapter's file, such as 100MB")
        return self


class Shed(Strict):
    """Requests may be shed, at a penalty that decides what is shed first and is not part of the cost."""

    priority: Literal["low", "normal", "high"] | None = None
    """Penalty of a request: 3, 10 or 30 times what the baseline API charges for it."""
    penalty_per_1k_requests: Usd | None = None
    """Instead of a priority: the penalty of turning a thousand requests away."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Shed:
        if (self.priority is None) == (self.penalty_per_1k_requests is None):
            message = "needs one of 'priority' and 'penalty_per_1k_requests'"
            raise FieldProblem((), message, "Write {priority: low}")
        if self.penalty_per_1k_requests == 0:
            raise FieldProblem(("penalty_per_1k_requests",), "must be above $0", "Write a penalty such as $5")
        return self


class Spot(Strict):
    critical_share: Fraction
    """Share of the load that must stay served, inside its SLO, when spot instances are taken away."""


class WorkloadSpec(Strict):
    """One stream of requests with one set of objectives."""

    name: str = Field(min_length=1, max_length=80, pattern=r"^\S(.*\S)?$")
    models: tuple[ModelSpec, ...] = Field(min_length=1, examples=[["llama-3.1-8b"]])
    """Models that may serve it; the optimizer picks one."""
    forecast: Forecast = Field(examples=[{"requests_per_day": "400k"}])
    kind: Literal["chat", "completion", "classification", "batch", "agent", "reasoning"] | None = None
    """What kind of traffic it is, for objectives and a burstiness that the file does not give: completion (of code, as
    people type) comes in far larger bursts than the others. By default a guess from lengths and deadline."""
    tokens: Tokens = Tokens()
    slo: Slo = Slo()
    team: str | None = Field(default=None, min_length=1, max_length=80, pattern=r"^\S(.*\S)?$", examples=["search"])
    """Who pays for it: plans show what each team costs."""
    quality: Quality | None = None
    caching: Caching = Caching()
    sessions: SessionsSpec | None = None
    """Sessions of agents or chats, turn by turn: requests, their lengths and what caches find follow from them."""
    spot: Spot | None = None
    speculation: SpeculationSpec | None = None
    """How many drafts of its tokens are accepted, where the menu has speculation."""
    tenancy: Literal["dedicated", "shared"] = "dedicated"
    """Whether it may share replicas with other workloads of the same model that are shared too."""
    adapter: AdapterSpec | None = None
    """The size of a LoRA adapter, such as 100MB, if the workload is a fine-tuned variant of its model."""
    deadline: LongDuration | None = None
    """How long a request may wait, such as 6h: batch work, which can fill the hours when GPUs are idle."""
    regions: tuple[str, ...] | None = Field(default=None, min_length=1, examples=[["us-east-1"]])
    """Regions of the menu that its data may go to."""
    providers: tuple[str, ...] | None = Field(default=None, min_length=1, examples=[["aws"]])
    """Providers of the menu that may run it."""
    shed: Shed | None = None
    """Allows its requests to be shed if serving them is too expensive. By default all are served."""
    api: Literal["allowed", "no-smaller", "forbidden"] = "allowed"
    """Whether its requests may go to an API provider, or to one that sells no smaller model than the first of `models`
    (or one of the others). Where it has `regions` or `providers`, not unless you say so."""
    api_tier: Literal["priority"] | None = None
    """The service tier at which an API must answer it, for users who wait. By default any that promises enough; flex,
    which promises no time, is used for work with a deadline only."""
    baseline: str | None = Field(default=None, examples=["openai/gpt-4o"])
    """The API model to compare this workload with, as provider/model. By default the baseline of the file."""
    from_day: date | None = Field(default=None, alias="from", examples=["2027-04-01"])
    """The month of its launch; the forecast is for its first month, and growth counts from there."""
    until: date | None = Field(default=None, examples=["2027-09-30"])
    """The month of its retirement, the last in which it is served."""
    steps: tuple[StepSpec, ...] = Field(default=(), max_length=100)
    """Lasting changes of its rate: [{from: 2027-04-01, times: 1.5}]."""

    @model_validator(mode="after")
    def _of_sessions(self) -> WorkloadSpec:
        if self.caching.kv_tiers and self.sessions is None and self.caching.prefix_reuse is None:
            message = "has no effect without 'sessions' or 'prefix_reuse', which say after how long prompts come back"
            raise FieldProblem(("caching", "kv_tiers"), message, "Describe the workload's sessions, or remove it")
        if self.sessions is None:
            if self.forecast.sessions_per_day is not None:
                message = "has no effect without 'sessions'"
                raise FieldProblem(("forecast", "sessions_per_day"), message, "Write requests_per_day")
            return self
        follows = "follows from 'sessions'"
        for name in self.tokens.model_fields_set:
            raise FieldProblem(("tokens", name), follows, "Remove it")
        for name in ("prefix_reuse", "template_tokens", "semantic_hit_rate", "prefixes"):
            if name in self.caching.model_fields_set:
                raise FieldProblem(("caching", name), "cannot be combined with 'sessions'", "Remove one of the two")
        if self.tenancy == "shared":
            raise FieldProblem(("tenancy",), "cannot be shared by sessions", "Remove it: they need their own replicas")
        if self.deadline is not None:
            raise FieldProblem(("deadline",), "cannot be combined with 'sessions'", "Remove one of the two")
        return self

    @property
    def dates(self) -> tuple[str, ...]:
        """Keys with dates that it has."""
        given = {"from": self.from_day, "until": self.until, "steps": self.steps}
        return tuple(key for key, value in given.items() if value)

    @model_validator(mode="after")
    def _in_order(self) -> WorkloadSpec:
        if self.from_day and self.until and self.until < self.from_day:
            raise FieldProblem(("until",), f"is before 'from', {self.from_day}", "Write the later day here")
        months = [(s.from_day.year, s.from_day.month) for s in self.steps]
        for k, month in enumerate(months):
            day = self.steps[k].from_day
            if month in months[:k]:
                raise FieldProblem(("steps", k, "from"), "is in the same month as another step", "Keep one of them")
            if self.from_day and month < (self.from_day.year, self.from_day.month):
                message = f"is before the launch, {self.from_day}"
                raise FieldProblem(("steps", k, "from"), message, "Remove it: the forecast is for the first month")
            if self.until and day > self.until:
                raise FieldProblem(("steps", k, "from"), f"is after 'until', {self.until}", "Remove the step")
        return self

    @model_validator(mode="after")
    def _is_a_team(self) -> WorkloadSpec:
        if self.team is not None and self.team.casefold() in RESERVED:
            remedy = "Name the team otherwise; whoever has none needs no 'team'"
            raise FieldProblem(("team",), f"{shown(self.team)} is a row of every showback", remedy)
        return self

    @model_validator(mode="after")
    def _long_enough(self) -> WorkloadSpec:
        if self.deadline is not None and self.deadline < SHORTEST_DEADLINE_S:
            raise FieldProblem(("deadline",), "is below an hour", 'Write one such as 6h, or an objective under "slo"')
        if self.deadline is not None and (pace := self.slo.key("e2e_per_token")) is not None:
            message = "is an objective of answers that somebody waits for, and this workload has a 'deadline'"
            raise FieldProblem(("slo", pace), message, "Remove one of the two")
        if self.kind == "batch" and self.deadline is None:
            raise FieldProblem(("kind",), "is batch, but there is no 'deadline'", "Add deadline: 24h next to it")
        return self
