"""The shipped catalog: every figure has a source, and the figures agree with each other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from planner.case.case import CacheCosts
from planner.catalog import apis as api_prices
from planner.catalog.entries import shipped_catalog
from planner.catalog.model_config.config import ModelConfig
from planner.catalog.model_config.entry import make_entry
from planner.catalog.names import find_model, later_releases, unknown_model, wanted_models
from tests.support.model_configs import (
    DEEPSEEK_V4_FLASH,
    DEEPSEEK_V4_PRO,
    GLM_53_FLASH,
    KIMI_K3,
    MIMO,
    MINIMAX_M3,
    NEMOTRON_NANO,
    NEMOTRON_SUPER,
    NEMOTRON_ULTRA,
    QWEN_38,
)
from tests.support.places import ROOT
from tests.support.rows import for_each

DATA = ROOT / "planner" / "data"
QUICK_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FILES = ("gpus", "offers", "models", "quantizations", "batch_windows", "batch_prices", "cache_costs")


def load(file: str) -> dict[str, Any]:
    content = yaml.load((DATA / f"{file}.yaml").read_text(encoding="utf-8"), QUICK_LOADER)
    sections = set(content) - ({"bases"} if file == "offers" else set())
    assert sections == {file}, f"{file}.yaml must hold the one section {file!r}, has {sorted(content)}"
    entries: dict[str, Any] = content[file]
    return entries


CATALOG = {file: load(file) for file in FILES}
GPUS, OFFERS, MODELS, QUANTIZATIONS, WINDOWS, BATCH_PRICES, CACHE_COSTS = (CATALOG[file] for file in FILES)
ENTRIES = [(file, key) for file in FILES for key in CATALOG[file]]

REQUIRED = {
    "gpus": {"t4", "l4", "a10g", "l40s", "a100-40gb", "a100-80gb", "h100", "h200", "b200", "mi300x"},
    "models": {
        "llama-2-7b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "llama-3.3-70b",
        "mixtral-8x7b", "mixtral-8x22b", "mistral-7b-v0.3", "qwen2.5-7b", "qwen2.5-72b", "qwen3-32b",
        "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3", "deepseek-r1", "gpt-oss-20b", "gpt-oss-120b",
        "gemma-2-9b", "gemma-3-27b", "kimi-k2",
    },
    "quantizations": {"fp16", "fp8", "int8", "int4-awq", "int4-gptq", "mxfp4", "nvfp4"},
}  # fmt: skip

PRECISIONS = {"fp16", "fp8", "int8", "fp4"}

# DeepSeek-V3 and Kimi-K2 compress queries to this rank; heads are 128 wide plus rope_dim, values 128.
MLA_QUERY_RANK, MLA_VALUE_DIM = 1536, 128


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def has_source(mapping: dict[str, Any]) -> bool:
    source, date = mapping.get("source"), mapping.get("date")
    return isinstance(source, str) and bool(source.strip()) and isinstance(date, str) and bool(date)


def unsourced(node: object, path: str, sourced: bool = False) -> Iterator[str]:
    """Paths of the numbers below no mapping that has both a source and a date."""
    if isinstance(node, dict):
        sourced = sourced or has_source(node)
        for key, value in node.items():
            yield from unsourced(value, f"{path}.{key}", sourced)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from unsourced(value, f"{path}[{index}]", sourced)
    elif is_number(node) and not sourced:
        yield path


def mappings(node: object, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        yield path, node
        for key, value in node.items():
            yield from mappings(value, f"{path}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from mappings(value, f"{path}[{index}]")


def numbers(node: object, path: str) -> Iterator[tuple[str, float]]:
    for where, mapping in mappings(node, path):
        for key, value in mapping.items():
            if is_number(value):
                yield f"{where}.{key}", value


def test_unsourced_number_is_found() -> None:
    """The rule itself: a number without a source, or with a source but no date, is reported."""
    assert list(unsourced({"a": 1}, "x")) == ["x.a"]
    assert list(unsourced({"a": 1, "source": "s"}, "x")) == ["x.a"]
    assert list(unsourced({"a": [{"b": 2.5}], "source": " ", "date": "2026-01-01"}, "x")) == ["x.a[0].b"]
    assert list(unsourced({"a": {"b": 1}, "source": "s", "date": "2026-01-01"}, "x")) == []


@for_each(("file", "key"), ENTRIES)
def test_every_number_has_source_and_date(file: str, key: str) -> None:
    missing = list(unsourced(CATALOG[file][key], key))
    assert not missing, f"{file}.yaml: no source and date above {missing}"


@for_each(("file", "key"), ENTRIES)
def test_dates_are_quoted_and_plausible(file: str, key: str) -> None:
    for path, mapping in mappings(CATALOG[file][key], key):
        if "date" in mapping or "source" in mapping:
            assert {"date", "source"} <= set(mapping), f"{file}.yaml: {path} has one of date and source only"
            date = mapping["date"]
            assert isinstance(date, str), f"{file}.yaml: {path}.date must be quoted"
            parsed = dt.datetime.strptime(date, "%Y-%m-%d").date()
            assert parsed.isoformat() == date, f"{file}.yaml: {path}.date {date} is not YYYY-MM-DD"
            assert parsed.year >= 2023, f"{file}.yaml: {path}.date {date} is too old"


@for_each(("file", "key"), ENTRIES)
def test_numbers_are_not_negative(file: str, key: str) -> None:
    may_be_zero = ("loss_frac", "min_parameters_b", "shared_experts", "dense_layers", "full_attention_layers", "usd",
                   "rope_dim")  # fmt: skip
    for path, value in numbers(CATALOG[file][key], key):
        zero_allowed = path.rsplit(".", 1)[-1] in may_be_zero
        assert value > 0 or (zero_allowed and value == 0), f"{file}.yaml: {path} is {value}"


@for_each("file", sorted(REQUIRED))
def test_required_entries_are_present(file: str) -> None:
    missing = REQUIRED[file] - set(CATALOG[file])
    assert not missing, f"{file}.yaml lacks {sorted(missing)}"


def test_required_providers_are_present() -> None:
    providers = {offer["provider"] for offer in OFFERS.values()}
    assert {"aws", "azure", "gcp", "oci"} <= providers, f"offers.yaml has only {sorted(providers)}"
    assert len(providers - {"aws", "azure", "gcp", "oci"}) >= 2, f"fewer than two GPU clouds in {sorted(providers)}"


WITHOUT_PRICE = {"gb200", "gb300"}
"""measured, so that estimates and a user's own offers can name them; nobody publishes a price of them by the hour"""


