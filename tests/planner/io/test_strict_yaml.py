from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.io import strict_yaml
from planner.io.errors import (
    LINE_LIMIT,
    Diagnostic,
    InputError,
    did_you_mean,
    dotted,
    ended_at_a_word,
    escaped,
    listed,
    shown,
)
from planner.io.strict_yaml import Mark, parse_yaml, read_yaml
from tests.support.rows import for_each

LOADERS = [yaml.SafeLoader] + ([yaml.CSafeLoader] if hasattr(yaml, "CSafeLoader") else [])


@pytest.fixture(params=LOADERS, ids=lambda loader: loader.__name__)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_yaml, "EVENT_LOADER", request.param)


def complaints_about(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "demand.yaml")
    return caught.value.diagnostics


@for_each(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("0", 0),
        ("+5", 5),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        (".5", 0.5),
        ("2.", 2.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("12:30:45", "12:30:45"),
        ("2026-01-31", "2026-01-31"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("017", "017"),
        ("1_000", "1_000"),
        ("$48/h", "$48/h"),
        ("+25%", "+25%"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("'.nan'", ".nan"),
        ("nano", "nano"),
        ("[1, a]", [1, "a"]),
        ("{b: {c: 1}}", {"b": {"c": 1}}),
        ("|\n  x\n  y\n", "x\ny\n"),
        ("1" * 30, int("1" * 30)),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: object, parser: None) -> None:
    data = parse_yaml(f"a: {text}").data
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


BAD = [
    ("", 1, 1, "empty"),
    ("# only\n\n# comments\n", 1, 1, "empty"),
    ("---\n", 1, 1, "empty"),
    ("null\n", 1, 1, "empty"),
    ("a:\n\tb: 1\n", 2, 1, "tab"),
    ("a:\n  b: 1\n\tc: 2\n", 3, 1, "tab"),
    ("a:\n\t- 1\n", 2, 1, "tab"),
    ("a: @foo\n", 1, 4, "cannot start with '@'"),
    ("a: `foo`\n", 1, 4, "cannot start with '`'"),
    ("a: %foo\n", 1, 4, "cannot start with '%'"),
    ("a: b: c\n", 1, 5, "': ' is not allowed here"),
    ("a: 1\n  b: 2\n", 2, 4, "indented as if"),
    ("a: 1\nb:2\n", 2, 1, "not 'key: value'"),
    ("a: 1\njust words\nc: 3\n", 2, 1, "not 'key: value'"),
    ("a:\n  b: 1\n c: 2\n", 3, 2, "indentation does not match"),
    ("  a: 1\nb: 2\n", 2, 1, "does not fit"),
    ("a: [1, 2\nb: 3\n", 2, 2, "closing ']'"),
    ("a: {b: 1\nc: 3\n", 2, 2, "closing '}'"),
    ("a: [1, 2}\n", 1, 9, "closing ']'"),
    ('a: "foo\nb: 1\n', 1, 4, "never closed"),
    ("a: 'foo\nb: 1\n", 1, 4, "never closed"),
    ('a: "C:\\dir"\n', 1, None, "unknown \\ sequence"),
    ("a: - b\n", 1, 4, "'- ' list cannot start"),
    ("a: 1\n- b\n", 2, 1, "indentation"),
    ("- a\nb: 1\n", 2, 1, "indentation"),
    ("a: ]\n", 1, 4, "a value is missing"),
    ("a: 1\n]\n", 2, 1, "']' closes nothing"),
    ("a: [1, , 2]\n", 1, 8, "a value is missing"),
    ("a: *.csv\n", 1, 5, "'*'"),
    ("a: & b\n", 1, 5, "'&'"),
    ("a: !x!y 1\n", 1, 4, "tags (!)"),
    ("a: |foo\n  x\n", 1, 5, "starts on the next line"),
    ('a: "x" y\n', 1, 8, "does not belong after"),
    ("a: 'it's'\n", 1, 8, "does not belong after"),
    ("a: 1\n: 2\n", 2, 1, "no key before"),
    ("a: {{ b }}\n", 1, 5, "a key must be text"),
    ("a: 1\nb: 2\na: 3\n", 3, 1, "already given on line 1"),
    ("{a: 1, 'a': 2}\n", 1, 8, "already given on line 1"),
    ("1: a\n", 1, 1, "a key must be text, got 1"),
    ("true: a\n", 1, 1, "a key must be text, got true"),
    ("~: a\n", 1, 1, "a key must be text, got nothing"),
    ("? [a]\n: b\n", 1, 3, "a key must be text, got a list"),
    ("b: &b {c: 1}\na:\n  <<: *b\n", 3, 3, "merge key"),
    ("a: !!python/object/apply:os.system [ls]\n", 1, 4, "'!!python/object/apply:os.system' is not allowed"),
    ("a: !Foo 1\n", 1, 4, "'!Foo' is not allowed"),
    ("!!map {a: 1}\n", 1, 1, "is not allowed"),
    ("a: .nan\n", 1, 4, "not a usable number"),
    ("a: nan\n", 1, 4, "not a usable number"),
    ("a: [-.inf]\n", 1, 5, "not a usable number"),
    ("a: 1e999\n", 1, 4, "out of range"),
    ("a: " + "9" * 31 + "\n", 1, 4, "more than 30 digits"),
    ("a: 1\n---\nb: 2\n", 2, 1, "second document"),
    ("a: 1\n...\n%TAG ! x\n---\nb: 1\n", 2, 1, "second document"),
    ("%YAML 1.1\n---\na: 1\n", 1, 1, "directives"),
    ("a: &x [*x]\n", 1, 8, "refers to the value it is part of"),
    ("a: *nope\n", 1, 4, "names no anchor"),
    ("a: \x1b[31mred\n", 1, 4, "U+001B"),
    ("a: b\x00c\n", 1, 5, "U+0000"),
    ("a: \ud800\n", 1, 4, "U+D800"),
    ("[" * 50_000, 1, 41, "nested more than 40"),
    ("- " * 50_000, 1, 81, "nested more than 40"),
    ("{a: " * 50_000, 1, 158, "nested more than 40"),
]


@for_each(("text", "line", "column", "words"), BAD)
def test_bad_yaml_is_refused_at_its_place(text: str, line: int, column: int | None, words: str, parser: None) -> None:
    diagnostic = complaints_about(text)[0]
    assert words in diagnostic.message
    assert diagnostic.line == line
    assert column is None or diagnostic.column == column
    assert diagnostic.remedy
    assert str(diagnostic).startswith(f"demand.yaml:{line}:")


def test_every_mistake_is_reported_in_reading_order() -> None:
    text = "a: 1\nb: {c: 1, c: .nan}\na: 3\n1: 2\ne: !Foo x\nf: *g\nh: [\n"
    found = complaints_about(text)
    assert [diagnostic.line for diagnostic in found] == [2, 2, 3, 4, 5, 6, 8]
    assert found[1].where == "b.c"


def test_every_value_and_key_has_its_position() -> None:
    document = parse_yaml("a:\n  - x: 1\n    y: [2, 3]\nb:\n")
    assert document.marks == {
        (): Mark(1, 1),
        ("a",): Mark(2, 3),
        ("a", 0): Mark(2, 5),
        ("a", 0, "x"): Mark(2, 8),
        ("a", 0, "y"): Mark(3, 8),
        ("a", 0, "y", 0): Mark(3, 9),
        ("a", 0, "y", 1): Mark(3, 12),
        ("b",): Mark(4, 3),
    }
    assert document.key_marks["a", 0, "y"] == Mark(3, 5)
    assert document.nearest_mark(("a", 0, "gone", "deeper")) == Mark(2, 5)


def test_aliases_are_copies_that_point_to_the_original() -> None:
    document = parse_yaml("a: &x {t: [1]}\nb: *x\nc: &k key\n*k : 1\n")
    assert document.data == {"a": {"t": [1]}, "b": {"t": [1]}, "c": "key", "key": 1}
    assert document.data["a"]["t"] is not document.data["b"]["t"]
    assert document.marks["b", "t", 0] == document.marks["a", "t", 0] == Mark(1, 12)


def test_an_alias_bomb_stops_early() -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 10):
        text += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n"
    assert "more than 200,000 values" in complaints_about(text)[0].message


def test_aliases_are_counted_and_do_not_hide_depth() -> None:
    assert "more than 100 aliases" in complaints_about("a: &a 1\nb: [" + "*a, " * 101 + "]")[0].message
    chain = "a0: &a0 [[[[[[[[x]]]]]]]]\n" + "".join(f"a{i}: &a{i} [[[*a{i - 1}]]]\n" for i in range(1, 20))
    assert "nested more than 40" in complaints_about(chain)[0].message
    assert parse_yaml("a: &a 1\nb: [" + "*a, " * 100 + "]").data["b"] == [1] * 100


def test_too_many_values() -> None:
    assert "more than 200,000 values" in complaints_about("[" + "1," * 200_001 + "]")[0].message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def diagnostic(path: Path) -> str:
        with pytest.raises(InputError) as caught:
            read_yaml(path)
        return str(caught.value)

    (tmp_path / "demand.yaml").write_text("a: 1\n")
    assert "no such file" in diagnostic(tmp_path / "demnad.yaml")
    assert close_name(diagnostic(tmp_path / "demnad.yaml")) == "demand.yaml"
    assert "does not exist either" in diagnostic(tmp_path / "none" / "demand.yaml")
    assert "is a directory" in diagnostic(tmp_path)
    for content, words in [
        (b"a: \xff\n", "is not UTF-8 text (byte 0xff)"),
        ("a: é".encode("latin-1"), "is not UTF-8"),
        (b"\x7fELF\0\0", "not a text file"),
        ("a: 1".encode("utf-16"), "UTF-16"),
        ("a: 1".encode("utf-16-le"), "not a text file"),
        (b"a: 1\n" * 500_000, "larger than 2 MB"),
        (b"", "empty"),
    ]:
        (tmp_path / "bad.yaml").write_bytes(content)
        assert words in diagnostic(tmp_path / "bad.yaml")
    with pytest.raises(InputError):
        read_yaml("a\0b")


def close_name(message: str) -> str:
    return message.rsplit("Did you mean '", 1)[1].split("'")[0]


def test_a_file_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Not chmod: whoever runs this as root may read everything.
    monkeypatch.setattr("builtins.open", refused)
    with pytest.raises(InputError, match="may not read"):
        read_yaml("demand.yaml")


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "demand.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: [2]\r\n")
    document = read_yaml(path)
    assert document.data == {"a": 1, "b": [2]}
    assert document.marks["b", 0] == Mark(2, 5)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random.yaml"
    path.write_bytes(raw)
    try:
        read_yaml(path)
    except InputError as error:
        assert str(error)


YAMLISH = st.lists(
    st.sampled_from([*"[]{},:-?&*!|>'\"%@`#~<= \n\t\\x1", ": ", "- ", "\n  ", "&a ", "*a", "!!str ", "<<: "])
    | st.text(max_size=3),
    max_size=40,
).map("".join)


@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.__name__)
@settings(max_examples=300)
@given(text=YAMLISH)
def test_no_text_raises_anything_else(loader: type, text: str) -> None:
    before = strict_yaml.EVENT_LOADER
    strict_yaml.EVENT_LOADER = loader
    try:
        document = parse_yaml(text)
    except InputError as error:
        assert error.diagnostics
        for line in str(error).split("\n"):
            assert line.isprintable()
            assert len(line) <= LINE_LIMIT
    else:
        assert () in document.marks
    finally:
        strict_yaml.EVENT_LOADER = before


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**29), 10**29)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=10),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text("abc<=~ é", max_size=4), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@given(JSON_LIKE.filter(lambda data: data is not None), st.sampled_from([None, 1, 4]))
def test_json_is_read_as_json(data: object, indent: int | None) -> None:
    assert parse_yaml(json.dumps(data, ensure_ascii=False, indent=indent)).data == data


