"""The plan of one block: a fleet, what it costs, what is proved about it, and all it was made from.

An ordinary case has one block; a horizon has one for each quarter and scenario (horizon/horizon_plan.py). The saved
plan is the hub: every other command reads it, the case inside included (saved.py). Versioned JSON.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planner.candidates.rejection import Rejection, RejectionKind
from planner.case.case import Assumption, Case
from planner.case.power import Doubt
from planner.catalog.variant import TENSOR, Parallelism, Variant
from planner.io.formatting import json_text
from planner.io.result import Result
from planner.io.validation import Strict
from planner.plan.operated import Operation
from planner.plan.simpler import Simpler
from planner.plan.study_records import Studies, Why

PLAN_FORMAT = "fleetplan-plan/6"
"""of a plan of one block, and of one of several"""
Drafts = Annotated[str, Field(pattern=r"^\S.*:[0-9]{1,3}$")]
SeveralBoxes = Annotated[int, Field(ge=2, le=64)]
Status = Literal["optimal", "within-gap", "feasible", "interrupted"]
Part = Literal["options", "if_throughput_is_off", "assumed_limits", "simpler", "sampled", "verified", "operation"]

LEFT_OUT = (
    "power",
    "allowances",
    "bought",
    "showback",
    "long_terms",
    "assumed_limits",
    "simpler",
    "sampled",
    "operation",
)
"""not in the JSON where they are None"""


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
    """starting instances included"""
    spot_usd_per_month: float
    """starting instances included"""
    api_usd_per_month: float
    caching_usd_per_month: float
    engineers_usd_per_month: float
    vendors_usd_per_month: float | None = None
    """fixed costs of the providers, regions and APIs in use; None where the policy has none"""
    bought_usd_per_month: float | None = None
    """servers of one's own, their energy while idle included; None where the menu has none"""
    energy_usd_per_month: float | None = None
    """of GPUs in use in such servers, besides; None where the menu has none"""

    def total(self) -> float:
        return float(sum(usd for usd in dict(self).values() if usd is not None))


class Baseline(Strict):
    """All requests that the plan answers, bought from the API model named in the demand file instead."""

    provider: str
    model: str
    cost_usd_per_month: float
    usd_per_1m_tokens: float
    savings_usd_per_month: float
    """by the whole bill, what is held included"""
    savings_frac: float
    source: str
    date: str | None = None
    by_workload: tuple[BaselineBill, ...] | None = None
    """where a workload has a baseline of its own, or may not use an API"""


class BaselineBill(Strict):
    """What the baseline of one workload would cost."""

    workload: str
    api: str
    """as provider/model"""
    cost_usd_per_month: float
    may_use_an_api: bool
    """False: the comparison is with something that it may not do"""


class FleetLine(Strict):
    """Instances of one offer bought in one way."""

    offer: str
    gpu: str
    gpus_per_instance: int
    purchase: str
    instances_by_slot: tuple[int, ...]
    usd_per_h: float
    """for one instance; what is paid up front is spread over the term"""
    starts_per_month: float
    """instances started, where they are bought by the hour"""
    starting_usd_per_month: float
    """for the time that these starts take"""
    cost_usd_per_month: float
    """starting included; on demand with what allowances cover taken off, and a share of what these cost"""
    price_source: str
    price_date: str | None = None
    price_assumption: str | None = None


class RoutingRecord(Strict):
    """How the load that each of n replicas may carry grows with n behind one router (docs/evidence/verification.md)."""

    exponent: float
    """0 where the router does not look at requests in flight"""
    prompt_share_frac: float
    """share of the load that is prefill"""
    burst_room_frac: float
    """probability with which the next request may arrive within a prefill"""


class KvTierRecord(Strict):
    """What a tier besides the GPUs' memory adds to what a replica finds."""

    name: str
    """host or disk"""
    cache_tokens: float
    """that it holds for a replica"""
    cache_gb: float
    """the same in bytes, of one replica"""
    residence_s: float
    """how long a block stays"""
    read_us_per_token: float
    """that a token takes to come back"""
    found_fracs: tuple[float, ...]
    """share of the prompt tokens that is found here and in no faster tier [workload of the pool]"""