@for_each("gpu", sorted(set(GPUS) - WITHOUT_PRICE))
def test_every_gpu_can_be_rented(gpu: str) -> None:
    assert any(offer["gpu"] == gpu for offer in OFFERS.values()), f"no offer in offers.yaml has {gpu}"


@for_each("file", FILES)
def test_keys_are_unique_and_sorted(file: str) -> None:
    """PyYAML keeps the last of two equal keys without a word, so they are counted in the text."""
    text = (DATA / f"{file}.yaml").read_text(encoding="utf-8").partition(f"\n{file}:\n")[2]
    lines = [line.partition(" &")[0] for line in text.splitlines() if line.startswith("  ") and line[2] != " "]
    keys = [line.strip()[:-1] for line in lines]
    assert keys == list(CATALOG[file]), f"{file}.yaml repeats a key"
    assert keys == sorted(keys), f"{file}.yaml is not sorted"


@pytest.mark.parametrize("file", ["gpus", "models", "quantizations"])
def test_names_are_unique(file: str) -> None:
    owner: dict[str, str] = {}
    for key, entry in CATALOG[file].items():
        aliases = [alias.casefold() for alias in entry["aliases"]]
        assert len(aliases) == len(set(aliases)), f"{file}.yaml: {key} repeats an alias"
        for name in {key.casefold(), entry["name"].casefold(), *aliases}:
            other = owner.setdefault(name, key)
            assert other == key, f"{file}.yaml: {name!r} means both {other} and {key}"


# GPUs


