"""The JSON schema that editors check demand files with agrees with the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import planner
from planner.case.demand.starter import demand_schema_text, make_demand_schema, starter_text
from planner.io.strict_yaml import parse_yaml
from tests.support.command_line import SMALL
from tests.support.places import ROOT, TESTS
from tests.support.rows import for_each

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
BAD = TESTS / "bad"
WRONG_SHAPE = [
    "a_list", "adapter_unknown_unit", "adapter_without_unit", "caching_semantic_without_percent",
    "deadline_without_unit", "menu_api_batch_number", "menu_caching_unknown", "menu_defer_yes",
    "policy_cache_costs_negative", "policy_cache_costs_unknown", "policy_gpu_types_zero",
    "policy_startup_without_unit", "policy_vendors_none_at_most", "policy_vendors_plural", "removed_keys",
    "policy_tenancy_adapters", "shed_unknown_priority", "shed_without_currency",
    "tenancy_unknown", "upfront_a_price_per_hour", "upfront_missing", "upfront_per_month", "workload_regions_empty",
    "true_for_allowed", "baseline_a_mapping", "boolean_for_number", "budget_in_euros", "budget_with_junk",
    "growth_without_percent", "half_a_gpu", "list_for_number", "min_replicas_zero", "missing_baseline",
    "missing_forecast", "models_not_a_list", "name_empty", "name_very_long", "negative_quality_loss",
    "negative_requests", "p95_missing", "price_per_month", "price_percent_without_sign", "price_without_unit",
    "sexagesimal", "text_for_number", "ttft_in_percent", "ttft_unknown_unit", "ttft_without_unit", "unknown_key",
    "unknown_purchase", "unknown_slo_key", "unknown_top_key", "workloads_a_mapping", "workloads_empty", "yes_no",
    "zero_requests", "horizon_too_long", "scenarios_too_many",
]  # fmt: skip


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(demand_schema_text()))


def data_of(text: str) -> Any:
    return parse_yaml(text).data


def test_the_shipped_schema_is_the_one_the_classes_make() -> None:
    """After a wanted change: python -m planner.case.demand.starter"""
    assert demand_schema_text() == make_demand_schema()


def test_it_is_a_valid_schema_of_its_draft() -> None:
    schema = json.loads(demand_schema_text())
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)


def test_every_key_of_the_file_is_described(validator: Draft202012Validator) -> None:
    schema = validator.schema
    assert isinstance(schema, dict)
    assert set(schema["properties"]) >= {"workloads", "menu", "prices", "catalog", "baseline", "policy"}
    assert schema["additionalProperties"] is False
    assert schema["properties"]["baseline"]["description"]


def test_it_accepts_the_starter(validator: Draft202012Validator) -> None:
    assert list(validator.iter_errors(data_of(starter_text()))) == []


def test_it_accepts_five_lines_and_every_example(validator: Draft202012Validator) -> None:
    assert list(validator.iter_errors(data_of(SMALL))) == []
    assert EXAMPLES
    for example in EXAMPLES:
        planner.load_case(example)
        assert list(validator.iter_errors(data_of(example.read_text(encoding="utf-8")))) == [], example.name


@for_each(
    "written",
    [
        "slo: {ttft_p95: 250ms, tpot_p99: 0.05 s}",
        "slo: {ttft_p50: 2 min}",
        "tokens: {input: 900, output: {p50: 1.2k, p95: 3_000}}",
        "tokens: {buckets: [{input: 100, output: 10, share: 12.5%}, {input: 1e3, output: 10, share: 87.5 %}]}",
        "quality: {max_loss: 0%}",
        "spot: {critical_share: 0}",
        "caching: {shared_prefix_tokens: 1k, prefix_hit_rate: 85%}",
        "caching: {template_tokens: 300, template_hit_rate: 60%, semantic_hit_rate: 12.5%}",
        "caching: {shared_prefix_tokens: 1k, prefix_hit_rate: 85%, prefixes: 20}",
        "tenancy: shared",
        "adapter: 100MB",
        "adapter: {size: 0.5 GiB}",
        "deadline: 90 min",
        "regions: [us-east-1]",
        "providers: [aws]",
        "shed: {priority: low}",
        "shed: {penalty_per_1k_requests: $5}",
        "from: 2027-02-01\n    until: 2027-03-31\n    steps: [{from: 2027-03-01, times: 1.5}]",
    ],
)
def test_what_the_reader_takes_the_schema_takes(written: str, validator: Draft202012Validator) -> None:
    text = SMALL.replace("    quality: {max_loss: 2%}\n", "")
    text = text.replace("    spot: {critical_share: 60%}\n", f"    {written}\n") + "starts: 2027-01-01\n"
    planner.case_from_text(text)
    assert [error.message for error in validator.iter_errors(data_of(text))] == []


@for_each(
    "written",
    [
        "menu: {caching: [], tenancy: [dedicated], max_deployments: 1, defer: false, api_batch: false}",
        "menu: {caching: [prefix, semantic]}",
        "menu: {purchase: [reserved-3y-upfront]}\nprices: {aws/g6e.xlarge: {reserved_3y_upfront: {upfront: $9k}}}",
        "prices: {aws/g6e.xlarge: {reserved_1y_upfront: {upfront: $200k, per_hour: $10/h}}}",
        "policy: {startup: 5min, max_gpu_types: 2, tenancy: {max_share: 60%, correlation: 0.3}}",
        "policy: {cache_costs: {tier_usd_per_month: 0, vector_store_usd_per_month: $1k}}",
        "starts: 2027-01-01\nhorizon: 12\nunused_after_horizon: {worth: 50%}\npolicy: {max_liability: $200k}",
        "starts: 2027-01-01\nhorizon: 1 quarter\nscenarios: [{name: all, probability: 100%, changes: {}}]",
        "starts: 2027-01-01\nhave: [{offer: aws/g6e.xlarge, purchase: owned, instances: 2, price: $1/h}]",
    ],
)
def test_the_same_of_menu_prices_and_policy(written: str, validator: Draft202012Validator) -> None:
    text = "".join(line for line in SMALL.splitlines(keepends=True) if not line.startswith("menu")) + written + "\n"
    planner.case_from_text(text)
    assert [error.message for error in validator.iter_errors(data_of(text))] == []


@for_each("name", WRONG_SHAPE)
def test_it_rejects_bad_files_of_the_wrong_shape(name: str, validator: Draft202012Validator) -> None:
    data = data_of((BAD / f"{name}.yaml").read_text(encoding="utf-8"))
    assert list(validator.iter_errors(data))
