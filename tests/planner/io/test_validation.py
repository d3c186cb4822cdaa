from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field, RootModel, model_validator

from planner.io.errors import InputError
from planner.io.strict_yaml import Document, parse_yaml
from planner.io.units import Count, Duration, Fraction, PositiveWhole, PriceChange, UsdBare, WholeNumber
from planner.io.validation import FieldProblem, FieldProblems, Strict, validate
from tests.support.rows import for_each


class Tenancy(Enum):
    SHARED = "shared"
    DEDICATED = "dedicated"


class Candidate(Strict):
    name: str = Field(min_length=1)
    quality_loss: Fraction = 0.0


class FromCsv(Strict):
    kind: Literal["csv"]
    csv: str


class FromShape(Strict):
    kind: Literal["shape"]
    peak: Count


class Slo(Strict):
    ttft_p95: Duration | None = None
    """Time to the first token."""
    tpot_p95: Duration | None = None

    @model_validator(mode="after")
    def first_token_takes_longest(self) -> Slo:
        if self.ttft_p95 and self.tpot_p95 and self.ttft_p95 < self.tpot_p95:
            raise FieldProblem(("ttft_p95",), "is shorter than tpot_p95", "Swap them")
        return self


class Percentiles(Strict):
    p50: Count
    p95: Count


class Workload(Strict):
    name: str
    """What the workload is called. It appears in reports."""
    models: tuple[str | Candidate, ...] = Field(min_length=1, examples=[["llama-3.1-70b"]])
    slo: Slo = Slo()
    tenancy: Tenancy = Tenancy.SHARED
    purchase: Literal["on-demand", "spot", "reserved-1y"] = "on-demand"
    forecast: Annotated[FromCsv | FromShape, Field(discriminator="kind")] | None = None
    tokens: Count | Percentiles = 100.0
    window: Literal["auto"] | Duration = "auto"
    priority: int = Field(1, ge=1, le=9)
    weight: float = 1.0
    pinned: bool = False
    either: int | str | None = None
    hourly: list[Count] | dict[str, Count] | None = None
    children: list[Workload] = []
    max_gpus: Annotated[int | None, Field(alias="max-gpus")] = None

    @model_validator(mode="after")
    def spot_is_not_pinned(self) -> Workload:
        if self.pinned and self.purchase == "spot":
            raise ValueError("a pinned workload cannot run on spot")
        return self


GpuName = Annotated[str, Field(pattern="^[a-z0-9-]+$")]


class Demand(Strict):
    workloads: list[Workload]
    limits: dict[GpuName, WholeNumber] = {}
    prices: dict[str, dict[str, PriceChange]] = {}
    budget_usd: UsdBare | None = None
    min_replicas: PositiveWhole = 1

    @model_validator(mode="after")
    def names_differ(self) -> Demand:
        seen: dict[str, int] = {}
        problems = []
        for i, workload in enumerate(self.workloads):
            if workload.name in seen:
                problems.append(FieldProblem(("workloads", i, "name"), f"'{workload.name}' is taken", "Rename it"))
            seen[workload.name] = i
        for gpu in self.limits:
            if gpu == "tpu":
                problems.append(FieldProblem(("limits", gpu), "unknown GPU 'tpu'", at_key=True))
        if problems:
            raise FieldProblems(problems)
        return self


