"""Pydantic models checked against a document: every mistake at once, at its line, in people's words.

Pydantic names a mistake by a trail through its own schema (`workloads.0.models.1.ModelChoice.name`). The
trail is followed through that schema, so that the names of union members drop out and what remains is a
path in the file.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from textwrap import dedent
from typing import Any, ClassVar, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, RootModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ModelSchema

from planner.io.errors import (
    Diagnostic,
    Expected,
    InputError,
    Path,
    Problem,
    close_match,
    did_you_mean,
    input_error,
    listed,
    shown,
)
from planner.io.strict_yaml import Document

Model = TypeVar("Model", bound=BaseModel)
Schema = dict[str, Any]
Trail = tuple[tuple[str | int, ...], ErrorDetails]
"""What is left of an error's location, and the error."""

SUGGESTIONS = 100
"""Looking for a similar word is slow; a file with more unknown words than this has other problems."""

MAPPING, LIST, SCALAR = "a mapping (key: value lines)", "a list", "a single value"
_NOUNS = {
    "string_type": "text",
    "bool_type": "true or false",
    "none_required": "nothing",
    **dict.fromkeys(("int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "finite_number"), "a number"),
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing"), "a date such as 2026-01-31"),
    **dict.fromkeys(("model_type", "dict_type", "mapping_type", "dataclass_type"), MAPPING),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), LIST),
}
_LIMITS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
}
_WRAPPERS = {
    **dict.fromkeys(("default", "nullable", "function-before", "function-after", "function-wrap"), "schema"),
    "definitions": "schema",
    "json-or-python": "json_schema",
    "lax-or-strict": "strict_schema",
}
_SHAPES = dict.fromkeys(("model", "dict", "dataclass", "typed-dict"), MAPPING)
_SHAPES |= dict.fromkeys(("list", "tuple", "set", "frozenset"), LIST)


class Removed(NamedTuple):
    """A key that files had once."""

    since: str
    """the version that knows it no longer"""
    instead: str


class Strict(BaseModel):
    """Base of everything a user writes: unknown keys are errors and no value is silently converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)
    removed_keys: ClassVar[Mapping[Path, Removed]] = {}
    """of a whole file: keys that it had once, by where they stood"""


class WithDescriptions(GenerateJsonSchema):
    """A schema in which each key says what is written below it in its class."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        described = descriptions(schema["cls"])
        for name, field in schema["cls"].model_fields.items():
            for key in _keys(name, field):
                if name in described and key in made.get("properties", {}):
                    made["properties"][key]["description"] = described[name]
        return made


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """What is written below each field of a model. Its source is read for it, so this is for schemas and mistakes."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls not in (BaseModel, Strict, RootModel):
            body = ast.parse(dedent(inspect.getsource(cls))).body[0]
            for field, text in pairwise(body.body if isinstance(body, ast.ClassDef) else []):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                        found[name] = inspect.cleandoc(words)
    return found


class FieldProblem(Problem):
    """Raised in a model validator to point below that model: `FieldProblem(("slo", "ttft_p95"), ...)`."""

    def __init__(self, path: Path, message: str, remedy: str = "", at_key: bool = False) -> None:
        super().__init__(message, remedy)
        self.path = path
        self.at_key = at_key


class FieldProblems(ValueError):
    """Several of them, so that one validator can say everything at once."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in problems))


def validate(model: type[Model], document: Document, at: Path = ()) -> Model:
    """The part of a document at `at`, as a model; raises InputError with everything that is wrong."""
    data = document.data
    for step in at:
        data = data[step]
    try:
        # JSON rules are the strict ones that fit YAML: a list may become a tuple, but "3" never 3.
        return model.model_validate_json(json.dumps(data))
    except ValidationError as error:
        trails: list[Trail] = [(details["loc"], details) for details in error.errors(include_url=False)]
        explainer = _Explainer(model, document)
        diagnostics = list(explainer.explain(model.__pydantic_core_schema__, trails, at, data))
    raise InputError(diagnostics)