def test_messages_cannot_forge_terminal_output() -> None:
    (diagnostic,) = complaints_about('"a\\e[2J\\nb\\u202e": 1\n"a\\e[2J\\nb\\u202e": 2\n')
    assert str(diagnostic).isprintable()
    assert "\\x1b[2J\\nb\\u202e" in str(diagnostic)
    assert escaped("\x1b\n\u2028") == "\\x1b\\n\\u2028"


def test_a_sentence_that_is_too_long_ends_at_a_word() -> None:
    assert ended_at_a_word("one two three", 13) == "one two three"
    assert ended_at_a_word("one two, three", 12) == "one two …"
    assert ended_at_a_word("m" * 30, 12) == "m" * 11 + "…"


def test_long_errors_are_cut() -> None:
    many = InputError(Diagnostic("f" * 300, i, 1, "w" * 300, "m" * 300, "r" * 300) for i in range(40, 0, -1))
    lines = str(many).split("\n")
    assert len(lines) == 16
    assert lines[-1] == "... and 25 more; correct these first"
    places, texts = zip(*(line.split(": ", 1) for line in lines[:-1]), strict=True)
    assert max(map(len, places)) <= 80 + len(":40:1")
    assert max(map(len, texts)) <= LINE_LIMIT
    assert [diagnostic.line for diagnostic in many.diagnostics] == list(range(1, 41))
    assert pickle.loads(pickle.dumps(many)).diagnostics == many.diagnostics