class PrefixCacheRecord(Strict):
    """What a replica finds of its prompts in the KV memory that running requests leave."""

    cache_tokens: float
    """that fit there"""
    load_frac: float
    """share of its time that a replica is busy, at most"""
    residence_s: float
    """how long a block stays"""
    spread_over: int
    """replicas of which a request may be sent to any, wherever its prefix is; 1 where the router knows"""
    found_fracs: tuple[float, ...]
    """share of the prompt tokens that are found [workload of the pool], in whatever tier"""
    tiers: tuple[KvTierRecord, ...] | None = None
    """besides the GPUs' memory, the fastest first"""


class DeploymentRecord(Strict):
    """What one replica is."""

    key: str
    model: str
    quantization: str
    offer: str
    gpu: str
    gpus_per_replica: int
    parallelism: Parallelism | None = None
    """how its GPUs share a mixture of experts; None: by tensor parallelism, as they share every other model"""
    boxes_per_replica: SeveralBoxes | None = None
    """that it spans as stages of a pipeline, each with as many of its GPUs; None: it stands in one"""
    speculation: Drafts | None = None
    """how its tokens are drafted, as method:tokens; None: they are not"""
    accepted_tokens: float | None = None
    """that a step brings on average where they are, the one that any step gives included"""
    seconds_per_request: tuple[float | None, ...]
    """replica-seconds per request [bucket of the pool's workloads, one after the other]; null where it cannot serve"""
    requests_in_flight: float
    """mean over the lengths that it serves, by the time that they take"""
    staffing_in_flight: float
    """of these, what the staffing margin counts on: fewer where requests fill KV memory unevenly, and the fewest of any
    length where it serves some of them only"""
    kept_back_frac: float
    """what a request counts as more than it takes, so that a queue that a swing leaves behind goes away"""
    batched_tokens: int
    """of a step, at most: prompt chunks and decodes together; of each copy of attention where there are several"""
    ttft_ms: float | None = None
    """at the objective's percentile, in the busiest slot, queueing included; the worst
    of its lengths where it serves some of them only; None for work that may wait"""
    most_load_frac: float
    """mean load of a lone replica up to which TTFT holds; of the worst length where it serves some of them only; for
    work that may wait, what leaves room for the error of the throughput"""
    routing: RoutingRecord | None = None
    """how much more each of several may carry; None for work that may wait"""
    tpot_ms: float
    """at the objective's percentile, of the slowest bucket"""
    e2e_ms: float | None = None
    """to the last token of the longest answer that the objective binds, where there is one"""
    e2e_per_token_ms: float | None = None
    """from arrival to the last token over the tokens of the answer, at the objective's percentile of all requests, in
    the busiest slot; where there is such an objective"""
    bound_by: str
    quality_loss_frac: float
    """the most that any of the workloads sees"""
    basis: str
    """how far the throughput is backed: measured, interpolated, scaled, calibrated or estimated"""
    error_frac: float
    """how far off it is on average, as far as that is known"""
    spot_zones: int
    """over which its spot replicas are spread, as far as that counts: where it serves alone, an instance a replica"""
    prefix_cache: PrefixCacheRecord | None = None
    """where the demand file has a curve of reuse"""

    @property
    def variant(self) -> Variant:
        how = self.parallelism or TENSOR, self.speculation or "", self.boxes_per_replica or 1
        return Variant(self.model, self.quantization, self.gpu, self.gpus_per_replica, *how)


class PlacePower(Strict):
    """What a provider's region draws for the plan."""

    place: str
    peak_kw: float
    kwh_per_month: float
    co2_kg_per_month: float
    """CO2e of the grid, yearly average"""
    pue: float
    grid_g_per_kwh: float
    doubt: Doubt | None = None
    """filled, zero (by the source) or assumed: the carbon of its grid is not known well"""
    source: str