MADE_FOR_FP4 = {("b300", "fp4"), ("gb300", "fp4")}
"""about six times FP16"""


@for_each("key", GPUS)
def test_gpu_rates(key: str) -> None:
    gpu = GPUS[key]
    rates = gpu["dense_tflops"]
    assert "fp16" in rates and set(rates) <= PRECISIONS, f"{key}: precisions {sorted(rates)}"
    for precision, factor in (("fp8", 2), ("int8", 2), ("fp4", 4)):
        if precision in rates and (key, precision) not in MADE_FOR_FP4:
            ratio = rates[precision] / rates["fp16"]
            assert ratio == pytest.approx(factor, rel=0.03), (
                f"{key}: {precision} is {ratio:.2f} x fp16, not about {factor}: is one of them sparse?"
            )
    assert gpu["interconnect"]["kind"] in {"nvlink", "pcie", "infinity-fabric"}, key
    if gpu["interconnect"]["kind"] == "pcie":
        assert gpu["interconnect"]["gb_per_s"] in {32, 64, 128}, f"{key}: not a PCIe x16 rate"
    assert gpu["bandwidth_gb_per_s"] > 100, f"{key}: bandwidth must be in GB/s"


def test_a10g_is_not_an_a10() -> None:
    assert GPUS["a10g"]["dense_tflops"]["fp16"] == 70
    assert "A10 " in GPUS["a10g"]["notes"] or "A10." in GPUS["a10g"]["notes"]


def test_bare_a100_is_no_name() -> None:
    names = {name.casefold() for key, gpu in GPUS.items() for name in (key, gpu["name"], *gpu["aliases"])}
    assert "a100" not in names, "A100 alone could be 40 or 80 GB"


# Offers


@for_each("key", OFFERS)
def test_offer_key_and_gpu(key: str) -> None:
    offer = OFFERS[key]
    assert key == f"{offer['provider']}/{offer['instance']}@{offer['region']}"
    assert offer["gpu"] in GPUS, f"{key}: gpus.yaml has no {offer['gpu']}"
    assert offer["gpus"] in {1, 2, 4, 8, 16}, f"{key}: {offer['gpus']} GPUs"


@for_each("key", OFFERS)
def test_offer_prices_are_ordered(key: str) -> None:
    prices = OFFERS[key]["prices"]
    ways = {"on_demand", "spot", "reserved_1y", "reserved_3y", "reserved_3y_upfront"}
    assert set(prices) <= ways, f"{key}: {sorted(prices)}"
    for purchase, price in prices.items():
        assert has_source(price), f"{key}: {purchase} has no source and date of its own"
    on_demand = prices["on_demand"]["usd_per_h"]
    per_gpu = on_demand / OFFERS[key]["gpus"]
    assert 0.1 <= per_gpu <= 30, f"{key}: {per_gpu:.2f} USD per GPU and hour"
    if "spot" in prices:
        p50, p95 = prices["spot"]["p50_usd_per_h"], prices["spot"]["p95_usd_per_h"]
        assert p50 <= p95 <= on_demand and 0.05 * on_demand < p50 < on_demand, (
            f"{key}: spot {p50} / {p95} against on-demand {on_demand}"
        )
    assert ("reserved_1y" in prices) == ("reserved_3y" in prices), f"{key}: one commitment without the other"
    if "reserved_1y" in prices:
        one, three = prices["reserved_1y"]["usd_per_h"], prices["reserved_3y"]["usd_per_h"]
        assert 0.3 * on_demand < three < one < on_demand, f"{key}: reserved {one} / {three}, on-demand {on_demand}"
        if "reserved_3y_upfront" in prices:
            upfront = prices["reserved_3y_upfront"]["upfront_usd"] / (3 * 8760)
            assert 0.25 * on_demand < upfront < three, f"{key}: {upfront} up front, {three} without"


AWS = [key for key, offer in OFFERS.items() if offer["provider"] == "aws"]


@for_each("key", AWS)
def test_aws_commitments_without_a_published_price_are_labelled_assumptions(key: str) -> None:
    for term in ("reserved_1y", "reserved_3y"):
        assert OFFERS[key]["prices"][term].get("assumption"), f"{key}: {term} is no published price"


