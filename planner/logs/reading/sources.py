"""Log files: names, folders and patterns become files, and packed files become blocks of whole lines.

Nothing is held beyond one block. A file that ends in the middle gives what it has, and the ledger says so.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from planner.io.errors import input_error, shown
from planner.io.input_files import ENDINGS, unpacked
from planner.logs.reading.ledger import Ledger

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".pq")
BLOCK_BYTES = 4 << 20
LONGEST_LINE_BYTES = LONGEST_RECORD_BYTES = 16_000_000
PARQUET = b"PAR1"
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def log_files(sources: Sequence[str]) -> list[Path]:
    """Files named by sources, each once: a file, a folder (with what it holds) or a pattern such as logs/*.csv.gz."""
    files: dict[str, Path] = {}
    for source in sources:
        path = Path(source)
        if os.path.isdir(path):
            matches = [p for p in sorted(path.rglob("*")) if _is_log(p)]
        elif not os.path.exists(path) and glob.has_magic(source):
            matches = [Path(p) for p in sorted(glob.glob(source, recursive=True)) if os.path.isfile(p)]
        else:
            matches = [path]
        if not matches:
            endings = ", ".join(SUFFIXES)
            raise input_error(source, "holds no log", f"Name files that end in {endings}, packed or not")
        for match in matches:
            files.setdefault(os.path.realpath(match), match)
    return list(files.values())


def without_copies(files: Sequence[Path], ledger: Ledger) -> list[Path]:
    """The files without those whose contents are, byte by byte, those of an earlier one."""
    sizes = Counter(os.path.getsize(path) for path in files if os.path.isfile(path))
    kept, seen = [], dict[bytes, Path]()
    for path in files:
        if os.path.isfile(path) and sizes[os.path.getsize(path)] > 1:
            with contextlib.suppress(OSError), path.open("rb") as stream:  # its reader says what is wrong with it
                digest = hashlib.file_digest(stream, "sha256").digest()
                if digest in seen:
                    ledger.note(f"{shown(path.name)} is a copy of {shown(seen[digest].name)}: read once")
                    continue
                seen[digest] = path
        kept.append(path)
    return kept


def _is_log(path: Path) -> bool:
    name = path.with_suffix("") if path.suffix.lower() in ENDINGS else path
    hidden = any(part.startswith(".") for part in path.parts if part not in (".", ".."))
    return os.path.isfile(path) and not hidden and name.suffix.lower() in SUFFIXES


def log_pieces(path: Path, ledger: Ledger) -> Iterator[bytes]:
    """Pieces of a log, unpacked."""

    def cut_short() -> None:
        ledger.cut_short.add(path)
        ledger.note(f"{shown(path.name)} ends in the middle of its packed data: what comes before is read")

    pieces = unpacked(path, cut_short, "Name a log")
    head = next(pieces, b"")
    if head.startswith(UTF16):
        raise input_error(path, "is text in UTF-16", "Convert it: iconv -f UTF-16 -t UTF-8")
    yield head
    yield from pieces


def whole_lines(pieces: Iterable[bytes], path: Path, ledger: Ledger) -> Iterator[bytes]:
    """Pieces without the half of a line with which a file that is cut short ends: it may look like a whole row."""
    tail: list[bytes] = []
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join([*tail, piece[:cut]])
            tail = []
        tail.append(piece[cut:])
    if path not in ledger.cut_short:
        yield b"".join(tail)


def short_lines(pieces: Iterable[bytes], path: Path, most_bytes: int = LONGEST_LINE_BYTES) -> Iterator[bytes]:
    """Pieces as they are; raises InputError where a line is so long that it would fill the memory."""
    at = begins = 0
    for piece in pieces:
        first = piece.find(b"\n")
        if at - begins + (len(piece) if first < 0 else first) > most_bytes:
            message = f"has a line of more than {most_bytes / 1e6:g} MB, from byte {begins:,} on"
            raise input_error(path, message, "Export it with a line break after each request")
        if first >= 0:
            begins = at + piece.rfind(b"\n") + 1
        at += len(piece)
        yield piece


def line_blocks(pieces: Iterable[bytes], quoted: bool) -> Iterator[bytes]:
    """Blocks of whole records; with `quoted`, a line break inside double quotes does not end a record."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size < BLOCK_BYTES:
            continue
        block = b"".join(waiting)
        cut = last_break(block, quoted)
        if cut:
            yield block[:cut]
        elif len(block) > LONGEST_RECORD_BYTES:
            # A quotation mark that is never closed must not swallow the file: here lines are taken one by one.
            cut = last_break(block, quoted=False)
            yield from _in_blocks(block[:cut])
        waiting, size = [block[cut:]], len(block) - cut
    rest = b"".join(waiting)
    if rest:
        yield rest


def _in_blocks(lines: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(lines):
        end = lines.find(b"\n", at + BLOCK_BYTES) + 1 or len(lines)
        yield lines[at:end]
        at = end


def last_break(block: bytes, quoted: bool) -> int:
    """Where the last whole record ends; 0 where none does yet."""
    cut = block.rfind(b"\n") + 1
    if not quoted:
        return cut
    quotes, end = block.count(b'"'), len(block)
    at = cut
    while at:
        quotes -= block.count(b'"', at, end)
        if quotes % 2 == 0:
            return at
        end, at = at, block.rfind(b"\n", 0, at - 1) + 1
    return 0