class PowerPlan(Strict):
    """What the plan's own GPUs draw with all around them; what APIs draw is not known."""

    peak_kw: float
    """in the busiest hour"""
    peak_slot: int
    rated_kw: float
    """with every GPU that a replica uses at the most that it can draw: what policy.power_kw limits"""
    kwh_per_month: float
    co2_kg_per_month: float
    rated_co2_kg_per_month: float
    """of the month with the most, every GPU in use at the most that it can draw"""
    joules_per_token: float | None = None
    """of the tokens that GPUs read and write; None: they answer nothing, or the power of some is not known"""
    error_frac: float
    """mean error of what GPUs draw while they serve, where that is largest"""
    not_known: tuple[str, ...]
    """GPUs that are in no figure here, as nobody published what they draw"""
    places: tuple[PlacePower, ...]


class DeploymentPlan(Strict):
    """A deployment of a pool, hour by hour."""

    deployment: DeploymentRecord
    replicas_by_slot: tuple[int, ...]
    firm_replicas_by_slot: tuple[int, ...]
    load_by_slot: tuple[float, ...]
    """replicas kept busy"""
    utilization_frac: float
    """mean load over the replicas that run; instances that are paid for may be emptier"""

    @property
    def name(self) -> str:
        return str(self.deployment.variant)


class PoolPlan(Strict):
    """Workloads that are served together, and the deployments that serve them (none: nothing is hosted)."""

    key: str
    workloads: tuple[str, ...]
    deployments: tuple[DeploymentPlan, ...]


class Flow(Strict):
    """Requests of a slot that take one way."""

    slot: int
    requests_per_s: tuple[float, ...]
    """[bucket]"""


class Move(Strict):
    """Work that waits: requests of every length alike that arrive in one slot and are done in another."""

    from_slot: int
    to_slot: int
    requests_per_s: float


class WorkloadPlan(Strict):
    name: str
    pool: str
    caching: str
    """none, or the kinds joined by +"""
    models: tuple[str, ...]
    """of its deployments, in their order"""
    quantizations: tuple[str, ...]
    api: str | None = None
    api_flows: tuple[Flow, ...]
    shed_flows: tuple[Flow, ...]
    """requests that are shed"""
    deployment_flows: tuple[tuple[Flow, ...], ...]
    """what the second deployment of its pool carries, the third...; the first takes the rest"""
    moves: tuple[Move, ...]
    requests_per_month: float
    """all that are let in, those answered from the cache and those shed included"""
    longest_request_tokens: int | None = None
    """prompt and answer of the longest request that is let in; None: any"""
    refused_share_frac: float | None = None
    """share of the requests that arrive which are longer, and are refused; None: none is"""
    refused_requests_per_month: float | None = None
    """besides those that are let in"""
    tokens_per_month: float
    """of those that are answered"""
    cache_share_frac: float
    """share of the requests that is answered from the semantic cache"""
    api_share_frac: float
    """share of the requests that go to the API"""
    shed_share_frac: float
    """share of the requests that are shed"""
    shed_requests_per_month: float
    penalty_usd_per_month: float
    """of what is shed; not part of its cost"""
    gpu_cost_usd_per_month: float
    api_cost_usd_per_month: float
    caching_cost_usd_per_month: float
    cost_usd_per_month: float
    usd_per_1m_tokens: float


class Binding(Strict):
    """A limit that this plan reaches."""

    limit: str
    """its key in the demand file's policy"""
    name: str | None = None
    """of the GPU, the instance or the pool that it limits"""
    value: float
    hours_per_month: float
    """for how long"""


class CostRange(Strict):
    """Cost + penalty with the same deployments if throughput is off by its own error; None where no plan then keeps the
    limits."""

    low_usd_per_month: float | None = None
    mid_usd_per_month: float
    high_usd_per_month: float | None = None