def errors(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        validate(Demand, parse_yaml(text, "d.yaml"))
    return str(caught.value).split("\n")


def workload(line: str) -> str:
    return f"workloads:\n  - name: chat\n    models: [m]\n    {line}\n"


def test_a_good_document_becomes_a_frozen_model() -> None:
    demand = validate(
        Demand,
        parse_yaml(
            "workloads:\n"
            "- {name: chat, models: [m, {name: n, quality_loss: 7%}], slo: {ttft_p95: 1.5s},\n"
            "   tenancy: dedicated,\n"
            "   tokens: {p50: 900, p95: 4k}, window: 5 min, weight: 2, either: x, max-gpus: 3,\n"
            "   forecast: {kind: csv, csv: usage.csv}}\n"
            "limits: {h100: 64}\n"
            "prices: {aws/p5.48xlarge: {on_demand: $48/h}}\n"
            "budget_usd: 80k\n"
        ),
    )
    first = demand.workloads[0]
    assert first.models == ("m", Candidate.model_construct(name="n", quality_loss=0.07))
    assert first.tenancy is Tenancy.DEDICATED
    assert first.tokens == Percentiles.model_construct(p50=900.0, p95=4000.0)
    assert (first.window, first.weight, first.max_gpus, demand.budget_usd) == (300.0, 2.0, 3, 80_000.0)
    with pytest.raises(ValueError, match="frozen"):
        first.name = "other"  # type: ignore[misc]


W = "d.yaml:4:{}: workloads[0]"
SINGLE = [
    ("slo: {ttft_p95: 1.5}", 21, '.slo.ttft_p95: needs a unit, got 1.5. Write "1.5s" or "1.5ms".'),
    ("slo: [1]", 10, ".slo: expected a mapping (key: value lines), got a list."),
    (
        "slo:",
        9,
        ".slo: expected a mapping (key: value lines), got nothing. Write a value, or delete the key.",
    ),
    ("slo: {ttft_p59: 1s}", 11, ".slo: unknown key 'ttft_p59'. Did you mean 'ttft_p95'?"),
    ("sl0: {}", 5, ": unknown key 'sl0'. Did you mean 'slo'?"),
    ("max_gpus: 3", 5, ": unknown key 'max_gpus'. Did you mean 'max-gpus'?"),
    ("slo: {ttft_p95: 1ms, tpot_p95: 5ms}", 21, ".slo.ttft_p95: is shorter than tpot_p95. Swap them."),
    (
        "tenancy: sharde",
        14,
        ".tenancy: expected 'shared' or 'dedicated', got 'sharde'. Did you mean 'shared'?",
    ),
    (
        "purchase: spt",
        15,
        ".purchase: expected 'on-demand', 'spot' or 'reserved-1y', got 'spt'. Did you mean 'spot'?",
    ),
    ("priority: 0", 15, ".priority: must be 1 or more, got 0."),
    ("priority: 10", 15, ".priority: must be 9 or less, got 10."),
    ("priority: true", 15, ".priority: expected a whole number, got true."),
    ("priority: 2.5", 15, ".priority: expected a whole number, got 2.5."),
    ("weight: true", 13, ".weight: expected a number, got true."),
    ("weight: '2'", 13, ".weight: expected a number, got '2'. Write it without quotes and unit."),
    ("pinned: yes", 13, ".pinned: expected true or false, got 'yes'. Write true."),
    ("pinned: 1", 13, ".pinned: expected true or false, got 1."),
    (
        "forecast: {kind: cvs}",
        22,
        ".forecast.kind: expected 'csv' or 'shape', got 'cvs'. Did you mean 'csv'?",
    ),
    ("forecast: {csv: x}", 15, ".forecast: 'kind' is required. Write csv or shape for it."),
    ("forecast: {kind: csv}", 15, ".forecast: 'csv' is required."),
    ("forecast: {kind: shape, peak: x}", 35, ".forecast.peak: expected a number, got 'x'."),
    ("forecast: 3", 15, ".forecast: expected a mapping (key: value lines), got 3."),
    ("tokens: many", 13, ".tokens: expected a number, got 'many'."),
    ("tokens: {p50: 1}", 13, ".tokens: 'p95' is required."),
    ("tokens: {p50: 1, p95: x}", 27, ".tokens.p95: expected a number, got 'x'."),
    ("tokens: [1]", 13, ".tokens: expected a number or a mapping (key: value lines), got a list."),
    ("window: 3", 13, '.window: needs a unit, got 3. Write "3s" or "3ms".'),
    ("window: atuo", 13, ".window: expected 'auto' or a duration, got 'atuo'. Did you mean 'auto'?"),
    ("either: 1.5", 13, ".either: expected a whole number or text, got 1.5."),
    ("hourly: [1, x]", 17, ".hourly[1]: expected a number, got 'x'."),
    ("hourly: {a: x}", 17, ".hourly.a: expected a number, got 'x'."),
    ("hourly: 3", 13, ".hourly: expected a list or a mapping (key: value lines), got 3."),
    ("children: {}", 15, ".children: expected a list, got a mapping."),
    (
        "children: [{name: a, models: [b], priority: 0}]",
        49,
        ".children[0].priority: must be 1 or more, got 0.",
    ),
    ("children: [{name: a, models: [b], zz: 0}]", 39, ".children[0]: unknown key 'zz'."),
]


@for_each(("line", "column", "expected"), SINGLE)
def test_each_mistake_gives_one_complaint_at_its_place(line: str, column: int, expected: str) -> None:
    found = errors(workload(line))
    assert len(found) == 1, found
    assert found[0].startswith(W.format(column) + expected), found[0]


def test_required_keys_come_with_an_example_or_a_description() -> None:
    assert errors("workloads: [{}]") == [
        "d.yaml:1:13: workloads[0]: 'name' is required. What the workload is called.",
        "d.yaml:1:13: workloads[0]: 'models' is required. Add \"models: [llama-3.1-70b]\".",
    ]
    assert errors("limits: {}") == ["d.yaml:1:1: 'workloads' is required."]


def test_a_misspelt_required_key_is_one_mistake() -> None:
    assert errors("worklods: []") == ["d.yaml:1:1: unknown key 'worklods'. Did you mean 'workloads'?"]


def test_lists_of_text_or_mappings() -> None:
    text = "workloads:\n- name: 12\n  models: [3, {nme: x}, {name: '', quality_loss: 0.5}]\n"
    text += "- {name: b, models: []}\n"
    assert errors(text) == [
        'd.yaml:2:9: workloads[0].name: expected text, got 12. Put it in quotes: "12".',
        'd.yaml:3:12: workloads[0].models[0]: expected text, got 3. Put it in quotes: "3".',
        "d.yaml:3:16: workloads[0].models[1]: unknown key 'nme'. Did you mean 'name'?",
        "d.yaml:3:32: workloads[0].models[2].name: cannot be empty.",
        'd.yaml:3:50: workloads[0].models[2].quality_loss: needs a percent sign, got 0.5. Write "50%".',
        "d.yaml:4:21: workloads[1].models: must have at least 1 entry, got 0. Write one such as [llama-3.1-70b].",
    ]


def test_a_single_value_where_a_list_is_wanted() -> None:
    assert errors("workloads: [{name: a, models: m}]") == [
        "d.yaml:1:31: workloads[0].models: expected a list, got 'm'. Write [m]."
    ]


def test_keys_and_values_of_dictionaries() -> None:
    text = "workloads: []\nlimits:\n  H100!: 3\n  l4: -1\nprices:\n  aws/p5.48xlarge: {on_demand: 48}\n"
    found = errors(text)
    assert found[0].startswith("d.yaml:3:3: limits['H100!']: as a key must match the pattern")
    assert found[1] == "d.yaml:4:7: limits.l4: cannot be negative, got -1."
    assert found[2].startswith("d.yaml:6:32: prices['aws/p5.48xlarge'].on_demand: needs a currency")


def test_validators_can_point_to_several_keys() -> None:
    text = "limits: {tpu: 1}\nworkloads:\n" + "- {name: a, models: [m]}\n" * 3
    assert errors(text) == [
        "d.yaml:1:10: limits.tpu: unknown GPU 'tpu'.",
        "d.yaml:4:10: workloads[1].name: 'a' is taken. Rename it.",
        "d.yaml:5:10: workloads[2].name: 'a' is taken. Rename it.",
    ]


def test_a_plain_error_in_a_validator_is_placed_at_its_mapping() -> None:
    found = errors(workload("pinned: true\n    purchase: spot"))
    assert found == ["d.yaml:2:5: workloads[0]: a pinned workload cannot run on spot."]


@pytest.mark.parametrize(("text", "got"), [("[1]", "a list"), ("hello", "'hello'"), ("3", "3")])
def test_a_document_that_is_no_mapping(text: str, got: str) -> None:
    assert errors(text) == [f"d.yaml:1:1: expected a mapping (key: value lines), got {got}."]


def test_part_of_a_document() -> None:
    document = parse_yaml("x:\n  - slo: {ttft_p95: 3}\n", "d.yaml")
    with pytest.raises(InputError, match=r"^d.yaml:2:21: x\[0\].slo.ttft_p95: needs a unit"):
        validate(Slo, document, at=("x", 0, "slo"))


def test_shorthands_through_a_before_validator() -> None:
    def as_mapping(value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    class Menu(Strict):
        models: list[Annotated[Candidate, BeforeValidator(as_mapping)]]

    assert validate(Menu, parse_yaml("models: [a, {name: b}]")).models[0].name == "a"
    with pytest.raises(InputError, match=r":1:10: models\[0\].name: cannot be empty"):
        validate(Menu, parse_yaml("models: ['', {name: b}]"))


def test_root_models_and_models_without_the_base() -> None:
    class Names(RootModel[list[str]]):
        pass

    class Loose(BaseModel):
        names: Names

    with pytest.raises(InputError, match=r":1:12: names\[1\]: expected text, got 2"):
        validate(Loose, parse_yaml("names: [a, 2]"))


def test_an_error_does_not_hide_the_others() -> None:
    text = "workloads:\n- {name: a, models: [m], priority: x, zz: 1, slo: 3}\nbudget_usd: -1\nmin_replicas: 0\n"
    assert len(errors(text)) == 5


def test_very_many_unknown_keys_are_quick_to_explain() -> None:
    with pytest.raises(InputError) as caught:
        validate(Demand, parse_yaml("\n".join(f"key{i}: 1" for i in range(20_000))))
    assert len(caught.value.diagnostics) == 20_001


KEYS = st.sampled_from([*Demand.model_fields, *Workload.model_fields, "ttft_p95", "kind", "csv", "p50", "zz", "[key]"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.floats(-9, 9)
    | st.sampled_from(["1s", "8%", "80k", "$3/h", "csv", "shape", "auto", "x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@given(VALUES | st.fixed_dictionaries({"workloads": st.lists(st.dictionaries(KEYS, VALUES, max_size=6))}))
def test_any_data_gives_a_model_or_complaints(data: Any) -> None:
    try:
        validate(Demand, Document("d.yaml", data, {}, {}))
    except InputError as error:
        assert error.diagnostics
        for diagnostic in error.diagnostics:
            for jargon in ("Input should", "pydantic", "function-", "Extra inputs", "Field required"):
                assert jargon not in str(diagnostic)
