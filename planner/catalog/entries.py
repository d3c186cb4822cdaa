"""What the catalog holds: GPUs, models, quantizations, engines, instance offers and APIs, each with source and date.

Shipped facts live in planner/data/*.yaml. A user's file may add entries or override parts of one; what it
overrides then names that file as its source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date as Date
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from planner.catalog.terms import bought_term, term_months
from planner.io.validation import FieldProblem, Strict
from problems.constants import HOURS_PER_MONTH

OWN_FIGURE = "your own figure"
UNKNOWN_DATE = "unknown"
"""of a figure that somebody else published without a day; a figure of one's own needs none"""
DEFAULT_BENCHMARK = "mmlu"
"""family that quality is held against unless a workload names another"""
Precision = Literal["fp16", "fp8", "int8", "fp4", "w8a16", "w4a16"]
DEFAULT_ENGINE = "vllm"
Basis = Literal["measured", "calibrated", "estimated"]
CHAT, BATCH = "chat", "batch"
"""kinds of traffic: where nothing hints at another one, and where there is a deadline"""


def day_of(written: str | None) -> Date | None:
    """The day that a date names; None where there is no date, or none that can be read."""
    try:
        return Date.fromisoformat(written or "")
    except ValueError:
        return None


def is_of_unknown_day(written: str | None) -> bool:
    """Whether a date says that nobody knows it, or says it in words: such a price counts as stale."""
    return written is not None and day_of(written) is None


class Sourced(Strict):
    """Something whose numbers come from somewhere."""

    source: str = OWN_FIGURE
    """Where the numbers come from."""
    date: str | None = None
    """When they were true, as YYYY-MM-DD; "unknown" where the source does not say."""
    assumption: str | None = None
    """Why a number that is not a published fact was assumed."""
    notes: str | None = None


class Named(Sourced):
    name: str | None = None
    aliases: tuple[str, ...] = ()


def shipped_entries(name: str) -> dict[str, Any]:
    """A shipped YAML file as plain data; an empty mapping where none is shipped."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    file = resources.files("planner.data") / f"{name}.yaml"
    return yaml.load(file.read_text(encoding="utf-8"), Loader=loader)[name] if file.is_file() else {}


@cache
def benchmark_families() -> dict[str, tuple[str, ...]]:
    """The names of the benchmarks of each family."""
    return {family: tuple(entry["names"]) for family, entry in shipped_entries("benchmarks").items()}


def benchmark_family(benchmark: str) -> str:
    """The family of a benchmark; one that nobody knows is its own."""
    return next((family for family, names in benchmark_families().items() if benchmark in names), benchmark)


@cache
def nearest_families(family: str) -> tuple[str, ...]:
    """The family itself, then those that stand in for it."""
    return tuple(dict.fromkeys((family, *benchmark_families())))


class Interconnect(Strict):
    kind: Literal["nvlink", "pcie", "infinity-fabric"]
    gb_per_s: float = Field(gt=0)
    """Per GPU, both directions added, as vendors quote it."""


class Gpu(Named):
    """An accelerator."""

    vendor: str = "unknown"
    architecture: str = "unknown"
    vram_gb: float = Field(gt=0)
    memory: Literal["hbm", "gddr"] = "gddr"
    """Vendors count HBM in units of 2^30 bytes; what error correction leaves of GDDR comes to about 10^9."""
    bandwidth_gb_per_s: float = Field(gt=0)
    dense_tflops: dict[Literal["fp16", "fp8", "int8", "fp4"], Annotated[float, Field(gt=0)]]
    """Dense rates of the precisions that the hardware has natively."""
    interconnect: Interconnect
    tdp_w: float | None = Field(default=None, gt=0)
    """Thermal design power, which its power is a share of. None: that of the catalog's list, where it is known."""


