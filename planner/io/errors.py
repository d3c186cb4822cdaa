"""What is wrong with an input, where it is, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from planner.io.formatting import counted

Path = tuple[str | int, ...]

LINE_LIMIT = 280
"""characters after the name of the file: sentences of our own are shorter, whatever users name their keys"""
LINES_SHOWN = 15
_PLAIN_KEY = re.compile(r"[\w/-]+")


def escaped(text: str) -> str:
    """Text with everything a terminal might act on (controls, newlines, bidi marks) spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def ended_at_a_word(text: str, limit: int) -> str:
    """A sentence that is too long, without its last words; a word that is longer than that is cut."""
    if len(text) <= limit:
        return text
    words = text[: max(limit - 1, 0)].rpartition(" ")[0].rstrip(",;: ")
    return f"{words} …" if len(words) > limit // 2 else shortened(text, limit)


def shown(value: object, limit: int = 40) -> str:
    """A user's value the way a message names it: quoted, escaped, short."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # Cut before escaping as well: a value may be megabytes long.
        return "'" + shortened(escaped(value[: limit + 1]), limit) + "'"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a huge number"  # repr refuses integers of thousands of digits
    return shortened(escaped(repr(value)), limit)


def dotted(path: Path) -> str:
    """`workloads[0].slo.ttft_p95`; a key that is no plain word is quoted: `prices['aws/p5.48xlarge']`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{shown(part)}]"
    return text


@dataclass(frozen=True)
class Diagnostic:
    """One thing to correct in an input; every text in it is safe to print."""

    file: str
    line: int | None
    column: int | None
    where: str
    message: str
    remedy: str = ""

    def __post_init__(self) -> None:
        for name in ("file", "where", "message", "remedy"):
            object.__setattr__(self, name, escaped(getattr(self, name)))

    def __str__(self) -> str:
        file = self.file if len(self.file) <= 80 else "…" + self.file[-79:]
        place = ":".join([file, *(str(n) for n in (self.line, self.column) if n is not None)])
        where = self.where if len(self.where) <= 60 else f"{self.where[:25]}…{self.where[-34:]}"
        head = f"{where}: " if where else ""
        remedy = " " + _sentence(self.remedy) if self.remedy else ""
        # The remedy is what the reader acts on, so a long message gives way to it.
        room = max(LINE_LIMIT - len(head) - len(remedy) - 1, 50)
        message = ended_at_a_word(self.message, room)
        end = "" if message[-1:] in ".?!…" else "."
        return f"{place}: {ended_at_a_word(head + message + end + remedy, LINE_LIMIT)}"

    @property
    def position(self) -> tuple[str, int, int]:
        return (self.file, self.line or 0, self.column or 0)


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".?!…" else text + "."


def _of_files(same: Sequence[Diagnostic]) -> str:
    """The first of several that differ by their file alone, and how many there are."""
    others = f" ({counted(len(same) - 1, 'other file')} too)" if len(same) > 1 else ""
    return str(replace(same[0], message=same[0].message + others))


class InputError(Exception):
    """An input cannot be used; `diagnostics` say everything that is wrong with it, in reading order."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(
            sorted(dict.fromkeys(diagnostics), key=lambda diagnostic: diagnostic.position)
        )
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        groups: dict[object, list[Diagnostic]] = {}
        for d in self.diagnostics:
            of_whole_files = d.line is None and not d.where
            groups.setdefault((d.message, d.remedy) if of_whole_files else d, []).append(d)
        lines = [_of_files(same) for same in list(groups.values())[:LINES_SHOWN]]
        more = len(groups) - len(lines)
        if more:
            lines.append(f"... and {more} more; correct these first")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Diagnostic, ...]]]:
        return (type(self), (self.diagnostics,))


def input_error(
    where: object, message: str, fix: str = "", line: int | None = None, column: int | None = None, at: str = ""
) -> InputError:
    """One mistake in a file or an option; `at` is the place inside of it."""
    return InputError([Diagnostic(str(where), line, column, at, message, fix)])


class OutOfTime(Exception):
    """The time limit was reached before there was a plan that holds."""

    def __init__(self, limit_s: float, doing: str, needed_s: float) -> None:
        self.limit_s, self.doing, self.needed_s = limit_s, doing, needed_s
        super().__init__(limit_s, doing, needed_s)

    def __str__(self) -> str:
        return (
            f"no plan yet: the time limit of {self.limit_s:.3g} s was reached while {self.doing}. A first plan for "
            f"this file takes about {max(1.0, self.needed_s):.0f} s or more on this machine at its present load; try "
            f"--time-limit {max(10.0, 2 * self.needed_s):.0f}s, or none."
        )


class Problem(ValueError):
    """A value is wrong; raised where the position in the file is not known."""

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message, remedy)

    def __str__(self) -> str:
        return f"{self.message}. {_sentence(self.remedy)}" if self.remedy else self.message


class Expected(Problem):
    """A value is not the kind of thing that was asked for."""

    def __init__(self, what: str, value: object, remedy: str = "") -> None:
        self.what = what
        super().__init__(f"expected {what}, got {shown(value)}", remedy)


def listed(words: Sequence[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def close_match(word: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant."""
    by_folded: dict[str, str] = {}
    for name in known:
        by_folded.setdefault(name.casefold(), name)
    matches = get_close_matches(word[:100].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A remedy for an unknown word: the closest known one, else all of them when they fit on a line."""
    names = list(known)
    match = close_match(word, names)
    if match is not None:
        return f"did you mean {shown(match)}?"
    everything = ", ".join(shown(name)[1:-1] for name in names)
    return f"known names: {everything}" if names and len(everything) <= 100 else ""
