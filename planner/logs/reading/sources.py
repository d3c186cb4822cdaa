"""Log files: names, folders and patterns become files, and packed files become blocks of whole lines.

Nothing is held beyond one block. A file that ends in the middle gives what it has, and the ledger says so.
"""

from __future__ import annotations

import bz2
import glob
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from planner.io.errors import input_error, shown
from planner.io.input_files import open_input
from planner.logs.reading.ledger import Ledger

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".pq")
PACKED = (".gz", ".zst", ".bz2", ".xz")
PIECE_BYTES, BLOCK_BYTES, LONGEST_RECORD_BYTES = 1 << 20, 8 << 20, 64 << 20
GZIP, ZSTD, BZIP2, XZ, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00", b"PAR1"
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def log_files(sources: Sequence[str]) -> list[Path]:
    """Files named by sources, each once: a file, a folder (with what it holds) or a pattern such as logs/*.csv.gz."""
    files: dict[Path, Path] = {}
    for source in sources:
        path = Path(source)
        if path.is_dir():
            matches = [p for p in sorted(path.rglob("*")) if _is_log(p)]
        elif not path.exists() and glob.has_magic(source):
            matches = [Path(p) for p in sorted(glob.glob(source, recursive=True)) if Path(p).is_file()]
        else:
            matches = [path]
        if not matches:
            endings = ", ".join(SUFFIXES)
            raise input_error(source, "holds no log", f"Name files that end in {endings}, packed or not")
        for match in matches:
            files.setdefault(match.resolve(), match)
    return list(files.values())


def _is_log(path: Path) -> bool:
    name = path.with_suffix("") if path.suffix.lower() in PACKED else path
    hidden = any(part.startswith(".") for part in path.parts if part not in (".", ".."))
    return path.is_file() and not hidden and name.suffix.lower() in SUFFIXES


def unpacked(path: Path, ledger: Ledger) -> Iterator[bytes]:
    """Pieces of a file as it was before it was packed, by its first bytes and not by its name."""
    try:
        with open_input(path) as stream:
            head = stream.read(PIECE_BYTES)
            if head.startswith(UTF16):
                raise input_error(path, "is text in UTF-16", "Convert it: iconv -f UTF-16 -t UTF-8")
            yield from _pieces(path, head, stream, ledger)
    except OSError as error:
        raise input_error(path, f"cannot be read: {error.strerror or error}", "Name a log") from None


def _pieces(path: Path, head: bytes, stream: BinaryIO, ledger: Ledger) -> Iterator[bytes]:
    packed = _with_rest(head, stream)
    if head.startswith(GZIP):
        yield from _inflated(path, packed, ledger)
    elif head.startswith(ZSTD):
        yield from _zstandard(path, ledger)
    elif head.startswith((BZIP2, XZ)):
        yield from _decompressed(path, packed, head.startswith(BZIP2), ledger)
    else:
        yield from packed


def _with_rest(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    while head:
        yield head
        head = stream.read(PIECE_BYTES)


def _inflated(path: Path, packed: Iterable[bytes], ledger: Ledger) -> Iterator[bytes]:
    """Gzip, in one or more members."""
    inflate, begun = zlib.decompressobj(31), False
    for piece in packed:
        while piece:
            begun = True
            try:
                yield inflate.decompress(piece, PIECE_BYTES)
            except zlib.error:
                _cut_short(path, ledger)
                return
            piece = inflate.unconsumed_tail
            if inflate.eof:
                piece = inflate.unused_data.lstrip(b"\0")
                inflate, begun = zlib.decompressobj(31), False
    if begun:
        _cut_short(path, ledger)


def _decompressed(path: Path, packed: Iterable[bytes], is_bzip2: bool, ledger: Ledger) -> Iterator[bytes]:
    unpack: Any = bz2.BZ2Decompressor() if is_bzip2 else lzma.LZMADecompressor()
    for piece in packed:
        if unpack.eof:
            break
        try:
            out = unpack.decompress(piece, PIECE_BYTES)
            while out:
                yield out
                out = b"" if unpack.eof or unpack.needs_input else unpack.decompress(b"", PIECE_BYTES)
        except (OSError, lzma.LZMAError):
            break
    if not unpack.eof:
        _cut_short(path, ledger)


def _zstandard(path: Path, ledger: Ledger) -> Iterator[bytes]:
    try:
        import pyarrow as pa
    except ImportError:
        raise input_error(path, "is packed with zstd", "Install fleetplan[logs], or unpack it") from None
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        while True:
            try:
                piece = stream.read(PIECE_BYTES)
            except OSError:
                _cut_short(path, ledger)
                return
            if not piece:
                return
            yield piece


def _cut_short(path: Path, ledger: Ledger) -> None:
    ledger.cut_short.add(path)
    ledger.note(f"{shown(path.name)} ends in the middle of its packed data: what comes before is read")


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


def line_blocks(pieces: Iterable[bytes], quoted: bool) -> Iterator[bytes]:
    """Blocks of whole records; with `quoted`, a line break inside double quotes does not end a record."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size < BLOCK_BYTES:
            continue
        block = b"".join(held)
        cut = _last_break(block, quoted)
        if cut:
            yield block[:cut]
        held, size = [block[cut:]], len(block) - cut
    rest = b"".join(held)
    if rest:
        yield rest


def _last_break(block: bytes, quoted: bool) -> int:
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
    # A quotation mark that is never closed must not swallow the file: from here on lines are taken one by one.
    return cut if len(block) > LONGEST_RECORD_BYTES else 0