class Moe(Strict):
    experts: int = Field(gt=0)
    experts_per_token: int = Field(gt=0)
    expert_ffn: int = Field(gt=0)
    shared_experts: int = 0
    dense_layers: int = 0
    quantized_alone: bool = False
    """Whether its published checkpoints of fewer than 8 bits keep everything but these experts in more."""
    other_bits: float | None = Field(default=None, ge=8)
    """Bits of the rest of the weights in checkpoints where only these experts have fewer than 8; None: 16."""


class Sliding(Strict):
    window_tokens: int = Field(gt=0)
    full_attention_layers: int = Field(ge=0)
    full_kv_heads: int | None = Field(default=None, gt=0)
    """KV heads of the layers with full attention, where they differ from those with a window."""
    full_head_dim: int | None = Field(default=None, gt=0)


class Linear(Strict):
    """Layers that keep a state of fixed size instead of a KV cache; without heads, no state at all."""

    full_attention_layers: int = Field(ge=0)
    key_heads: int = Field(ge=0)
    value_heads: int = Field(ge=0)
    head_dim: int = Field(gt=0)
    key_dim: int | None = Field(default=None, gt=0)
    """Width of a key head (the state size of Mamba), where it differs from that of a value head."""

    @property
    def state_bytes(self) -> float:
        """Bytes of one request in one such layer; the state is kept in 32 bit."""
        return 4.0 * self.value_heads * self.head_dim * (self.key_dim or self.head_dim)


class Mla(Strict):
    kv_lora_rank: int = Field(gt=0)
    rope_dim: int = Field(ge=0)
    query_lora_rank: int = Field(default=1536, gt=0)
    value_dim: int = Field(default=128, gt=0)


class Sparse(Strict):
    """Attention over the tokens that an indexer scores best."""

    top_tokens: int = Field(gt=0)
    index_heads: int = Field(gt=0)
    index_dim: int = Field(gt=0)
    index_layers: int | None = Field(default=None, gt=0)
    """Layers with an indexer of their own, where others use what it picked; None: every layer."""
    tokens_per_key: int | None = Field(default=None, gt=0)
    """Tokens that share a key of the indexer; None: each has its own."""
    full_attention_layers: int | None = Field(default=None, gt=0)
    """Layers that have no indexer and read everything; None: none of them."""

    @property
    def index_bytes(self) -> float:
        """Bytes that the indexer keeps of a token in a layer: its share of an 8-bit key and the key's scale."""
        return (self.index_dim + 4.0) / (self.tokens_per_key or 1)


class Compressed(Strict):
    """Attention over entries that each stand for several tokens, beside the last tokens one by one (DeepSeek-V4)."""

    window_tokens: int = Field(gt=0)
    """Tokens that every layer keeps one by one."""
    picked_layers: int = Field(ge=0)
    """Layers that read the entries that an indexer picks."""
    picked_ratio: int = Field(gt=0)
    """Tokens of an entry there."""
    read_layers: int = Field(ge=0)
    """Layers that read all of their entries."""
    read_ratio: int = Field(gt=0)
    """Tokens of an entry there."""


class Model(Named):
    """An open-weight model: the figures that give weights, KV cache and arithmetic."""

    family: str = "unknown"
    parameters_b: float = Field(gt=0)
    active_parameters_b: float = Field(gt=0)
    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    query_heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    ffn: int = Field(gt=0)
    vocab: int = Field(gt=0)
    max_context_tokens: int = Field(gt=0)
    attention: Literal["mha", "gqa", "mla"] = "gqa"
    moe: Moe | None = None
    sliding: Sliding | None = None
    linear: Linear | None = None
    mla: Mla | None = None
    sparse: Sparse | None = None
    compressed: Compressed | None = None
    tied_embeddings: bool = False
    """The output layer shares its weights with the embedding."""
    ffn_matrices: int = 3
    """Matrices of a feed-forward block: three with a gate, two without."""
    native_quantization: str = "fp16"
    checkpoint: str | None = None
    """Id of the published weights on the Hugging Face Hub, or a path, for the command that serves it."""
    checkpoints: dict[str, str] | None = None
    """Ids or paths of the same weights by quantization, beside those that the catalog knows."""

    @property
    def has_unmeasured_attention(self) -> bool:
        """Whether its layers are of a kind, or a mix of kinds, that the constants were fitted without."""
        return self.compressed is not None or (self.linear is not None and (self.mla or self.sparse) is not None)

    @model_validator(mode="after")
    def _compressed_has_its_parts(self) -> Self:
        for part in ("mla", "sparse"):
            if self.compressed is not None and getattr(self, part) is None:
                problem = f"needs {part!r}, which says what an entry holds and which ones are picked"
                raise FieldProblem(
                    ("compressed",), problem, "Take all three from: fleetplan catalog add-model config.json"
                )
        return self