class OptionRecord(Strict):
    """One way to serve a workload by itself, and what that would cost; what is chosen may be more than that."""

    workload: str
    option: str
    caching: str
    shared_with: tuple[str, ...]
    """the other workloads of its pool"""
    model: str | None = None
    quantization: str | None = None
    gpu: str | None = None
    gpus_per_replica: int = 0
    parallelism: Parallelism | None = None
    boxes_per_replica: SeveralBoxes | None = None
    speculation: Drafts | None = None
    offer: str | None = None
    deployments: tuple[str, ...]
    """keys of those that serve it"""
    api: str | None
    """that serves all of it; None where deployments do, whether or not an API takes what they do not"""
    cost_usd_per_month: float | None = None
    """alone, without engineers and limits, at the prices of the menu, nothing shed; None where the menu cannot
    buy it; where work may wait, what a quick search finds. What is chosen and is no such option (several deployments, a
    shared pool, work that waits): its cost in the plan"""
    peak_replicas: int = 0
    api_share_frac: float = 0.0
    """share of the requests that would go to the API"""
    chosen: bool

    @property
    def variant(self) -> Variant | None:
        """None for an API, and for several deployments."""
        return _variant_of(self)


class RejectionRecord(Strict):
    workload: str
    candidate: str
    reason: str
    limit: str
    value: str
    kind: RejectionKind
    model: str | None
    """of the candidate; None where the reason is against something else, such as a choice of caching"""
    quantization: str | None
    gpu: str | None
    gpus_per_replica: int
    """0: of any number"""
    parallelism: Parallelism | None = None
    boxes_per_replica: SeveralBoxes | None = None
    speculation: Drafts | None = None

    @classmethod
    def of(cls, r: Rejection) -> RejectionRecord:
        variant = r.variant
        return cls(
            workload=r.workload,
            candidate=r.candidate,
            reason=r.reason,
            limit=r.limit,
            value=r.value,
            kind=r.kind,
            model=variant.model if variant else None,
            quantization=variant.quantization if variant else None,
            gpu=variant.gpu if variant else None,
            gpus_per_replica=variant.gpus_per_replica if variant else 0,
            parallelism=variant.other_parallelism if variant else None,
            boxes_per_replica=variant.several_boxes if variant else None,
            speculation=(variant.speculation or None) if variant else None,
        )

    @property
    def variant(self) -> Variant | None:
        return _variant_of(self)

    @property
    def dominated(self) -> bool:
        """Whether it could serve, but another candidate, its limit, never does worse."""
        return self.kind is RejectionKind.DOMINATED


def _variant_of(r: OptionRecord | RejectionRecord) -> Variant | None:
    """What an option or a rejection is of; None where that is no deployment."""
    if r.model is None or r.quantization is None or r.gpu is None:
        return None
    how = r.parallelism or TENSOR, r.speculation or "", r.boxes_per_replica or 1
    return Variant(r.model, r.quantization, r.gpu, r.gpus_per_replica, *how)


class Commitment(Strict):
    """What reserved instances cost at once and after the quarter."""

    offer: str
    term: str
    instances: int
    upfront_usd: float
    """cash at signing, for the whole term"""
    beyond_horizon_usd: float
    """still owed after the quarter, besides"""


class BoughtPlan(Strict):
    """Servers of one kind that are bought: what they cost, part by part, all of them together."""

    offer: str
    instances: int
    price_usd: float
    residual_usd: float
    life_months: int
    depreciation_usd_per_month: float
    """price less residual value, over the life"""
    capital_usd_per_month: float
    """on the mean of price and residual value"""
    maintenance_usd_per_month: float
    colocation_usd_per_month: float
    idle_kwh_per_month: float
    """that the site draws for them whatever runs"""
    gpu_hours_per_month: float
    """of GPUs that replicas use"""
    gpu_kwh_per_month: float
    """that these draw besides, at their most: plans pay for no less than is drawn"""
    energy_usd_per_month: float
    cost_usd_per_month: float


class AllowancePlan(Strict):
    """A savings plan, or provisioned units: what is signed of it, and what it covers."""

    name: str
    units: float
    """that are paid in every hour: dollars of a savings plan, units of an API"""
    held: bool
    """signed before: paid in any case, so no part of the cost"""
    usd_per_month: float
    """paid for it, used or not"""
    covered_usd_per_month: float
    """what it covers would cost without it"""
    saved_usd_per_month: float
    """by it: what it covers less what is paid for it"""
    used_frac: float
    """share of what is signed that hours use; the rest is lost"""
    covered_frac: float
    """share that it covers of what it may cover, by what that would cost"""
    beyond_horizon_usd: float
    """still owed after the quarter, besides"""
    source: str
    date: str | None = None