def saved(model: type[Model], text: str, file: object, what: str, remedy: str, format_: str | None = None) -> Model:
    """A record that fleetplan wrote, read again; raises InputError where the text is none, or of another format."""
    if format_ is not None:
        try:
            expect_format(json.loads(text), format_)
        except (ValueError, RecursionError) as error:
            raise input_error(file, f"not {what}: {error}", remedy) from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise input_error(file, f"not {what}: {first['msg']}", remedy, at=where) from None


def expect_format(data: Any, format_: str, *older: str) -> None:
    """Raise ValueError, with the version that wrote the file where it says so."""
    fields = data if isinstance(data, dict) else {}
    given, version = fields.get("format"), fields.get("fleetplan_version")
    if given not in (format_, *older):
        other = shown(given) if str(given).startswith("fleetplan-") else "another file"
        writer = f", written by fleetplan {shown(version)}" if isinstance(version, str) else ""
        raise ValueError(f"got {other}{writer}, expected '{format_}'")


class _Explainer:
    def __init__(self, model: type[BaseModel], document: Document) -> None:
        self.document = document
        self.removed: Mapping[Path, Removed] = getattr(model, "removed_keys", {})
        self.suggestions_left = SUGGESTIONS
        schema: Any = model.__pydantic_core_schema__
        self.definitions = {part["ref"]: part for part in schema.get("definitions", ())}

    def unwrapped(self, schema: Any) -> Schema:
        while True:
            kind = schema.get("type")
            if kind == "definition-ref":
                schema = self.definitions.get(schema["schema_ref"], {})
            elif kind == "model" and schema.get("root_model"):
                schema = schema["schema"]
            elif kind in _WRAPPERS:
                schema = schema[_WRAPPERS[kind]]
            else:
                return schema

    def explain(
        self, schema: Any, trails: list[Trail], path: Path, data: Any, field: FieldInfo | None = None
    ) -> Iterator[Diagnostic]:
        schema = self.unwrapped(schema)
        below: dict[str | int, list[Trail]] = {}
        for trail, error in trails:
            if trail and schema.get("type") == "dict" and trail[1:] == ("[key]",):
                message, remedy = self.words(error, {}, None)
                yield self.document.diagnostic((*path, trail[0]), f"as a key {message}", remedy, at_key=True)
            elif not trail and not _is_counted_wrong(error, data):
                yield from self.complaints_at(path, error, schema, field)
            elif trail:
                below.setdefault(trail[0], []).append((trail[1:], error))
        if schema.get("type") == "tagged-union":
            for tag, group in below.items():
                yield from self.explain(schema["choices"].get(tag, {}), group, path, data)
        elif schema.get("type") == "union" and below:
            yield from self.explain_union(schema, list(below.values()), path, data)
        elif schema.get("type") == "model":
            yield from self.explain_model(schema, below, path, data)
        else:
            for step, group in below.items():
                yield from self.explain(_element(schema, step), group, (*path, step), _part(data, step))

    def explain_model(
        self, schema: Schema, below: dict[str | int, list[Trail]], path: Path, data: Any
    ) -> Iterator[Diagnostic]:
        model: type[BaseModel] = schema["cls"]
        named = model.model_fields.items()
        fields = {key: (name, info) for name, info in named for key in _keys(name, info)}
        schemas = self.unwrapped(schema["schema"]).get("fields", {})
        absent: list[str] = []
        meant: set[str] = set()
        for step, group in below.items():
            kind, key = group[0][1]["type"], str(step)
            if kind == "missing" and not group[0][0]:
                absent.append(key)
            elif kind == "extra_forbidden" and not group[0][0]:
                yield self.unknown_key(path, key, list(fields), data, meant)
            else:
                name, info = fields.get(key, (key, None))
                child = schemas.get(name, {}).get("schema", {})
                yield from self.explain(child, group, (*path, step), _part(data, step), info)
        for key in absent:
            # A misspelt key is one mistake, not two.
            if key not in meant:
                name, info = fields.get(key, (key, None))
                remedy = f"Add {_example(key, info)}" if info and info.examples else _first_words(model, name)
                yield self.document.diagnostic(path, f"'{key}' is required", remedy)

    def unknown_key(self, path: Path, key: str, known: list[str], data: Any, meant: set[str]) -> Diagnostic:
        message, remedy = f"unknown key {shown(key)}", ""
        if gone := self.removed.get((*path, key)):
            message, remedy = f"{shown(key)} is gone since version {gone.since}", gone.instead
        elif self.suggestions_left:
            self.suggestions_left -= 1
            unused = close_match(key, [name for name in known if name not in data])
            if unused is not None:
                meant.add(unused)
            remedy = f"did you mean '{unused}'?" if unused is not None else did_you_mean(key, known)
        diagnostic = self.document.diagnostic((*path, key), message, remedy, at_key=True)
        return replace(diagnostic, where=self.document.diagnostic(path, "").where)

    def explain_union(self, schema: Schema, groups: list[list[Trail]], path: Path, data: Any) -> Iterator[Diagnostic]:
        """One complaint for what was most likely meant, not one for each member."""
        members = [member[0] if isinstance(member, tuple) else member for member in schema["choices"]]
        if len(members) != len(groups):
            members = [{}] * len(groups)
        branches = list(zip(members, groups, strict=True))
        shape = _shape_of(data)
        fitting = [branch for branch in branches if shape in self.shapes(branch[0])]
        if fitting and shape != SCALAR:
            member, group = min(fitting, key=lambda branch: len(branch[1]))
            yield from self.explain(member, group, path, data)
            return
        nouns: list[str] = []
        for member, group in fitting or branches:
            noun = self.noun(group[0][1], self.unwrapped(member))
            if fitting and (noun is None or group[0][0]):
                yield from self.explain(member, group, path, data)
                return
            nouns += [noun] if noun and noun not in nouns else []
        allowed = [word for member, _ in branches for word in _allowed(self.unwrapped(member))]
        match = close_match(data, [str(word) for word in allowed]) if isinstance(data, str) else None
        remedy = f"did you mean '{match}'?" if match else _remedy(data, " ".join(nouns))
        yield self.document.diagnostic(path, f"expected {listed(nouns)}, got {shown(data)}", remedy)

    def shapes(self, schema: Any) -> set[str]:
        schema = self.unwrapped(schema)
        if schema.get("type") == "union":
            members = (member[0] if isinstance(member, tuple) else member for member in schema["choices"])
            return set().union(*(self.shapes(member) for member in members))
        if schema.get("type") == "tagged-union":
            return {MAPPING}
        return {_SHAPES.get(schema.get("type", ""), SCALAR)}

    def noun(self, error: ErrorDetails, schema: Schema) -> str | None:
        """What was expected, where the value is simply another kind of thing."""
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, Expected):
            return cause.what
        if error["type"] in ("literal_error", "enum"):
            return listed([shown(word) for word in _allowed(schema)]) or None
        return _NOUNS.get(error["type"])

    def complaints_at(
        self, path: Path, error: ErrorDetails, schema: Schema, field: FieldInfo | None
    ) -> Iterator[Diagnostic]:
        cause = error.get("ctx", {}).get("error")
        if error["type"].startswith("union_tag"):
            yield self.wrong_tag(path, error, schema)
            return
        if isinstance(cause, FieldProblem | FieldProblems):
            for problem in cause.problems if isinstance(cause, FieldProblems) else (cause,):
                place = (*path, *problem.path)
                yield self.document.diagnostic(place, problem.message, problem.remedy, problem.at_key)
            return
        yield self.document.diagnostic(path, *self.words(error, schema, field))

    def wrong_tag(self, path: Path, error: ErrorDetails, schema: Schema) -> Diagnostic:
        tags = [str(tag) for tag in schema.get("choices", ())]
        key = schema.get("discriminator")
        if not isinstance(key, str):
            return self.document.diagnostic(path, f"expected {listed(tags)}, got {shown(error['input'])}")
        if error["type"] == "union_tag_not_found":
            return self.document.diagnostic(path, f"'{key}' is required", f"Write {listed(tags)} for it")
        tag = str(error.get("ctx", {}).get("tag", ""))
        message = f"expected {listed([shown(name) for name in tags])}, got {shown(tag)}"
        return self.document.diagnostic((*path, key), message, did_you_mean(tag, tags))

    def words(self, error: ErrorDetails, schema: Schema, field: FieldInfo | None) -> tuple[str, str]:
        """Message and remedy for one error."""
        kind, value, context = error["type"], error["input"], error.get("ctx", {})
        cause = context.get("error")
        example = f"Write one such as {_flow(field.examples[0])}" if field and field.examples else ""
        if isinstance(cause, Problem):
            return cause.message, cause.remedy or example
        if kind in ("value_error", "assertion_error"):
            return str(cause) or "is not valid", example
        if kind in ("too_short", "too_long"):
            bound = context.get("min_length", context.get("max_length"))
            most = "at least" if kind == "too_short" else "at most"
            entries = "entry" if bound == 1 else "entries"
            return f"must have {most} {bound} {entries}, got {context.get('actual_length')}", example
        if kind == "string_too_short" and not value:
            return "cannot be empty", example
        if kind in _LIMITS:
            bounds = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in context.items()}
            return f"{_LIMITS[kind].format(**bounds)}, got {shown(value)}", example
        noun = self.noun(error, schema)
        if noun is None:
            return error["msg"].replace("Input should be", "must be") + f", got {shown(value)}", example
        allowed = [str(word) for word in _allowed(schema)]
        match = close_match(value, allowed) if isinstance(value, str) else None
        remedy = f"did you mean '{match}'?" if match else _remedy(value, noun)
        return f"expected {noun}, got {shown(value)}", remedy or example