class QualityLoss(Sourced):
    min_parameters_b: float = Field(ge=0)
    loss_frac: float = Field(ge=0, le=1)
    measured_on: str = "unknown"
    family: str | None = None
    """Of the model that it was measured on; None: nobody says."""
    benchmark: str | None = None
    """None: that of the quantization."""


class CacheLoss(Sourced):
    loss_frac: float = Field(ge=0, le=1)


class Quantization(Named):
    """A way to store weights and to compute."""

    weight_bits: float = Field(gt=0)
    compute: Literal["fp16", "fp8", "int8", "fp4"]
    needs: Literal["fp16", "fp8", "int8", "fp4", "none"]
    kv_bits: float = Field(gt=0)
    by_default: bool = True
    """Whether a menu that names no quantizations has it."""
    experts_only: bool = False
    """In a mixture of experts, the other weights stay in 16 bit."""
    vllm_on_load: str | None = None
    """What `vllm serve --quantization` takes to make it of a 16-bit checkpoint while loading; None: that needs a
    checkpoint quantized so, from which vLLM reads the method by itself."""
    benchmark: str = "none"
    quality_loss: tuple[QualityLoss, ...] = Field(min_length=1)
    weights: str | None = None
    """The entry whose weights these are, where the KV cache alone differs; None: they are its own."""
    kv_loss: CacheLoss | None = None
    """What the KV cache loses beside the weights."""

    @property
    def precision(self) -> Precision:
        """Which kernels run: those of the arithmetic, or weight-only ones that unpack to 16 bit."""
        if self.compute == "fp16" and self.weight_bits < 12:
            return "w8a16" if self.weight_bits > 6 else "w4a16"
        return self.compute

    @property
    def needed(self) -> tuple[str, ...]:
        """Precisions that a GPU must have natively: that of the weights, and FP8 for an 8-bit cache."""
        weights = () if self.needs == "none" else (self.needs,)
        return tuple(dict.fromkeys((*weights, *(("fp8",) if self.kv_bits <= 8 else ()))))

    def lacked_by(self, gpu: Gpu) -> str | None:
        """The precision that a GPU would need and has not."""
        return next((precision for precision in self.needed if precision not in gpu.dense_tflops), None)

    def loss_for(self, model: Model, name: str, benchmark: str | None = None) -> QualityLoss:
        """The loss that applies to a model of this size and family on a family of benchmarks, or the nearest to it.

        Its native format loses nothing; a KV cache of fewer bits loses its own part beside the weights.
        """
        loss = self._loss_of_weights(model, name, benchmark)
        if self.kv_loss is None:
            return loss
        return loss.model_copy(update={"loss_frac": min(1.0, loss.loss_frac + self.kv_loss.loss_frac)})

    def _loss_of_weights(self, model: Model, name: str, benchmark: str | None) -> QualityLoss:
        if model.native_quantization == (self.weights or name):
            published = "the model is published in this format"
            return QualityLoss(min_parameters_b=0, loss_frac=0, source=published)
        levels = [q for q in self.quality_loss if q.min_parameters_b <= model.parameters_b]
        if not levels:
            return max(self.quality_loss, key=lambda q: q.loss_frac)
        order = nearest_families(benchmark or DEFAULT_BENCHMARK)

        def fit(q: QualityLoss) -> tuple[float, float, bool, float]:
            family = benchmark_family(self.benchmark_of(q))
            place = order.index(family) if family in order else len(order)
            return -place, q.min_parameters_b, q.family == model.family, q.loss_frac

        return max(levels, key=fit)

    def benchmark_of(self, loss: QualityLoss) -> str:
        return loss.benchmark or self.benchmark


