"""The most memory that commands take, by what they are given, against a limit; exits with 1 if one is above its limit.

    python benchmarks/memory.py                       # all cases
    python benchmarks/memory.py --only "sparse" "gzip"
    python benchmarks/memory.py --rows 10000000

Each case writes what it needs into a temporary folder (packed, or as a file with holes: less than 1 GB of disk) and
runs one command. Its peak is that of its resident memory, as the kernel counts it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from logs import write_log

LIMIT_MB = 500
MB = 1_000_000
HEADER = b"time,input_tokens,output_tokens\n"
ROW, LATER = b"2026-09-07T00:00:01,5,6\n", b"2026-09-07T00:10:01,5,6\n"
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
"""a small process between this one and the command, whose peak would else be no less than what this one holds"""


@dataclass(frozen=True)
class Case:
    name: str
    write: Callable[[Path, int], list[str]]
    """writes files into a folder, given how many rows a normal log has, and returns the command's arguments"""
    exit_code: int = 0
    limit_mb: int = LIMIT_MB


def normal_log(folder: Path, rows: int) -> list[str]:
    write_log(folder / "log.csv", rows)
    return ["demand", str(folder / "log.csv"), "--by", "model", "--quiet"]


def packed(name: str, head: bytes, again: bytes, total_bytes: int) -> Callable[[Path, int], list[str]]:
    """Gzip of a head and of the same bytes over and over."""

    def write(folder: Path, rows: int) -> list[str]:
        block = again * max(1, MB // len(again))
        with gzip.open(folder / name, "wb", compresslevel=1) as stream:
            stream.write(head)
            for _ in range(total_bytes // len(block)):
                stream.write(block)
        return ["demand", str(folder / name), "--quiet"]

    return write


def sparse(folder: Path, rows: int) -> list[str]:
    with (folder / "log.csv").open("wb") as stream:
        stream.truncate(10_000 * MB)
    return ["demand", str(folder / "log.csv"), "--quiet"]


def long_lines(folder: Path, rows: int) -> list[str]:
    """JSON lines with prompts just below the longest line that is read."""
    with (folder / "log.jsonl").open("w") as stream:
        for k in range(20):
            request = {
                "time": 1_788_739_200 + 97 * k,
                "input_tokens": 5,
                "output_tokens": 6,
                "prompt": "x" * 15_900_000,
            }
            stream.write(json.dumps(request) + "\n")
    return ["demand", str(folder / "log.jsonl"), "--quiet"]


def long_cells(folder: Path, rows: int) -> list[str]:
    """CSV with prompts just below the longest line that is read."""
    with (folder / "log.csv").open("wb") as stream:
        stream.write(HEADER.replace(b"\n", b",prompt\n"))
        for k in range(20):
            stream.write(b"%d,5,6," % (1_788_739_200 + 97 * k) + b"x" * 15_900_000 + b"\n")
    return ["demand", str(folder / "log.csv"), "--quiet"]


GB_3, MB_100 = 3_000 * MB, 100 * MB
SERIES, SAMPLE = b'{"data":{"result":[{"metric":{},"values":[', b'[1788739200,"1"],'
CASES = (
    Case("normal log", normal_log),
    Case("gzip of CSV without line breaks, 3 GB", packed("log.csv.gz", HEADER + ROW, b"0", GB_3), 2),
    Case("gzip of a JSON line without an end, 3 GB", packed("log.jsonl.gz", b'{"a": 1}\n{"a": "', b"0", GB_3), 2),
    Case("gzip of a JSON list of one record, 3 GB", packed("log.json.gz", b'[{"time": "', b"0", GB_3), 2),
    Case("gzip of one series of Prometheus, 3 GB", packed("log.json.gz", SERIES, SAMPLE, GB_3), 2),
    Case("gzip of a quoted cell without an end, 30 MB", packed("log.csv.gz", HEADER + ROW + b'"', LATER, 30 * MB)),
    Case("gzip of empty cells, 100 MB", packed("log.csv.gz", HEADER + ROW + LATER, b",,\n", MB_100)),
    Case("sparse file of 10 GB", sparse, 2),
    Case("JSON lines of 15.9 MB", long_lines),
    Case("CSV rows of 15.9 MB", long_cells),
)


def peak_mb(arguments: list[str]) -> tuple[float, int, float, str]:
    """Peak of resident memory, exit code, seconds, and the last line that the command wrote to its error stream."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as errors, tempfile.NamedTemporaryFile("r") as peak:
        command = [sys.executable, "-c", MEASURE, peak.name, sys.executable, "-m", "planner.cli", *arguments]
        code = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=errors, check=False).returncode
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip().splitlines()
        kilobytes = float(peak.read()) / (1024 if sys.platform == "darwin" else 1)
    return kilobytes * 1024 / MB, code, time.monotonic() - began, said[-1] if said else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000, help="of a normal log")
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose names hold one of these texts")
    options = parser.parse_args()
    failed = 0
    print("| case | peak MB | limit MB | peak / limit | seconds | exit code |\n|---|---|---|---|---|---|")
    for case in CASES:
        if not any(text in case.name for text in options.only):
            continue
        with tempfile.TemporaryDirectory(prefix="fleetplan-memory-") as folder:
            peak, code, seconds, said = peak_mb(case.write(Path(folder), options.rows))
        wrong = peak > case.limit_mb or code != case.exit_code
        failed += wrong
        ratio = f"{peak / case.limit_mb:.2f}{' ABOVE' * (peak > case.limit_mb)}"
        print(f"| {case.name} | {peak:.0f} | {case.limit_mb} | {ratio} | {seconds:.0f} | {code} |", flush=True)
        if code != case.exit_code:
            print(f"{case.name}: exit code {code}, not {case.exit_code}: {said}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
