"""Canaries for what pydantic does not promise: the schema of a model, which validation walks to name places in a file.

`planner/io/validation.py` reads `__pydantic_core_schema__`. Where pydantic changes that, messages lose their places or
their words without an error; one of these tests fails first, and says which part is another one now.
"""

from __future__ import annotations

import enum
from datetime import date
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, RootModel, ValidationError

from planner.io.strict_yaml import parse_yaml
from planner.io.validation import _WRAPPERS, _Explainer
from tests.support.rows import for_each

CHANGED = (
    f"pydantic {pydantic.VERSION} has another core schema than planner/io/validation.py walks: {{}}. Adapt _Explainer, "
    "_WRAPPERS and _SHAPES there, or hold pydantic back in pyproject.toml."
)


class Colour(enum.Enum):
    RED = "red"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    teeth: int


class Names(RootModel[list[str]]):
    pass


class Node(BaseModel):
    """Refers to itself, so that its schema has definitions."""

    below: list[Node] = []


class Every(BaseModel):
    """A field for each kind of schema that is walked."""

    plain: str
    or_nothing: str | None = None
    after: Annotated[int, AfterValidator(lambda n: n)] = 1
    before: Annotated[int, BeforeValidator(lambda n: n)] = 1
    day: date = date(2026, 1, 1)
    word: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    many: list[Cat] = []
    several: tuple[Cat, ...] = ()
    pair: tuple[int, Cat] | None = None
    by_name: dict[str, Cat] = {}
    one_of: int | Cat = 1
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    names: Names = Names([])
    tree: Node = Node()


EXPLAINER = _Explainer(Every, parse_yaml("{}"))


def found(schema: Any, *path: str | int) -> Any:
    """What stands at a place of the core schema; fails with where the way ends."""
    walked: list[str] = []
    for step in path:
        walked.append(str(step))
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            there = sorted(schema) if isinstance(schema, dict) else type(schema).__name__
            pytest.fail(CHANGED.format(f"{' / '.join(walked)} is not there, only {there}"))
    return schema


def of_type(schema: Any, kind: str) -> Any:
    if found(schema, "type") != kind:
        pytest.fail(CHANGED.format(f"expected the type {kind!r}, found {schema['type']!r}"))
    return schema


def field(name: str) -> Any:
    model = of_type(EXPLAINER.unwrapped(Every.__pydantic_core_schema__), "model")
    return found(EXPLAINER.unwrapped(found(model, "schema")), "fields", name, "schema")


def test_a_model_has_its_class_and_its_fields_by_name() -> None:
    schema = of_type(EXPLAINER.unwrapped(Every.__pydantic_core_schema__), "model")
    assert found(schema, "cls") is Every, CHANGED.format("a model's cls")
    of_type(found(schema, "schema"), "model-fields")
    for name in Every.model_fields:
        of_type(EXPLAINER.unwrapped(field(name)), found(EXPLAINER.unwrapped(field(name)), "type"))


def test_definitions_are_found_by_reference() -> None:
    schema = of_type(Every.__pydantic_core_schema__, "definitions")
    assert all(found(part, "ref") for part in found(schema, "definitions"))
    node = of_type(EXPLAINER.unwrapped(field("tree")), "model")
    assert node["cls"] is Node, CHANGED.format("a definition-ref leads to another model")
    below = found(EXPLAINER.unwrapped(node["schema"]), "fields", "below", "schema")
    again = found(EXPLAINER.unwrapped(below), "items_schema")
    assert EXPLAINER.unwrapped(again)["cls"] is Node, CHANGED.format("a definition-ref inside a definition")


@for_each(
    ("name", "wrapper"),
    [("or_nothing", "default"), ("after", "default"), ("before", "default"), ("day", "default")],
)
def test_wrappers_hold_what_they_wrap(name: str, wrapper: str) -> None:
    schema = of_type(field(name), wrapper)
    kinds = []
    while schema["type"] in _WRAPPERS:
        kinds.append(schema["type"])
        schema = found(schema, _WRAPPERS[schema["type"]])
    inner = {"or_nothing": "nullable", "after": "function-after", "before": "function-before"}.get(name)
    assert inner is None or inner in kinds, CHANGED.format(f"{name} is wrapped as {kinds}, not as {inner}")
    assert EXPLAINER.unwrapped(field(name)) == schema


@for_each(
    ("name", "kind", "key"),
    [
        ("word", "literal", "expected"),
        ("colour", "enum", "members"),
        ("many", "list", "items_schema"),
        ("several", "tuple", "items_schema"),
        ("pair", "tuple", "items_schema"),
        ("by_name", "dict", "values_schema"),
        ("one_of", "union", "choices"),
        ("pet", "tagged-union", "choices"),
        ("names", "list", "items_schema"),
    ],
)
def test_each_kind_keeps_its_parts_where_they_are_looked_for(name: str, kind: str, key: str) -> None:
    found(of_type(EXPLAINER.unwrapped(field(name)), kind), key)


def test_parts_are_what_the_walk_expects() -> None:
    parts = {name: EXPLAINER.unwrapped(field(name)) for name in ("word", "colour", "pair", "several", "one_of", "pet")}
    assert parts["word"]["expected"] == ["a", "b"], CHANGED.format("the words of a literal")
    assert [member.value for member in parts["colour"]["members"]] == ["red"], CHANGED.format("the members of an enum")
    assert len(parts["pair"]["items_schema"]) == 2, CHANGED.format("the entries of a tuple")
    members = [m[0] if isinstance(m, tuple) else m for m in parts["one_of"]["choices"]]
    assert [EXPLAINER.unwrapped(m)["type"] for m in members] == ["int", "model"], CHANGED.format("members of a union")
    assert set(parts["pet"]["choices"]) == {"cat", "dog"}, CHANGED.format("the tags of a tagged union")
    assert parts["pet"]["discriminator"] == "kind", CHANGED.format("the key of a tagged union")


@for_each(
    ("data", "trail"),
    [
        ({}, ("plain",)),
        ({"plain": "x", "one_of": {"kind": "cat"}}, ("one_of", "Cat", "lives")),
        ({"plain": "x", "one_of": []}, ("one_of", "int")),
        ({"plain": "x", "pet": {"kind": "cat"}}, ("pet", "cat", "lives")),
        ({"plain": "x", "many": [{"kind": "cat"}]}, ("many", 0, "lives")),
        ({"plain": "x", "by_name": {"k": 1}}, ("by_name", "k")),
        ({"plain": "x", "tree": {"below": [{"below": 1}]}}, ("tree", "below", 0, "below")),
    ],
)
def test_errors_name_places_by_the_same_trails(data: dict[str, Any], trail: tuple[str | int, ...]) -> None:
    """Names of union members and tags stand between the keys of the file, where the walk drops them."""
    with pytest.raises(ValidationError) as error:
        Every.model_validate(data)
    trails = [details["loc"] for details in error.value.errors(include_url=False)]
    assert trail in trails, CHANGED.format(f"the error at {trail} is called {trails}")