class Backing(Strict):
    """What stands behind the constants for one class of models: dense ones, or mixtures of experts."""

    basis: Basis
    points: int = Field(ge=0)
    error_frac: float | None = Field(default=None, ge=0)


class Rates(Sourced):
    """What kernels of one precision reach of a GPU's datasheet."""

    compute_frac: float = Field(gt=0, le=1)
    weight_read_frac: float = Field(gt=0, le=1)
    basis: Basis = "estimated"
    points: int = Field(default=0, ge=0)
    """Measurements on this GPU in this precision that the constants were fitted to."""
    error_frac: float | None = Field(default=None, ge=0)
    """Mean absolute error on them; None without measurements."""
    dense: Backing | None = None
    moe: Backing | None = None
    """The last three for a class of models; None: as for all."""

    def for_class(self, model: Model) -> Rates:
        """The same rates, with what stands behind them for models like this one."""
        if self.basis == "measured":
            return self
        if model.has_unmeasured_attention and self.basis == "calibrated":
            unmeasured = "no model with such attention layers was measured, so for this model it is an estimate"
            unbacked = {"basis": "estimated", "points": 0, "error_frac": None, "source": f"{self.source}; {unmeasured}"}
            return self.model_copy(update=unbacked)
        own, other = (self.moe, "dense models") if model.moe else (self.dense, "mixtures of experts")
        if own is None:
            return self
        backing: dict[str, Any] = {"basis": own.basis, "points": own.points, "error_frac": own.error_frac}
        if own.basis == "estimated" and self.basis == "calibrated":
            backing["source"] = f"{self.source}; these are {other}, so for this model it is an estimate"
        return self.model_copy(update=backing)


class Efficiency(Sourced):
    """What kernels reach of a GPU's datasheet, whatever the engine."""

    rates: dict[Precision, Rates]
    attention_frac: float = Field(gt=0, le=1)
    """Share of the dense 16-bit rate that the attention of a long prompt reaches."""
    kv_read_frac: float = Field(gt=0, le=1)
    link_frac: float = Field(gt=0, le=1)
    all_reduce_latency_us: float = Field(ge=0)
    """Between two GPUs; it grows with the logarithm of their number."""
    layer_overhead_us: float = Field(ge=0)
    """Latency of a layer's kernels that no bandwidth or arithmetic explains."""
    host_factor: float = Field(default=1.0, gt=0)
    """Time that the CPUs of such servers take to launch work, against those beside an A100."""

    def rates_for(self, quantization: Quantization) -> Rates:
        """The rates of a precision; without any, those of 16 bit, as an estimate."""
        rates = self.rates.get(quantization.precision)
        guess = {"basis": "estimated", "points": 0, "error_frac": None}
        return rates or self.rates["fp16"].model_copy(update=guess)


class MoeKernels(Sourced):
    """How an engine runs the experts of a layer on GPUs of one architecture."""

    read_factor: float = Field(gt=0)
    compute_factor: float = Field(gt=0)
    layer_us: float = Field(ge=0)
    points: int = Field(default=0, ge=0)
    """Measurements of mixtures of experts that the constants were fitted to."""
    error_frac: float | None = Field(default=None, ge=0)


