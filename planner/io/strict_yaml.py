"""YAML as people mean it: positions for every value, no surprising types, every mistake at once.

Built on parser events rather than on a loader, so that nesting, aliases and size are bounded before
anything is built, and repeated keys, NaN, tags and merge keys are seen instead of silently resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path as FilePath
from typing import Any, NoReturn

import yaml
from yaml import events

from planner.io.errors import Diagnostic, InputError, Path, close_match, dotted, input_error, shown
from planner.io.input_files import read_input

MAX_BYTES = 2_000_000
MAX_DEPTH = 40
MAX_NODES = 200_000
MAX_ALIASES = 100
MAX_INT_DIGITS = 30
MAX_FLOAT_CHARACTERS = 100
TOO_LARGE = "Keep long series in a CSV file"

# At event level libyaml keeps its state on the heap; only its composer recurses, and it is not used here.
EVENT_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.?(?:inf|infinity|nan)", re.IGNORECASE)
_CONSTANTS: dict[str, bool | None] = {"": None, "~": None}
for _word, _constant in (("null", None), ("true", True), ("false", False)):
    _CONSTANTS |= {_word: _constant, _word.title(): _constant, _word.upper(): _constant}
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# One way to match each line, or a file of comments takes exponential time: CRLF is a break and an empty line.
_DIRECTIVE_FIRST = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?[\r\n])*%")
_KEY_NAME = re.compile(r"[^\W\d][\w .-]{0,99}")


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A position in a file; both numbers start at 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Document:
    """One YAML file: plain data, and where each value (`marks`) and each key (`key_marks`) is written."""

    file: str
    data: Any
    marks: dict[Path, Mark]
    key_marks: dict[Path, Mark]

    def nearest_mark(self, path: Path, at_key: bool = False) -> Mark | None:
        """Where `path` is written, or the innermost thing around it that is written at all."""
        if at_key and path in self.key_marks:
            return self.key_marks[path]
        for length in range(len(path), -1, -1):
            if path[:length] in self.marks:
                return self.marks[path[:length]]
        return None

    def diagnostic(self, path: Path, message: str, remedy: str = "", at_key: bool = False) -> Diagnostic:
        mark = self.nearest_mark(path, at_key)
        line, column = (mark.line, mark.column) if mark else (None, None)
        return Diagnostic(self.file, line, column, dotted(path), message, remedy)


def read_yaml(path: FilePath | str) -> Document:
    """Read one YAML file; raises InputError with everything that is wrong with it."""
    file = str(path)
    try:
        raw = read_input(path, MAX_BYTES, TOO_LARGE)
    except FileNotFoundError:
        raise input_error(file, "there is no such file", _similar_file(FilePath(path))) from None
    except IsADirectoryError:
        raise input_error(file, "this is a directory", "Name the YAML file in it") from None
    except PermissionError:
        raise input_error(file, "you may not read this file", "Check its permissions with ls -l") from None
    except (OSError, ValueError) as error:
        raise input_error(file, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parse_yaml(_decoded(raw, file), file, of_keys=True)


def parse_yaml(text: str, file: str = "<text>", of_keys: bool = False) -> Document:
    """Read YAML text; raises InputError with everything that is wrong with it.

    With `of_keys` it must be a mapping of names: a file that is none may be anybody's, so nothing of it is quoted.
    """
    if len(text) > MAX_BYTES:
        raise input_error(file, f"is larger than {MAX_BYTES // 1_000_000} MB", TOO_LARGE)
    text = text.removeprefix("\ufeff")
    strange = _NOT_TEXT.search(text)
    if strange:
        code = f"U+{ord(strange.group()):04X}"
        line, column = _position(text, strange.start())
        raise input_error(file, f"holds a character that YAML does not allow ({code})", "Delete it", line, column)
    if directive := _DIRECTIVE_FIRST.match(text):
        line, column = _position(text, directive.end() - 1)
        raise input_error(file, "YAML directives (%) are not supported", "Delete this line", line, column)
    reader = _Reader(text, file, of_keys)
    try:
        root = reader.root()
    except _Stop:
        root = None
    if reader.diagnostics or root is None:
        raise InputError(reader.diagnostics)
    document = Document(file, None, {}, {})
    return Document(file, _laid_out(root, (), document), document.marks, document.key_marks)


def _similar_file(path: FilePath) -> str:
    try:
        siblings = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f"The directory {shown(str(path.parent))} does not exist either"
    match = close_match(path.name, siblings)
    return f"Did you mean {shown(match, 80)} in the same folder?" if match else "Check the path"


def _decoded(raw: bytes, file: str) -> str:
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise input_error(file, "is encoded as UTF-16", "Save it as UTF-8")
    if b"\0" in raw:
        raise input_error(file, "is not a text file", "Name a YAML file, saved as UTF-8")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _position(raw[: error.start].decode("utf-8"), error.start)
        raise input_error(
            file, f"is not UTF-8 text (byte 0x{raw[error.start]:02x})", "Save it as UTF-8", line, column
        ) from None


def _position(text: str, index: int) -> tuple[int, int]:
    lines = _LINE_BREAK.split(text[:index])
    return len(lines), len(lines[-1]) + 1


@dataclass(slots=True)
class _Node:
    mark: Mark
    content: Any
    """A scalar, a list of nodes, or a dict of (key mark, node)."""
    size: int = 1
    height: int = 1


def _laid_out(node: _Node, path: Path, document: Document) -> Any:
    """Plain data of a node; aliases become copies, and every path gets its marks."""
    document.marks[path] = node.mark
    if isinstance(node.content, list):
        return [_laid_out(item, (*path, i), document) for i, item in enumerate(node.content)]
    if isinstance(node.content, dict):
        data = {}
        for key, (key_mark, value) in node.content.items():
            document.key_marks[*path, key] = key_mark
            data[key] = _laid_out(value, (*path, key), document)
        return data
    return node.content


class _Stop(Exception):
    """Nothing after this point can be read."""


class _Reader:
    """Turns events into nodes; mistakes that leave the structure intact are noted and reading goes on."""

    def __init__(self, text: str, file: str, of_keys: bool) -> None:
        self.text = text
        self.file = file
        self.of_keys = of_keys
        self.diagnostics: list[Diagnostic] = []
        self.events: Iterator[Any] = yaml.parse(text, Loader=EVENT_LOADER)
        self.anchors: dict[str, _Node | None] = {}
        self.path: list[str | int] = []
        self.nodes = 0
        self.aliases = 0

    def root(self) -> _Node:
        self.next()
        if isinstance(self.next(), events.StreamEndEvent):
            self.stop(Mark(1, 1), "the file is empty", "Every line is blank or a comment; write some keys")
        first = self.next()
        if self.of_keys and not isinstance(first, events.MappingStartEvent) and not _is_nothing(first):
            self.stop(_mark(first), f"expected a mapping, got {_kind(first)}", "Write keys and values: key: value")
        root = self.node(first, depth=1)
        if root.content is None and not self.diagnostics:
            self.stop(Mark(1, 1), "the file is empty", "Every line is blank or a comment; write some keys")
        end = self.next()
        rest = self.text[end.end_mark.index :]
        another = not _DIRECTIVE_FIRST.match(rest) and self.next()
        if not isinstance(another, events.StreamEndEvent):
            mark = _mark(another or end)
            self.stop(mark, "a second document starts here", "Keep one document per file; delete the '---'")
        return root

    def next(self) -> Any:
        try:
            return next(self.events)
        except yaml.MarkedYAMLError as error:
            self.diagnostics.append(syntax_complaint(error, self.text, self.file))
        except (yaml.YAMLError, ValueError, OverflowError, StopIteration):
            self.note(None, "this is not valid YAML", "Check quotes, brackets and indentation")
        raise _Stop

    def note(self, mark: Mark | None, message: str, remedy: str) -> None:
        line, column = (mark.line, mark.column) if mark else (None, None)
        where = dotted(tuple(self.path))
        self.diagnostics.append(Diagnostic(self.file, line, column, where, message, remedy))

    def stop(self, mark: Mark, message: str, remedy: str) -> NoReturn:
        self.note(mark, message, remedy)
        raise _Stop

    def node(self, event: Any, depth: int) -> _Node:
        mark = _mark(event)
        self.bound(mark, 1, depth)
        if isinstance(event, events.AliasEvent):
            return self.aliased(event, mark, depth)
        if event.tag is not None:
            remedy = "Delete the tag; put the value in quotes if it is text"
            self.note(mark, f"the tag {shown(_short_tag(event.tag))} is not allowed", remedy)
        if isinstance(event, events.ScalarEvent):
            node = _Node(mark, self.scalar(event, mark))
        else:
            if event.anchor:
                self.anchors[event.anchor] = None
            is_list = isinstance(event, events.SequenceStartEvent)
            node = self.sequence(mark, depth) if is_list else self.mapping(mark, depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def bound(self, mark: Mark, nodes: int, depth: int) -> None:
        self.nodes += nodes
        # Naming forty brackets helps nobody, so these two are reported for the file, not for a path.
        if depth > MAX_DEPTH:
            self.path = []
            self.stop(mark, f"is nested more than {MAX_DEPTH} levels deep", "Look for unclosed brackets")
        if self.nodes > MAX_NODES:
            self.path = []
            remedy = "Keep long series in a CSV file, and repeat less through aliases"
            self.stop(mark, f"holds more than {MAX_NODES:,} values (aliases counted in full)", remedy)

    def aliased(self, event: Any, mark: Mark, depth: int) -> _Node:
        name = shown("*" + event.anchor)
        self.aliases += 1
        if self.aliases > MAX_ALIASES:
            self.stop(mark, f"more than {MAX_ALIASES} aliases (*name) in one file", "Write the values out")
        if event.anchor not in self.anchors:
            known = ["*" + anchor for anchor in self.anchors]
            match = close_match("*" + event.anchor, known)
            remedy = f"Did you mean {shown(match)}?" if match else "Put it in quotes if it is meant as text"
            self.note(mark, f"the alias {name} names no anchor defined above it", remedy)
            return _Node(mark, None)
        target = self.anchors[event.anchor]
        if target is None:
            self.note(mark, f"the alias {name} refers to the value it is part of", "Write the value out")
            return _Node(mark, None)
        self.bound(mark, target.size - 1, depth + target.height - 1)
        return target

    def sequence(self, mark: Mark, depth: int) -> _Node:
        items: list[_Node] = []
        while not isinstance(event := self.next(), events.SequenceEndEvent):
            self.path.append(len(items))
            items.append(self.node(event, depth + 1))
            self.path.pop()
        return _collection(mark, items, items)

    def mapping(self, mark: Mark, depth: int) -> _Node:
        entries: dict[str, tuple[Mark, _Node]] = {}
        values: list[_Node] = []
        while not isinstance(event := self.next(), events.MappingEndEvent):
            key_mark = _mark(event)
            if self.of_keys and depth == 1 and not values and not _could_be_a_key(event):
                self.stop(key_mark, "expected a mapping, but this is not a key", "Write keys and values: key: value")
            written = event.value if isinstance(event, events.ScalarEvent) else ""
            key = self.node(event, depth + 1).content
            usable = self.usable_key(key, key_mark, event, entries)
            self.path.append(key if isinstance(key, str) else written or "?")
            values.append(self.node(self.next(), depth + 1))
            self.path.pop()
            if usable:
                entries[key] = (key_mark, values[-1])
        return _collection(mark, entries, values)

    def usable_key(self, key: Any, mark: Mark, event: Any, entries: dict[str, Any]) -> bool:
        if isinstance(key, str) and key == "<<" and not event.style:
            remedy = "Write the keys out; an alias may stand for a whole value"
            self.note(mark, "the merge key '<<' is not supported", remedy)
        elif isinstance(key, list | dict):
            remedy = 'Put text that holds braces or brackets in quotes, such as "{name}"'
            self.note(mark, f"a key must be text, got {shown(key)}", remedy)
        elif not isinstance(key, str):
            written = getattr(event, "value", "")
            remedy = f'Put the key in quotes: "{written}"' if written else "Write a name before the colon"
            self.note(mark, f"a key must be text, got {shown(key)}", remedy)
        elif key in entries:
            remedy = "Keep one of the two"
            self.note(mark, f"the key {shown(key)} was already given on line {entries[key][0].line}", remedy)
        else:
            return True
        return False

    def scalar(self, event: Any, mark: Mark) -> str | int | float | bool | None:
        text: str = event.value
        if _SURROGATE.search(text):
            self.note(mark, "the text holds half of a surrogate pair", "Write the character itself")
        if event.style or event.tag is not None:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INT.fullmatch(text):
            if len(text.lstrip("+-")) <= MAX_INT_DIGITS:
                return int(text)
            remedy = "Put it in quotes if it is a name"
            self.note(mark, f"the number {shown(text)} has more than {MAX_INT_DIGITS} digits", remedy)
        elif _FLOAT.fullmatch(text):
            if len(text) <= MAX_FLOAT_CHARACTERS and isfinite(float(text)):
                return float(text)
            self.note(mark, f"the number {shown(text)} is out of range", "Put it in quotes if it is a name")
        elif _NOT_FINITE.fullmatch(text):
            remedy = "Write a number, or leave the key out; quote it if it is a name"
            self.note(mark, f"{shown(text)} is not a usable number", remedy)
        return text


def _mark(event: Any) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


def _is_nothing(event: Any) -> bool:
    return isinstance(event, events.ScalarEvent) and not event.style and _CONSTANTS.get(event.value, "") is None


def _kind(event: Any) -> str:
    return "a list" if isinstance(event, events.SequenceStartEvent) else "text"


def _could_be_a_key(event: Any) -> bool:
    """Whether a message may quote it: /etc/shadow is YAML, and its lines are keys."""
    return not isinstance(event, events.ScalarEvent) or bool(_KEY_NAME.fullmatch(event.value)) or len(event.value) < 9


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _collection(mark: Mark, content: Any, children: list[_Node]) -> _Node:
    size = 1 + sum(child.size for child in children)
    return _Node(mark, content, size, 1 + max((child.height for child in children), default=0))


# The parsers' own words (libyaml's and PyYAML's differ) on the left; ours on the right.
_INDENTATION = "Give entries that belong together the same number of spaces"
_QUOTE_IT = "Put the value in quotes if it is text"
_SYNTAX: tuple[tuple[str, str, str], ...] = (
    ("mapping values", "a ': ' is not allowed here", 'Quote text that holds ": ", or check the indentation'),
    ("could not find expected ':'", "this line is not 'key: value'", "Put a colon and a space after the key"),
    ("sequence entries", "a '- ' list cannot start here", "Start it on the next line, or write [a, b]"),
    ("',' or ']'", "the list is missing a ',' or its closing ']' here", "Close it with ]"),
    ("',' or '}'", "the mapping is missing a ',' or its closing '}' here", "Close it with }"),
    ("end of stream|document separator", "a quote is opened here and never closed", "Close the quote"),
    ("escape|hexa", "an unknown \\ sequence in double quotes", "Use single quotes, or write \\\\ for one \\"),
    ("alphabetic or numeric", "'*' and '&' have a meaning of their own in YAML", _QUOTE_IT),
    ("node content", "a value is missing here", f"Write one, or delete what surrounds it. {_QUOTE_IT}"),
    ("undefined tag handle|tag", "tags (!) are not allowed", _QUOTE_IT),
    ("cannot start any token|directive", "a value cannot start with CHARACTER", _QUOTE_IT),
    ("chomping|comment or|indentation ind", "text after '|' or '>' starts on the next line", _QUOTE_IT),
    ("document start", "this does not fit what comes before it", _INDENTATION),
    ("block end|expected key|'-' indicator", "the indentation does not match the lines above", _INDENTATION),
)


def syntax_complaint(error: yaml.MarkedYAMLError, text: str, file: str) -> Diagnostic:
    """A parser's error, in words that say what to change."""
    problem, context = error.problem or "", error.context or ""
    place = error.problem_mark or error.context_mark
    # "could not find ':'" and unclosed quotes are noticed lines after the place to mend.
    if error.context_mark and re.search("could not find|end of stream|document separator|directive", problem):
        place = error.context_mark
    if place is None:
        return Diagnostic(file, None, None, "", "this is not valid YAML", "Check quotes and indentation")
    lines = _LINE_BREAK.split(text)
    line = lines[place.line] if place.line < len(lines) else ""
    before, character = line[: place.column], line[place.column : place.column + 1]
    message, remedy = "this is not valid YAML", "Check quotes, brackets and indentation"
    for pattern, words, mending in _SYNTAX:
        if re.search(pattern, problem) or (pattern.endswith("tag") and "tag" in context):
            message, remedy = words.replace("CHARACTER", shown(character)), mending
            break
    if character == "\t" or "\t" in line[: len(line) - len(line.lstrip())]:
        message, remedy = "there is a tab where YAML requires spaces", "Indent with spaces, not with tabs"
    elif message.startswith("a ': '") and before[:1] == " " and ": " not in before:
        message, remedy = "this line is indented as if it belonged to the value above it", _INDENTATION
    elif remedy == _INDENTATION and character == ":":
        message, remedy = "there is no key before this ':'", "Write a name before the colon"
    elif remedy == _INDENTATION and before.strip():
        message, remedy = "this does not belong after the value before it", "Put the whole value in quotes"
    elif remedy == _INDENTATION and character in ("]", "}"):
        message, remedy = f"this '{character}' closes nothing", "Delete it"
    elif "',' or" in problem and error.context_mark:
        remedy += f"; it was opened on line {error.context_mark.line + 1}"
    return Diagnostic(file, place.line + 1, place.column + 1, "", message, remedy)