def test_the_assumption_about_aws_commitments_is_stated_once() -> None:
    texts = {OFFERS[key]["prices"][term]["assumption"] for key in AWS for term in ("reserved_1y", "reserved_3y")}
    assert len(texts) == 1
    text = " ".join((DATA / "offers.yaml").read_text(encoding="utf-8").split())
    assert text.count(texts.pop()) == 1
    assert "publishes no" not in text, "AWS publishes what it asks for commitments"


@for_each("key", [key for key in AWS if OFFERS[key]["region"] == "us-east-1"])
def test_three_years_of_aws_all_up_front_are_published(key: str) -> None:
    price = OFFERS[key]["prices"]["reserved_3y_upfront"]
    assert "assumption" not in price and price["date"] == "2026-06-09", key


@for_each(
    ("instance", "annual_usd"),
    [("p5.48xlarge", 181288.67), ("p6-b300.48xlarge", 469084.16), ("g7e.2xlarge", 11077.28), ("g6e.xlarge", 6129.67)],
)
def test_a_payment_up_front_is_for_three_years(instance: str, annual_usd: float) -> None:
    """As published, by the year."""
    price = OFFERS[f"aws/{instance}@us-east-1"]["prices"]["reserved_3y_upfront"]
    assert price["upfront_usd"] == pytest.approx(3 * annual_usd, abs=0.01)


REVIEWED = dt.date(2026, 11, 17)
"""when the prices were last looked through"""


@for_each("key", OFFERS)
def test_prices_over_a_year_old_are_marked_stale(key: str) -> None:
    for way, price in OFFERS[key]["prices"].items():
        days = (REVIEWED - dt.date.fromisoformat(price["date"])).days
        assert price.get("stale", False) == (days > 365), f"{key}: {way} is {days} days old"


@for_each("gpu", ["h100", "h200", "b300", "rtx-pro-6000-server"])
def test_new_gpus_and_europe(gpu: str) -> None:
    """Fresh prices in the United States and in Europe."""
    fresh = [o for o in OFFERS.values() if o["gpu"] == gpu and not o["prices"]["on_demand"].get("stale")]
    regions = {o["region"] for o in fresh}
    assert regions & {"us-east-1", "us-central1"}
    assert any(region.startswith(("eu", "uk")) for region in regions), regions


def test_the_page_about_prices_counts_what_is_shipped() -> None:
    page = (ROOT / "docs" / "reference" / "prices.md").read_text(encoding="utf-8")
    places = {(offer["provider"], offer["region"]) for offer in OFFERS.values()}
    assert f"{len(OFFERS)} offers of eight providers in {len(places)} regions" in page
    assert all(f"`{provider}`" in page for provider, _ in places)


@for_each("gpu", sorted({offer["gpu"] for offer in OFFERS.values()}))
def test_prices_of_one_gpu_are_comparable(gpu: str) -> None:
    """A box priced as one GPU, or one GPU as a box of eight, would stand out by a factor of eight."""
    per_gpu = {
        key: offer["prices"]["on_demand"]["usd_per_h"] / offer["gpus"]
        for key, offer in OFFERS.items()
        if offer["gpu"] == gpu
    }
    cheapest, dearest = min(per_gpu, key=per_gpu.__getitem__), max(per_gpu, key=per_gpu.__getitem__)
    assert per_gpu[dearest] < 6 * per_gpu[cheapest], f"{dearest} {per_gpu[dearest]:.2f}, {cheapest}"


@for_each(
    ("instance", "gpu", "count"),
    [("p4d.24xlarge", "a100-40gb", 8), ("p4de.24xlarge", "a100-80gb", 8), ("p5.48xlarge", "h100", 8),
     ("p5.4xlarge", "h100", 1), ("p5en.48xlarge", "h200", 8), ("p6-b200.48xlarge", "b200", 8),
     ("g6e.12xlarge", "l40s", 4), ("g6.xlarge", "l4", 1), ("a2-highgpu-8g", "a100-40gb", 8),
     ("a2-ultragpu-1g", "a100-80gb", 1), ("a3-highgpu-8g", "h100", 8), ("g2-standard-24", "l4", 2)],
)  # fmt: skip
def test_known_boxes(instance: str, gpu: str, count: int) -> None:
    boxes = {(offer["gpu"], offer["gpus"]) for offer in OFFERS.values() if offer["instance"] == instance}
    assert boxes == {(gpu, count)}, f"{instance} is listed as {boxes}"


