"""Reading files that others wrote: within a bound, nothing that is no file, and packed ones (gzip, zstd, bzip2, xz) in
pieces, by their first bytes and not by their names.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from planner.io.errors import input_error

MOST_JSON_BYTES = 500_000_000
"""of a saved plan, an explanation or a review; a plan of 500 workloads takes a tenth of it"""
PIECE_BYTES = 1 << 20
GZIP, ZSTD, BZIP2, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"
ENDINGS = (".gz", ".zst", ".bz2", ".xz")
CutShort = Callable[[], None]
"""called where packed data are damaged or end in the middle, after what comes before"""


def open_input(path: Path | str) -> BinaryIO:
    """Open a regular file, a pipe or stdin; a device could have no end, or act on being opened."""
    with contextlib.suppress(OSError, ValueError):
        if not _has_an_end(os.stat(path)):
            raise input_error(path, "is not a regular file", "Name a file")
    return open(path, "rb")


def _has_an_end(info: os.stat_result) -> bool:
    kinds = (stat.S_ISREG, stat.S_ISFIFO, stat.S_ISDIR)  # a directory is refused by open(), in its own words
    if any(is_kind(info.st_mode) for is_kind in kinds):
        return True
    with contextlib.suppress(OSError):
        return os.path.samestat(info, os.fstat(0))
    return False


def read_input(path: Path | str, most_bytes: int, remedy: str = "") -> bytes:
    """Read a whole file of at most so many bytes."""
    with open_input(path) as stream:
        return _bounded(stream.read(most_bytes + 1), path, most_bytes, remedy)


def read_unpacked(path: Path | str, most_bytes: int, remedy: str = "") -> bytes:
    """Read a file, plain or gzipped, of at most so many bytes once unpacked."""
    raw = read_input(path, most_bytes, remedy)
    if raw[:2] != b"\x1f\x8b":
        return raw
    return _bounded(gzip.GzipFile(fileobj=io.BytesIO(raw)).read(most_bytes + 1), path, most_bytes, remedy)


def read_json_text(path: Path | str) -> str:
    """Read the text of a JSON file that fleetplan wrote; raises InputError where it cannot be read."""
    try:
        return read_input(path, MOST_JSON_BYTES, "Give a file that fleetplan wrote").decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise input_error(path, f"cannot be read: {reason}") from None


def _bounded(raw: bytes, path: Path | str, most_bytes: int, remedy: str) -> bytes:
    if len(raw) > most_bytes:
        raise input_error(path, f"is larger than {most_bytes // 1_000_000} MB", remedy)
    return raw


def unpacked(path: Path, cut_short: CutShort, remedy: str = "") -> Iterator[bytes]:
    """Pieces of a file, packed or not; raises InputError where it cannot be read."""
    try:
        with open_input(path) as stream:
            head = stream.read(PIECE_BYTES)
            packed = _with_rest(head, stream)
            if head.startswith(GZIP):
                yield from _inflated(packed, cut_short)
            elif head.startswith(ZSTD):
                yield from _zstandard(path, cut_short)
            elif head.startswith((BZIP2, XZ)):
                yield from _decompressed(packed, head.startswith(BZIP2), cut_short)
            else:
                yield from packed
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else None
        raise input_error(path, why or f"cannot be read: {error.strerror or error}", remedy) from None


class PieceStream(io.RawIOBase):
    """Pieces as a stream that others read from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces, self.rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.rest:
            try:
                self.rest = next(self.pieces)
            except StopIteration:
                return 0
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


def _with_rest(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    while head:
        yield head
        head = stream.read(PIECE_BYTES)


def _inflated(packed: Iterable[bytes], cut_short: CutShort) -> Iterator[bytes]:
    """Gzip, in one or more members."""
    inflate, begun = zlib.decompressobj(31), False
    for piece in packed:
        while piece:
            begun = True
            try:
                if out := inflate.decompress(piece, PIECE_BYTES):
                    yield out
            except zlib.error:
                cut_short()
                return
            piece = inflate.unconsumed_tail
            if inflate.eof:
                piece = inflate.unused_data.lstrip(b"\0")
                inflate, begun = zlib.decompressobj(31), False
    if begun:
        cut_short()


def _decompressed(packed: Iterable[bytes], is_bzip2: bool, cut_short: CutShort) -> Iterator[bytes]:
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
        cut_short()


def _zstandard(path: Path, cut_short: CutShort) -> Iterator[bytes]:
    try:
        import pyarrow as pa
    except ImportError:
        raise input_error(path, "is packed with zstd", "Unpack it, or pip install 'fleetplan[parquet]'") from None
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        while True:
            try:
                piece = stream.read(PIECE_BYTES)
            except OSError:
                cut_short()
                return
            if not piece:
                return
            yield piece
