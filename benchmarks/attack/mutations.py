"""Ways to spoil a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

NUMBERS = (
    "1e400",
    "-1e308",
    "1e308",
    "9" * 400,
    "NaN",
    ".nan",
    ".inf",
    "-.inf",
    "Infinity",
    "0",
    "-0",
    "-1",
    "1e-320",
    "0x7fffffffffffffff",
    "1_000",
    "1:30",
    "٣",
    "²",
    "1e",
    "1..2",
    "true",
    "null",
    "[]",
    "{}",
    '""',
    "1e9",
)
WORDS = (
    "null",
    "~",
    "[]",
    "{}",
    "true",
    "no",
    "''",
    "*a",
    "&a",
    "!!python/object:os.system",
    "<<",
    "|",
    ">",
    "- -",
    ": :",
    "\u202e",
    "\u0000",
    "\ufeff",
    "日本→",
    "\U0001f4a9",
    "a" * 70000,
    "%",
    "@",
    "`",
    "\x1b[31m",
    "\x85",
    "\u2028",
)
Mutation = Callable[[bytes, Random], bytes]


def spoiled(data: bytes, rng: Random) -> tuple[str, bytes]:
    """A file with one to three things wrong, and what they are."""
    names = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        name = rng.choice(sorted(MUTATIONS))
        names.append(name)
        data = MUTATIONS[name](data, rng)
    return "+".join(names), data


def _flip(data: bytes, rng: Random) -> bytes:
    spoiled = bytearray(data)
    for _ in range(rng.choice([1, 2, 20])):
        if spoiled:
            spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
    return bytes(spoiled)


def _lines(change: Callable[[list[bytes], Random], None]) -> Mutation:
    def mutate(data: bytes, rng: Random) -> bytes:
        lines = data.splitlines(keepends=True) or [b""]
        change(lines, rng)
        return b"".join(lines)

    return mutate


def _drop(lines: list[bytes], rng: Random) -> None:
    start = rng.randrange(len(lines))
    del lines[start : start + rng.choice([1, 1, 3, 30])]


def _double(lines: list[bytes], rng: Random) -> None:
    k = rng.randrange(len(lines))
    lines[k:k] = [lines[k]] * rng.choice([1, 1, 50])


def _swap(lines: list[bytes], rng: Random) -> None:
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]


def _indent(lines: list[bytes], rng: Random) -> None:
    k = rng.randrange(len(lines))
    lines[k] = rng.choice([b" ", b"\t", b"    ", b"\xc2\xa0"]) + lines[k]


def _ends(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.6:
        return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"\x0b", b"\xe2\x80\xa8"]))
    return b"".join(line + rng.choice([b"\n", b"\r\n", b"\r"]) for line in data.split(b"\n"))


def _replace(pattern: bytes, with_one_of: tuple[str, ...]) -> Mutation:
    def mutate(data: bytes, rng: Random) -> bytes:
        found = list(re.finditer(pattern, data))
        if not found:
            return data
        hit = rng.choice(found)
        return data[: hit.start()] + rng.choice(with_one_of).encode() + data[hit.end() :]

    return mutate


def _nest(data: bytes, rng: Random) -> bytes:
    depth = rng.choice([50, 2000, 60000])
    deep = rng.choice(
        [b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"- " * depth, b"[" * depth]
    )
    at = rng.randrange(len(data) + 1)
    return rng.choice([deep, data[:at] + deep + data[at:], b"name: " + deep + b"\n" + data])


def _aliases(data: bytes, rng: Random) -> bytes:
    laughs = b"a0: &a0 [x, x]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (k, k, b", ".join([b"*a%d" % (k - 1)] * 9)) for k in range(1, 25)
    )
    return rng.choice([laughs, laughs + data, data + laughs, b"a: &a [*a]\n" + data])


MUTATIONS: dict[str, Mutation] = {
    "bytes": _flip,
    "drop": _lines(_drop),
    "double": _lines(_double),
    "swap": _lines(_swap),
    "indent": _lines(_indent),
    "ends": _ends,
    "number": _replace(rb"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", NUMBERS),
    "number2": _replace(rb"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", NUMBERS),
    "type": _replace(rb"(?<=[:,\[{] )[^\s,\]}]+|(?<=: )[^\n]+", WORDS),
    "word": _replace(rb"[A-Za-z][\w.-]+", WORDS),
    "nest": _nest,
    "aliases": _aliases,
    "truncate": lambda data, rng: data[: rng.randrange(len(data) + 1)],
    "insert": lambda data, rng: (
        (at := rng.randrange(len(data) + 1)) * b"" + data[:at] + rng.choice(WORDS).encode() + data[at:]
    ),
    "encode": lambda data, rng: data.decode("utf-8", "replace").encode(
        rng.choice(["utf-16", "utf-32", "utf-8-sig", "utf-7"])
    ),
}