# Models


BY_CONFIG = {
    "deepseek-v4-flash": DEEPSEEK_V4_FLASH, "deepseek-v4-flash-0731": DEEPSEEK_V4_FLASH,
    "deepseek-v4-pro": DEEPSEEK_V4_PRO, "deepseek-v4-pro-0813": DEEPSEEK_V4_PRO, "glm-5.3-flash": GLM_53_FLASH,
    "kimi-k3": KIMI_K3, "mimo-v2-flash": MIMO, "minimax-m3": MINIMAX_M3, "nemotron-3-nano-30b-a3b": NEMOTRON_NANO,
    "nemotron-3-super-120b-a12b": NEMOTRON_SUPER, "nemotron-3-ultra-550b-a55b": NEMOTRON_ULTRA,
    "nemotron-3.5-lightning-30b-a3b": NEMOTRON_NANO, "qwen3.8-2.4t-a95b": QWEN_38,
}  # fmt: skip
"""entries whose weights depend on widths that only their configuration states"""


@for_each("key", BY_CONFIG)
def test_entries_with_uncommon_layers_are_those_of_their_configuration(key: str) -> None:
    made = make_entry(ModelConfig("config.json", BY_CONFIG[key]), key).model
    shape = ("parameters_b", "active_parameters_b", "layers", "hidden", "query_heads", "kv_heads", "head_dim", "ffn",
             "vocab", "attention", "sliding", "linear", "mla", "sparse", "compressed", "ffn_matrices")  # fmt: skip
    shipped = shipped_catalog().models[key]
    assert {name: getattr(shipped, name) for name in shape} == {name: getattr(made, name) for name in shape}
    assert shipped.moe is not None and made.moe is not None
    alone = {"quantized_alone", "other_bits"}
    assert shipped.moe.model_dump(exclude=alone) == made.moe.model_dump(exclude=alone)


def parameters(key: str, active: bool = False) -> float:
    """Weights of the matrices, from the architecture; norms, biases and routing offsets are left out."""
    model = MODELS[key]
    hidden, heads, head_dim = model["hidden"], model["query_heads"], model["head_dim"]
    if model["attention"] == "mla":
        rank, rope = model["mla"]["kv_lora_rank"], model["mla"]["rope_dim"]
        query = model["mla"].get("query_lora_rank", MLA_QUERY_RANK)
        value = model["mla"].get("value_dim", MLA_VALUE_DIM)
        attention = (
            query * (hidden + heads * head_dim)
            + hidden * (rank + rope)
            + rank * heads * (head_dim - rope + value)
            + heads * value * hidden
        )
        if "sparse" in model:
            keys = model["sparse"]["index_heads"] * model["sparse"]["index_dim"]
            index = query * keys + hidden * (model["sparse"]["index_dim"] + model["sparse"]["index_heads"])
            attention += index * model["sparse"].get("index_layers", model["layers"]) / model["layers"]
    elif "linear" in model:
        line = model["linear"]
        keys, values = line["key_heads"] * line["head_dim"], line["value_heads"] * line["head_dim"]
        state = hidden * (2 * keys + 3 * values + 2 * line["value_heads"])
        gated = hidden * head_dim * (3 * heads + 2 * model["kv_heads"])
        full = line["full_attention_layers"]
        attention = (full * gated + (model["layers"] - full) * state) / model["layers"]
    elif "full_head_dim" in model.get("sliding", {}):  # Gemma 4: in full layers the keys are the values
        full, window = model["sliding"], 2 * hidden * head_dim * (heads + model["kv_heads"])
        own = hidden * full["full_head_dim"] * (2 * heads + full["full_kv_heads"])
        share = full["full_attention_layers"] / model["layers"]
        attention = share * own + (1 - share) * window
    else:
        attention = 2 * hidden * head_dim * (heads + model["kv_heads"])
    dense = model.get("ffn_matrices", 3) * hidden * model["ffn"]
    layers = model["layers"]
    if "moe" in model:
        moe = model["moe"]
        used = (moe["experts_per_token"] if active else moe["experts"]) + moe["shared_experts"]
        sparse = 3 * hidden * moe["expert_ffn"] * used + hidden * moe["experts"]
        feed_forward = moe["dense_layers"] * dense + (layers - moe["dense_layers"]) * sparse
    else:
        feed_forward = layers * dense
    embeddings = model["vocab"] * hidden * (1 if model.get("tied_embeddings") else 2)
    return float(layers * attention + feed_forward + embeddings)