class Engine(Named):
    """A serving engine as a set of constants."""

    step_overhead_ms: float = Field(ge=0)
    """Scheduling and sampling, once a step."""
    layer_overhead_factor: float = Field(gt=0)
    """Times the GPU's layer_overhead_us: fused kernels and CUDA graphs lower it."""
    host_layer_us: float = Field(ge=0)
    """Launching a layer from the host: it hides behind the GPU's work unless it takes longer."""
    sequence_overhead_us: float = Field(ge=0)
    """Bookkeeping of each request in flight, every step."""
    prefill_overhead_ms: float = Field(ge=0)
    """Once for each prompt."""
    compute_factor: float = Field(gt=0)
    """Times the GPU's compute_frac."""
    weight_read_factor: float = Field(gt=0)
    """Times the GPU's weight_read_frac."""
    kv_read_factor: float = Field(gt=0)
    """Times the GPU's kv_read_frac."""
    moe_read_factor: float = Field(gt=0)
    """Expert weights against dense ones."""
    moe_compute_factor: float = Field(gt=0)
    moe_layer_us: float = Field(ge=0)
    """Routing, sorting and gathering, once a layer of experts."""
    moe_on: dict[str, MoeKernels] = {}
    """The same three on GPUs of an architecture whose kernels differ."""
    chunk_tokens: int = Field(gt=0)
    """Most prompt tokens in a step; longer prompts are prefilled in chunks."""
    mixes_prefill: bool
    """Whether a step computes prompt chunks and running requests together."""
    interruption_frac: float = Field(gt=0, le=1)
    """Share of the others' prefills that running requests wait for; less where prompts go first."""
    queue_frac: float = Field(ge=0)
    """Prefills that a request waits for before its own, at a fixed concurrency, since answers of equal length end
    together and requests come in waves: times the others in flight, or times the square root of their number where
    steps do not mix prompts with running requests and a pass prefills what waits together."""
    queued_prompts: float = Field(default=0.0, ge=0)
    """Prompts ahead of a request besides those, once many are in flight."""
    queued_steps: float | None = Field(default=None, ge=0)
    """Steps of the others that pass before a request's own prefill and the delivery of its first token; without it,
    half of one (plans that were saved without it keep their hash)."""
    max_in_flight: int = Field(gt=0)
    even_ranks: bool | None = None
    """Whether prompts wait until all data-parallel ranks have some: balanced work, at the price of TTFT."""
    usable_memory_frac: float = Field(gt=0, le=1)
    fp8_kv: bool = False
    """Whether FP8 checkpoints keep their KV cache in 8 bits unless told otherwise."""
    reserved_output_frac: float = Field(ge=0, le=1)
    """Share of the output whose KV memory a request holds on average: 0.5 as it grows, 1 if reserved."""
    basis: Basis = "estimated"
    points: int = Field(default=0, ge=0)
    error_frac: float | None = Field(default=None, ge=0)


class Price(Sourced):
    """What something costs, on a day."""

    stale: bool | None = None
    """Whether it was over a year old when the catalog was last reviewed; None: it was not."""

    @property
    def is_stale(self) -> bool:
        return bool(self.stale) or is_of_unknown_day(self.date)


class HourlyPrice(Price):
    usd_per_h: float = Field(gt=0)
    """For the whole instance."""