def test_complaint_reads_as_a_sentence() -> None:
    where = dotted(("workloads", 0, "slo", "ttft_p95"))
    diagnostic = Diagnostic("demand.yaml", 12, 9, where, "needs a unit, got 1.5", 'Write "1.5s" or "250ms"')
    assert str(diagnostic) == (
        'demand.yaml:12:9: workloads[0].slo.ttft_p95: needs a unit, got 1.5. Write "1.5s" or "250ms".'
    )
    assert str(Diagnostic("demand.yaml", None, None, "", "is empty")) == "demand.yaml: is empty."
    assert dotted(("prices", "aws/p5.48xlarge", "on_demand")) == "prices['aws/p5.48xlarge'].on_demand"


def test_words() -> None:
    assert did_you_mean("sl0", ["slo", "name"]) == "did you mean 'slo'?"
    assert did_you_mean("SLO", ["slo", "name"]) == "did you mean 'slo'?"
    assert did_you_mean("zzz", ["slo", "name"]) == "known names: slo, name"
    assert did_you_mean("zzz", [f"quite-long-name-{i}" for i in range(50)]) == ""
    assert did_you_mean("zzz", []) == ""
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a or b",
        "a, b or c",
    ]
    assert [shown(v) for v in (None, True, "x" * 50, {}, [], 1.5)][:2] == ["nothing", "true"]
    assert len(shown("x" * 5000)) <= 42
