"""JSON read member by member, from a window of text that moves over the file: it may be larger than memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from planner.io.errors import input_error, shown

CHUNK = 1 << 20
MOST_CHARACTERS = 16_000_000
"""of one member; a whole file may be larger than memory"""
LOOK_AHEAD = 3
JsonPath = tuple[str | int, ...]
Descend = Callable[[JsonPath], bool]


def json_members(file: Path, text: TextIO, descend: Descend, remedy: str) -> Iterator[tuple[JsonPath, int, Any]]:
    """Members of a JSON text by path and line; objects and lists for which `descend` holds come in parts."""
    yield from _JsonReader(file, text, descend, remedy).document()


class _JsonReader:
    """Decodes one member after the other."""

    def __init__(self, file: Path, text: TextIO, descend: Descend, remedy: str) -> None:
        self.file, self.text, self.descend, self.remedy = file, text, descend, remedy
        self.window, self.at, self.line, self.ended = "", 0, 1, False
        self.decoder = json.JSONDecoder()

    def document(self) -> Iterator[tuple[JsonPath, int, Any]]:
        yield from self.value(())
        if self.next_character():
            self.fail("something follows the end of the document")

    def value(self, path: JsonPath) -> Iterator[tuple[JsonPath, int, Any]]:
        opening = self.next_character()
        if opening not in ("{", "[") or not self.descend(path):
            line = self.line
            yield path, line, self.decoded()
            return
        self.at += 1
        closing, is_list, n = "}" if opening == "{" else "]", opening == "[", 0
        if self.next_character() == closing:
            self.at += 1
            return
        while True:
            key: str | int = n if is_list else self.key()
            yield from self.value((*path, key))
            n += 1
            mark = self.next_character()
            if mark not in (",", closing):
                self.fail(f"expected ',' or '{closing}' after a member")
            self.at += 1
            if mark == closing:
                return

    def key(self) -> str:
        key = self.decoded() if self.next_character() == '"' else self.fail("expected a name in quotes")
        if self.next_character() != ":":
            self.fail(f"expected ':' after {shown(key)}")
        self.at += 1
        return str(key)

    def decoded(self) -> Any:
        size = CHUNK
        while True:
            try:
                value, end = self.decoder.raw_decode(self.window, self.at)
                # A number may go on beyond the window: 1 of 1.5, or of 1e+5.
                if len(self.window) - end > LOOK_AHEAD or self.ended:
                    self.line += self.window.count("\n", self.at, end)
                    self.at = end
                    return value
            except ValueError as error:
                if self.ended:
                    where = getattr(error, "pos", self.at)
                    self.line += self.window.count("\n", self.at, where)
                    self.fail("is cut off here" if where >= len(self.window.rstrip()) else "is not JSON here")
            except RecursionError:
                self.fail("is nested too deeply")
            if len(self.window) - self.at > MOST_CHARACTERS:
                self.fail(f"holds a member of more than {MOST_CHARACTERS / 1e6:g} MB, or is not JSON from here")
            self.fill(size)
            size *= 2

    def next_character(self) -> str:
        """The next character that is no space; empty at the end of the file."""
        while True:
            while self.at < len(self.window):
                character = self.window[self.at]
                if character not in " \t\r\n":
                    return character
                self.line += character == "\n"
                self.at += 1
            if self.ended:
                return ""
            self.fill(CHUNK)

    def fill(self, size: int) -> None:
        more = self.text.read(size)
        self.window, self.at, self.ended = self.window[self.at :] + more, 0, not more

    def fail(self, message: str) -> Any:
        raise input_error(self.file, message, self.remedy, self.line)