@for_each("key", sorted(set(MODELS) - set(BY_CONFIG)))
def test_parameters_follow_from_the_architecture(key: str) -> None:
    model = MODELS[key]
    assert model["parameters_b"] * 1e9 == pytest.approx(parameters(key), rel=0.004, abs=6e6), key
    assert model["active_parameters_b"] * 1e9 == pytest.approx(parameters(key, active=True), rel=0.004, abs=6e6), key


@for_each("key", MODELS)
def test_model_is_consistent(key: str) -> None:
    model = MODELS[key]
    heads, kv_heads = model["query_heads"], model["kv_heads"]
    assert heads % kv_heads == 0, f"{key}: {heads} query heads over {kv_heads} KV heads"
    if model["attention"] == "mla":
        assert "mla" in model, f"{key}: MLA without its ranks"
    else:
        assert model["attention"] == ("mha" if heads == kv_heads else "gqa"), key
        assert "mla" not in model, key
    if "moe" in model:
        assert model["moe"]["experts_per_token"] < model["moe"]["experts"], key
        assert model["active_parameters_b"] < model["parameters_b"], key
    else:
        assert model["active_parameters_b"] == model["parameters_b"], f"{key}: dense, yet partly active"
    if "sliding" in model:
        assert model["sliding"]["full_attention_layers"] < model["layers"], key
        assert model["sliding"]["window_tokens"] < model["max_context_tokens"], f"{key}: window never slides"
    assert model["native_quantization"] in QUANTIZATIONS, key


def test_wanted_models_are_those_that_have_no_entry() -> None:
    for name, wanted in wanted_models().items():
        for spelling in (name, *wanted.aliases):
            assert find_model(spelling, shipped_catalog().models) is None, f"{spelling} has an entry: take it out"
            assert wanted.why_missing == unknown_model(spelling, MODELS)
        assert has_source(wanted.model_dump()), name
    assert list(wanted_models()) == sorted(wanted_models())


def test_a_later_release_is_of_the_same_maker_and_the_last_of_its_line() -> None:
    later = later_releases()
    for old, new in later.items():
        assert {old, new} <= set(MODELS) and new not in later, f"{old}: {new}"
        maker = MODELS[old]["checkpoint"].partition("/")[0]
        assert MODELS[new]["checkpoint"].partition("/")[0] == maker, f"{old}: {new}"
        assert 0.5 < MODELS[new]["parameters_b"] / MODELS[old]["parameters_b"] < 2, f"{old}: {new}"
    assert list(later) == sorted(later)


# Quantizations


@for_each("key", QUANTIZATIONS)
def test_quantization_is_consistent(key: str) -> None:
    entry = QUANTIZATIONS[key]
    assert entry["compute"] in PRECISIONS, f"{key}: computes in {entry['compute']}"
    assert entry["needs"] in PRECISIONS | {"none"}, f"{key}: needs {entry['needs']}"
    assert entry["needs"] in {entry["compute"], "none"}, f"{key}: needs one precision, computes in another"
    assert 4 <= entry["weight_bits"] <= 16, f"{key}: {entry['weight_bits']} bits"
    assert entry["kv_bits"] in {8, 16}, f"{key}: {entry['kv_bits']} bits"
    assert any(entry["compute"] in gpu["dense_tflops"] for gpu in GPUS.values()), f"{key} runs on no GPU"