class TeamCost(Strict):
    """What a team is shown of the whole bill, in whole cents; rows add up to it."""

    kind: Literal["team", "no team", "shared", "not used"]
    """shared: engineers and fixed costs of vendors; not used: what nobody runs anything on"""
    team: str | None
    workloads: tuple[str, ...]
    instances_usd_per_month: float
    apis_usd_per_month: float
    caching_usd_per_month: float
    held_usd_per_month: float
    """its share of what is paid in any case"""
    other_usd_per_month: float
    usd_per_month: float


class LongTerm(Strict):
    """A term of more than a year that is not bought, since it outlasts the plan: the same instances, priced again."""

    offer: str
    term: str
    instances: int = Field(gt=0)
    """that it would pay to hold for the whole term, if demand stayed as it is"""
    usd_per_month: float
    """their price; what is paid up front is spread over the term"""
    replaces_usd_per_month: float
    """what the plan pays for them now: shorter commitments, and hours on demand"""
    saves_usd_per_month: float
    upfront_usd: float
    """cash at signing"""
    beyond_horizon_usd: float
    """still owed after the quarter, besides"""
    months_to_pay: float
    """of such demand, until what they replace would have cost as much as the whole term"""


class Proof(Strict):
    """What "proved" covers."""

    covers: str
    solver: str
    rounds: int
    columns: int
    servings_left_out: int
    notes: tuple[str, ...]


class AssumedLimit(Strict):
    """A limit that nobody gave and that binds."""

    key: str
    """of the demand file, such as slo.tpot_p95"""
    value: str
    """that was assumed"""
    workloads: tuple[str, ...]
    """for which it was; empty for a limit of the whole case"""
    without_usd_per_month: float
    """what a plan without this limit comes to, penalties included"""


class AssumedLimits(Strict):
    """Limits that nobody gave, where the plan without them is proved to be cheaper."""

    without_usd_per_month: float
    """what a plan without any of them comes to, penalties included"""
    limits: tuple[AssumedLimit, ...]
    """those that bind by themselves, the one that costs most first"""


class LeftOut(Strict):
    """A part of the report that was not worked out."""

    what: Part
    """its key in the plan"""
    why: Why


class Served(Strict):
    """What serving the plan request by request showed."""

    kept: bool
    """whether every promise was, at both seeds"""
    requests: int
    """served, with the last seed"""
    seeds: tuple[int, ...]
    """the first while the plan was mended, the last to confirm it"""
    rounds: int
    """plans that were served"""
    first_bound_usd_per_month: float
    """no fleet under the staffing rule alone costs less; the plan's own bound is that of the tightened problem"""
    first_cost_usd_per_month: float
    """of the plan before anything was tightened"""
    missed: tuple[str, ...]
    """promises that the plan does not keep"""


class Sampled(Strict):
    """What serving some requests of the busiest hours showed: less than what `Served` says."""

    requests: int
    """served in the minutes that count"""
    seed: int
    missed: tuple[str, ...]
    """promises that fewer of them keep than the plan promises of all"""