def _element(schema: Schema, step: str | int) -> Any:
    if schema.get("type") == "dict":
        return schema.get("values_schema", {})
    items = schema.get("items_schema", {})
    if isinstance(items, list) and isinstance(step, int):
        return items[min(step, len(items) - 1)] if items else {}
    return items if isinstance(items, dict) else {}


def _part(data: Any, step: str | int) -> Any:
    try:
        return data[step]
    except (TypeError, KeyError, IndexError):
        return None


def _is_counted_wrong(error: ErrorDetails, data: Any) -> bool:
    """Pydantic counts only good entries; one bad entry should not also make a list too short."""
    wanted = error.get("ctx", {}).get("min_length", 0)
    return error["type"] == "too_short" and isinstance(data, list | dict) and len(data) >= wanted


def _shape_of(data: Any) -> str:
    return MAPPING if isinstance(data, dict) else LIST if isinstance(data, list) else SCALAR


def _keys(name: str, field: FieldInfo) -> list[str]:
    """How a field may be written in the file."""
    alias = field.validation_alias or field.alias
    choices = getattr(alias, "choices", [alias])
    return [choice for choice in choices if isinstance(choice, str)] or [name]


def _allowed(schema: Schema) -> list[Any]:
    if schema.get("type") == "literal":
        return list(schema["expected"])
    return [member.value for member in schema["members"]] if schema.get("type") == "enum" else []


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _example(key: str, field: FieldInfo) -> str:
    return f'"{key}: {_flow((field.examples or [""])[0])}"'


def _first_words(model: type[BaseModel], field: str) -> str:
    return descriptions(model).get(field, "").split("\n")[0].split(". ")[0]


def _remedy(value: Any, noun: str) -> str:
    if value is None:
        return "Write a value, or delete the key"
    if noun == "text" and isinstance(value, int | float):
        return f'Put it in quotes: "{shown(value)}"'
    if noun == "true or false" and isinstance(value, str) and value.lower() in ("yes", "on", "no", "off"):
        return "Write " + ("true" if value.lower() in ("yes", "on") else "false")
    if noun == LIST and not isinstance(value, dict):
        return f"Write [{shown(value).strip(chr(39))}]"
    if noun == LIST:
        return "Put it in brackets: [{" + ", ".join(f"{shown(key)[1:-1]}: ..." for key in list(value)[:3]) + "}]"
    return "Write it without quotes and unit" if noun in ("a number", "a whole number") else ""