class SpotPrice(Price):
    p50_usd_per_h: float = Field(gt=0)
    p95_usd_per_h: float = Field(gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> SpotPrice:
        if self.p95_usd_per_h < self.p50_usd_per_h:
            raise FieldProblem(("p95_usd_per_h",), "is below p50_usd_per_h", "Write the larger price at p95_usd_per_h")
        return self


class UpfrontPrice(Price):
    """A commitment that is paid when it is signed, in part or as a whole; for the whole instance."""

    upfront_usd: float = Field(gt=0)
    """For the whole term."""
    usd_per_h: float = Field(default=0.0, ge=0)
    """Besides, for every hour of the term."""

    def spread_over(self, months: int) -> HourlyPrice:
        """What an hour comes to, with the payment spread evenly over the term."""
        usd_per_h = self.usd_per_h + self.upfront_usd / (months * HOURS_PER_MONTH)
        explained = self.model_dump(include=set(Price.model_fields))
        return HourlyPrice(usd_per_h=usd_per_h, **explained)


class BoughtPrice(Price):
    """A server that is bought, and what each month of its life costs.

    It loses value in a straight line; the capital that it ties up is charged on the mean of what it is worth at first
    and at last, so that every month of its life costs the same.
    """

    price_usd: float = Field(gt=0)
    residual_usd: float = Field(ge=0)
    """what it is worth at the end of its life"""
    life_months: int = Field(gt=0)
    lead_months: int = Field(default=0, ge=0)
    """from the order until it serves"""
    capital_frac: float = Field(default=0.0, ge=0)
    """cost of capital, a year"""
    maintenance_frac: float = Field(default=0.0, ge=0)
    """of its price, a year"""
    colocation_usd_per_month: float = Field(default=0.0, ge=0)
    usd_per_kwh: float = Field(ge=0)
    idle_kw: float = Field(ge=0)
    """what the site draws for it while no replica uses its GPUs"""
    gpu_kw: float = Field(ge=0)
    """and for each GPU that one uses, besides, at the most that it draws"""

    @property
    def term(self) -> str:
        return bought_term(self.life_months)

    @property
    def lead_quarters(self) -> int:
        """Whole quarters from its order until it serves: what comes within one serves from the next one on."""
        return -(-self.lead_months // 3)

    @property
    def depreciation_usd_per_month(self) -> float:
        return (self.price_usd - self.residual_usd) / self.life_months

    @property
    def capital_usd_per_month(self) -> float:
        return self.capital_frac * (self.price_usd + self.residual_usd) / 2 / 12

    @property
    def maintenance_usd_per_month(self) -> float:
        return self.maintenance_frac * self.price_usd / 12

    @property
    def idle_usd_per_month(self) -> float:
        """Energy that is drawn whatever runs."""
        return HOURS_PER_MONTH * self.idle_kw * self.usd_per_kwh

    @property
    def usd_per_gpu_h(self) -> float:
        """Energy of a GPU in use, besides."""
        return self.gpu_kw * self.usd_per_kwh

    @property
    def usd_per_month(self) -> float:
        """Of every month of its life, used or not."""
        capital = self.depreciation_usd_per_month + self.capital_usd_per_month
        return capital + self.maintenance_usd_per_month + self.colocation_usd_per_month + self.idle_usd_per_month

    def book_usd(self, months: float) -> float:
        """What it is worth after so many months of its life."""
        return self.price_usd - self.depreciation_usd_per_month * min(months, self.life_months)

    def spread(self) -> HourlyPrice:
        """What an hour of its life comes to, energy of GPUs in use aside."""
        explained = self.model_dump(include=set(Price.model_fields))
        return HourlyPrice(usd_per_h=self.usd_per_month / HOURS_PER_MONTH, **explained)


class OfferPrices(Strict):
    on_demand: HourlyPrice | None = None
    spot: SpotPrice | None = None
    reserved_1y: HourlyPrice | None = None
    reserved_3y: HourlyPrice | None = None
    reserved_1y_upfront: UpfrontPrice | None = None
    reserved_3y_upfront: UpfrontPrice | None = None
    bought: BoughtPrice | None = None
    """a server of one's own"""

    def by_way(self) -> dict[str, HourlyPrice | SpotPrice]:
        """Every price by way to buy; a payment up front is spread over its term."""
        always = {"on-demand": self.on_demand, "spot": self.spot}
        return {way: price for way, price in always.items() if price is not None} | self.reserved()

    def reserved(self) -> dict[str, HourlyPrice]:
        """What an hour of each commitment costs; a payment up front is spread over its term."""
        terms = {"reserved-1y": self.reserved_1y, "reserved-3y": self.reserved_3y}
        hourly = {term: price for term, price in terms.items() if price is not None}
        if self.bought is not None:
            hourly[self.bought.term] = self.bought.spread()
        return hourly | {term: price.spread_over(term_months(term)) for term, price in self.upfront().items()}

    def upfront(self) -> dict[str, UpfrontPrice]:
        """Commitments that are paid when they are signed, as they are paid."""
        terms = {"reserved-1y-upfront": self.reserved_1y_upfront, "reserved-3y-upfront": self.reserved_3y_upfront}
        return {term: price for term, price in terms.items() if price is not None}


MOST_NETWORK_GB_PER_S, MOST_NVLINK_GB_PER_S = 200.0, 4000.0
"""for a GPU, one way: twice what 800 Gbit/s come to, and more than any rack has"""


class BoxLink(Sourced):
    """What connects the GPUs of one instance with those of another one."""

    kind: Literal["efa", "infiniband", "roce", "nvlink", "ethernet"]
    gb_per_s: float = Field(gt=0)
    """Per GPU, one way."""
    domain_gpus: int | None = Field(default=None, gt=0)
    """GPUs that it connects, as those of a rack; None: as many as a replica may have."""

    @model_validator(mode="after")
    def _is_in_bytes(self) -> Self:
        most = MOST_NVLINK_GB_PER_S if self.kind == "nvlink" else MOST_NETWORK_GB_PER_S
        if self.gb_per_s > most:
            message = (
                f"is above {most:g} GB/s for a GPU on {self.kind}, as a rate in Gbit/s or of the whole box would be"
            )
            raise FieldProblem(("gb_per_s",), message, "Write GB/s for each GPU, one way, such as 50 for 400 Gbit/s")
        return self

    @property
    def is_fast(self) -> bool:
        """Whether GPUs reach those of another box without their hosts."""
        return self.kind != "ethernet"


class Offer(Sourced):
    """A whole instance that can be rented in a region."""

    provider: str
    instance: str
    region: str
    gpu: str
    gpus: int = Field(gt=0, le=1024)
    spot_zones: int = Field(default=1, ge=1, le=100)
    """Zones of the region that sell it as spot; a reclaim is taken to empty one of them at a time."""
    available: int | None = Field(default=None, ge=0)
    """Most instances of it that can be had at a time; a limit of every plan. None: nobody said."""
    host_memory_gib: float | None = Field(default=None, gt=0)
    """Memory of the whole box beside that of its GPUs, which may keep the KV cache of sessions. None: nobody said."""
    interconnect: BoxLink | None = None
    """Between such instances, for replicas that span several of them. None: nobody said."""
    prices: OfferPrices


class ApiTier(Strict):
    """Prices of a request whose input exceeds a length."""

    above_input_tokens: int = 0
    input_usd_per_1m: float = Field(ge=0)
    cached_input_usd_per_1m: float | None = Field(default=None, ge=0)
    """None: cached input costs as much as any input."""
    cache_write_usd_per_1m: float | None = Field(default=None, ge=0)
    """Input that is to be cached. None: as much as any input."""
    output_usd_per_1m: float = Field(ge=0)


class ApiPrices(Sourced):
    """Prices per token, by the length of the request."""

    tiers: tuple[ApiTier, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _starts_at_zero(self) -> Self:
        if all(tier.above_input_tokens for tier in self.tiers):
            raise FieldProblem(("tiers",), "has no price for short requests", "Add a tier without above_input_tokens")
        return self

    def usd(
        self, input_tokens: float, cached_tokens: float, output_tokens: float, written_tokens: float = 0.0
    ) -> float:
        """One request; its length decides the tier of all of its tokens. Written ones are to be cached."""
        reached = [t for t in self.tiers if input_tokens > t.above_input_tokens or t.above_input_tokens == 0]
        tier = max(reached, key=lambda t: t.above_input_tokens)
        cached_price = tier.cached_input_usd_per_1m
        cached_price = tier.input_usd_per_1m if cached_price is None else cached_price
        fresh = (input_tokens - cached_tokens) * tier.input_usd_per_1m
        if written_tokens and tier.cache_write_usd_per_1m is not None:
            fresh += written_tokens * (tier.cache_write_usd_per_1m - tier.input_usd_per_1m)
        return (fresh + cached_tokens * cached_price + output_tokens * tier.output_usd_per_1m) / 1e6


class ApiBatch(ApiPrices):
    """Prices of requests that may wait."""

    turnaround_h: float = Field(gt=0)
    """Hours within which the provider answers."""


ServiceTier = Literal["priority", "flex"]


class ApiModel(ApiPrices, Named):
    """A model sold by the token."""

    provider: str
    model: str
    max_context_tokens: int | None = Field(default=None, gt=0)
    """Tokens of the longest request that it takes. None: not known, and taken to be as long as any."""
    batch: ApiBatch | None = None
    """Where the provider has a cheaper price for work that waits."""
    service_tier: ServiceTier | None = None
    """Priority is answered before the rest; flex when there is room, without a promise of time. None: as it is sold."""

    def request_usd(
        self,
        input_tokens: float,
        cached_tokens: float,
        output_tokens: float,
        wait_h: float = 0.0,
        written_tokens: float = 0.0,
    ) -> float:
        """One request whose answer may take so many hours: at the batch price where that is kept and cheaper."""
        usd = self.usd(input_tokens, cached_tokens, output_tokens, written_tokens)
        if self.batch is None or self.batch.turnaround_h > wait_h:
            return usd
        return min(usd, self.batch.usd(input_tokens, cached_tokens, output_tokens))


class Shape(Sourced):
    """Relative rates by hour of a weekday and of a weekend day."""

    weekday: tuple[Annotated[float, Field(ge=0)], ...] = Field(min_length=24, max_length=24)
    weekend: tuple[Annotated[float, Field(ge=0)], ...] = Field(min_length=24, max_length=24)

    @model_validator(mode="after")
    def _some_hour_has_requests(self) -> Shape:
        if not any(self.weekday) and not any(self.weekend):
            raise FieldProblem(("weekday",), "is zero at every hour, as is 'weekend'", "Give an hour a weight")
        return self


class TrafficKind(Sourced):
    """What is known of workloads that are alike, for what a demand file does not say."""

    burstiness: float = Field(gt=0)
    """squared CV of the gaps between requests, each over the mean gap of its minute"""
    ttft_s: float = Field(default=0.0, ge=0)
    """objective at p95; 0: the deadline"""
    ttft_why: str = ""
    tpot_s: float = Field(gt=0)
    tpot_why: str


@cache
def traffic_kinds() -> dict[str, TrafficKind]:
    entries = shipped_entries("traffic_kinds")
    return {name: TrafficKind.model_validate(entry, strict=False) for name, entry in entries.items()}


class Catalog(Strict):
    """All entries by name."""

    gpus: dict[str, Gpu] = {}
    offers: dict[str, Offer] = {}
    models: dict[str, Model] = {}
    quantizations: dict[str, Quantization] = {}
    apis: dict[str, ApiModel] = {}
    efficiency: dict[str, Efficiency] = {}
    engines: dict[str, Engine] = {}
    shapes: dict[str, Shape] = {}

    def efficiency_of(self, gpu: str) -> Efficiency:
        """The constants of a GPU, else those of its family, else the general ones."""
        family = self.gpus[gpu].architecture if gpu in self.gpus else "default"
        return self.efficiency.get(gpu) or self.efficiency.get(family) or self.efficiency["default"]


KINDS = tuple(Catalog.model_fields)


@cache
def shipped_data() -> dict[str, dict[str, Any]]:
    """The shipped catalog as plain data, one mapping of entries per kind."""
    shipped = {kind: shipped_entries(kind) for kind in KINDS}
    return {kind: entries for kind, entries in shipped.items() if entries}


@cache
def shipped_catalog() -> Catalog:
    return Catalog.model_validate_json(json.dumps(shipped_data()))


def find(name: str, entries: Mapping[str, Any]) -> str | None:
    """The key of an entry by its key or one of its aliases, whatever the case."""
    wanted = name.strip().lower()
    if name in entries:
        return name
    for key, entry in entries.items():
        if wanted == key.lower() or wanted in (alias.lower() for alias in getattr(entry, "aliases", ())):
            return key
    return None


def names_of(entries: Mapping[str, Any]) -> Iterable[str]:
    for key, entry in entries.items():
        yield key
        yield from getattr(entry, "aliases", ())