class Plan(Result, Strict):
    format: str = PLAN_FORMAT
    name: str
    status: Status
    cost_usd_per_month: float = Field(ge=0)
    """besides what is held"""
    held_usd_per_month: float = Field(ge=0)
    """of what was signed before, paid in any case; not part of the cost"""
    penalty_usd_per_month: float = Field(ge=0)
    """of shed requests: it counts in the objective, and is not part of the cost"""
    bound_usd_per_month: float
    """no fleet that the proof covers has a lower cost + penalty"""
    gap_frac: float = Field(ge=0)
    """how far cost + penalty are above that bound, as a share of them"""
    usd_per_1m_tokens: float
    tokens_per_month: float
    """of the requests that are answered"""
    costs: Costs
    baseline: Baseline
    fleet: tuple[FleetLine, ...]
    pools: tuple[PoolPlan, ...]
    workloads: tuple[WorkloadPlan, ...]
    commitments: tuple[Commitment, ...]
    allowances: tuple[AllowancePlan, ...] | None = None
    """what is signed or held of them; None: nothing. What they cost is part of the cost of what they cover"""
    bought: tuple[BoughtPlan, ...] | None = None
    """servers of one's own; None: the menu has none"""
    power: PowerPlan | None = None
    """None: nothing is hosted, or the case knows nothing of power"""
    showback: tuple[TeamCost, ...] | None = None
    """None: no workload has a team"""
    long_terms: tuple[LongTerm, ...] | None = None
    """what terms would save that outlast the plan; None: the menu has none, or they could be bought"""
    binding: tuple[Binding, ...]
    spot_at_p95_usd_per_month: float
    """cost of the same plan if spot stays at the 95th percentile of its price"""
    if_throughput_is_off: CostRange
    assumed_limits: AssumedLimits | None = None
    """None: none of them binds, or it was not worked out"""
    options: tuple[OptionRecord, ...]
    rejected: tuple[RejectionRecord, ...]
    slots: tuple[SlotRecord, ...]
    proof: Proof
    simpler: Simpler | None = None
    """the simplest plan near it; None: it is as simple as can be, or nobody looked"""
    left_out: Annotated[tuple[LeftOut, ...], Field(min_length=1)] | None = None
    """what is missing, and why: nothing is worked out from half a search"""
    assumptions: tuple[Assumption, ...]
    verified: Served | None = None
    """None: it was not served"""
    sampled: Sampled | None = None
    """None: nobody asked for a sample, or there was nothing to take one of"""
    operation: Operation | None = None
    """behind the controller that was tuned for it; None: nobody asked for one"""
    studies: Studies | None = None
    """what plans made again tell about this one, where that was asked for"""
    case_hash: str
    case: Case
    fleetplan_version: str

    @property
    def total_usd_per_month(self) -> float:
        """With what is held."""
        return self.cost_usd_per_month + self.held_usd_per_month

    @property
    def total_usd_per_1m_tokens(self) -> float:
        """With what is held."""
        return 1e6 * self.total_usd_per_month / self.tokens_per_month if self.tokens_per_month else 0.0

    @property
    def starts_per_month(self) -> float:
        """Instances that are started, of all that is bought by the hour."""
        return sum(line.starts_per_month for line in self.fleet)

    @property
    def objective_usd_per_month(self) -> float:
        """What was minimized: cost and penalties."""
        return self.cost_usd_per_month + self.penalty_usd_per_month

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped the work on it, early or late."""
        return self.status == "interrupted" or any(part.why == "interrupted" for part in self.left_out or ())

    def has(self, what: Part) -> bool:
        """Whether a part of the report was worked out; after an interrupted search none is.

        Of the quarters of a horizon no range is: faster replicas always have a plan, so one without ends is none.
        """
        ends = self.if_throughput_is_off.low_usd_per_month, self.if_throughput_is_off.high_usd_per_month
        if what == "if_throughput_is_off" and ends == (None, None):
            return False
        return self.status != "interrupted" and all(part.what != what for part in self.left_out or ())

    def pool_of(self, workload: str) -> PoolPlan:
        return next(p for p in self.pools if workload in p.workloads)

    def as_json(self) -> dict[str, Any]:
        """Every key is always there; what does not apply is null."""
        data = self.model_dump(mode="json", exclude={"case"}) | {"case": self.case.as_json()}
        for part, key in (
            ("costs", "vendors_usd_per_month"),
            ("costs", "bought_usd_per_month"),
            ("costs", "energy_usd_per_month"),
            ("baseline", "by_workload"),
        ):
            if data[part][key] is None:
                del data[part][key]
        for key in LEFT_OUT:
            if data[key] is None:
                del data[key]
        return data

    def to_json(self) -> str:
        """Write the plan as JSON; equal plans give equal bytes."""
        return json_text(self.as_json())