@for_each("key", QUANTIZATIONS)
def test_quality_loss_levels(key: str) -> None:
    entry = QUANTIZATIONS[key]
    by_benchmark: dict[str, list[tuple[float, str]]] = {}
    for level in entry["quality_loss"]:
        place = (level["min_parameters_b"], level["measured_on"])
        by_benchmark.setdefault(level.get("benchmark", entry["benchmark"]), []).append(place)
    assert by_benchmark[entry["benchmark"]][0][0] == 0, f"{key}: a small model has no quality loss stated"
    for benchmark, places in by_benchmark.items():
        sizes = [size for size, _ in places]
        assert sizes == sorted(sizes), f"{key}, {benchmark}: levels out of order: {sizes}"
        assert len(places) == len(set(places)), f"{key}, {benchmark}: a model twice"
    for level in entry["quality_loss"]:
        assert 0 <= level["loss_frac"] < 0.2, f"{key}: loss {level['loss_frac']} is not a fraction"
        assert level["measured_on"] and level.get("benchmark", entry["benchmark"]), key
        assert has_source(level), f"{key}: a level without its own source and date"


def test_known_losses() -> None:
    losses = {key: [level["loss_frac"] for level in q["quality_loss"]] for key, q in QUANTIZATIONS.items()}
    assert losses["fp16"] == [0]
    assert losses["fp8"] == [0.015, 0.0038]
    assert losses["int4-awq"] == [0.0566, 0.0107]


def test_native_formats_need_what_the_gpu_has() -> None:
    """FP8 needs Ada, Hopper or newer; FP4 needs Blackwell."""
    with_fp8 = {key for key, gpu in GPUS.items() if "fp8" in gpu["dense_tflops"]}
    assert with_fp8.isdisjoint({"t4", "a10g", "a100-40gb", "a100-80gb", "a100-80gb-pcie"})
    assert {"l4", "l40s", "h100", "h200", "b200", "mi300x"} <= with_fp8
    with_fp4 = {key for key, gpu in GPUS.items() if "fp4" in gpu["dense_tflops"]}
    assert with_fp4 == {"b200", "b300", "gb200", "gb300", "rtx-pro-6000-server"}


# Batch APIs and caches


def test_every_api_model_has_a_price_by_the_name_it_is_listed_by() -> None:
    """A plan that hosts gpt-oss-120b is compared with fireworks/gpt-oss-120b, which answers to a longer name."""
    missing = [name for name in api_prices.known_api_models() if api_prices.api_model(name) is None]
    assert missing == []


def test_batch_windows_are_those_of_providers_with_batch_prices() -> None:
    assert set(WINDOWS) == {"anthropic", "azure", "google", "openai"}
    for provider, window in WINDOWS.items():
        assert window["turnaround_h"] == 24, provider
        named = [*api_prices.known_api_models(), *api_prices.batch_prices()]
        with_batch = [n for n in named if n.startswith(f"{provider}/")]
        assert any((model := api_prices.api_model(n)) and model.batch for n in with_batch), provider


def test_batch_prices_of_our_own_are_half_of_the_standard_ones() -> None:
    """As the seller says of all of them; a standard price that has moved since makes the entry stale."""
    for name, entry in BATCH_PRICES.items():
        model = api_prices.api_model(name)
        assert model is not None and model.batch is not None, name
        (standard,), (batch,) = model.tiers, model.batch.tiers
        assert 2 * batch.input_usd_per_1m == standard.input_usd_per_1m, name
        assert 2 * batch.output_usd_per_1m == standard.output_usd_per_1m, name
        assert entry["source"] in model.batch.source and model.batch.date == entry["date"], name
        assert model.batch.turnaround_h == WINDOWS[name.partition("/")[0]]["turnaround_h"], name


def test_every_cost_of_caches_has_a_default() -> None:
    assert set(CACHE_COSTS) == set(CacheCosts.model_fields)
    assert CACHE_COSTS["vector_store_usd_per_month"].get("assumption"), "nobody publishes one price for all"
