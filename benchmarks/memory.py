"""The most memory that commands take, by what they are given, against a limit; exits with 1 if one is above its limit.

    python benchmarks/memory.py                       # all cases
    python benchmarks/memory.py --only "sparse" "gzip"
    python benchmarks/memory.py --only verify         # which takes most of an hour

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

import numpy as np
import pandas as pd
from logs import write_log

DEMAND_MB, VERIFY_MB = 500, 1000
MB = 1_000_000
ROWS = 3_000_000
"""of a normal log"""
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SERVED = (0, 6, 7)
"""exit codes of verify: a promise may be missed, and time may run out"""
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
    write: Callable[[Path], list[str]]
    """writes files into a folder, and returns the command's arguments"""
    exit_codes: tuple[int, ...] = (0,)
    limit_mb: int = DEMAND_MB


def normal_log(folder: Path) -> list[str]:
    write_log(folder / "log.csv", ROWS)
    return ["demand", str(folder / "log.csv"), "--by", "model", "--quiet"]


def packed(name: str, head: bytes, again: bytes, total_bytes: int) -> Callable[[Path], list[str]]:
    """Gzip of a head and of the same bytes over and over."""

    def write(folder: Path) -> list[str]:
        block = again * max(1, MB // len(again))
        with gzip.open(folder / name, "wb", compresslevel=1) as stream:
            stream.write(head)
            for _ in range(total_bytes // len(block)):
                stream.write(block)
        return ["demand", str(folder / name), "--quiet"]

    return write


def sparse(folder: Path) -> list[str]:
    with (folder / "log.csv").open("wb") as stream:
        stream.truncate(10_000 * MB)
    return ["demand", str(folder / "log.csv"), "--quiet"]


def long_lines(folder: Path) -> list[str]:
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


def long_cells(folder: Path) -> list[str]:
    """CSV with prompts just below the longest line that is read."""
    with (folder / "log.csv").open("wb") as stream:
        stream.write(HEADER.replace(b"\n", b",prompt\n"))
        for k in range(20):
            stream.write(b"%d,5,6," % (1_788_739_200 + 97 * k) + b"x" * 15_900_000 + b"\n")
    return ["demand", str(folder / "log.csv"), "--quiet"]


def planned(demand: Path) -> Path:
    plan = demand.with_name("plan.json")
    _, code, _, said = peak_mb(["plan", str(demand), "--out", str(plan), "--time-limit", "60s", "-q"])
    assert plan.exists(), f"no plan: exit code {code}: {said}"
    return plan


def scaled_plan(example: str, before: str, after: str, folder: Path) -> Path:
    """The plan of an example with other requests."""
    text = (EXAMPLES / example).read_text(encoding="utf-8")
    assert before in text, f"{example} has no {before}"
    demand = folder / "demand.yaml"
    demand.write_text(text.replace(before, after), encoding="utf-8")
    return planned(demand)


def a_day(folder: Path) -> list[str]:
    plan = scaled_plan("quickstart.yaml", "800k", "24M", folder)
    return ["verify", str(plan), "--days", "1", "--requests", "all", "-q"]


def a_sampled_week(folder: Path) -> list[str]:
    return ["verify", str(scaled_plan("quickstart.yaml", "800k", "71M", folder)), "-q"]


def work_that_waits(folder: Path) -> list[str]:
    plan = scaled_plan("levers/deferrable-batch.yaml", BATCH, BATCH_SCALED, folder)
    return ["verify", str(plan), "--days", "1", "--requests", "all", "-q"]


def prefixes(folder: Path) -> list[str]:
    demand = folder / "demand.yaml"
    demand.write_text(AGENT, encoding="utf-8")
    return ["verify", str(planned(demand)), "--days", "1", "-q", "--time-limit", "10min"]


def a_log(folder: Path) -> list[str]:
    plan, log = scaled_plan("quickstart.yaml", "800k", "5M", folder), folder / "log.csv"
    rng, rows = np.random.default_rng(1), 5_000_000
    seconds = np.sort(rng.uniform(0, 86_400, rows))
    for k, part in enumerate(np.array_split(seconds, 20)):
        pd.DataFrame({
            "time": pd.Timestamp("2026-09-07") + pd.to_timedelta(part, unit="s"),
            "prompt_tokens": np.clip(rng.lognormal(6, 1, len(part)), 1, 20_000).astype(int),
            "completion_tokens": np.clip(rng.lognormal(5, 0.7, len(part)), 1, 2_000).astype(int),
        }).to_csv(log, mode="a", header=k == 0, index=False)  # fmt: skip
    return ["verify", str(plan), "--log", str(log), "-q"]


BATCH, BATCH_SCALED = "28k", "3M"
AGENT = """\
workloads:
  - name: agent
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 3M}
    tokens: {input: {p50: 4000, p95: 12000}, output: {p50: 100, p95: 300}}
    caching:
      prefix_reuse:
        curve: [{tokens: 1M, hit_rate: 20%}, {tokens: 5M, hit_rate: 40%}, {tokens: 20M, hit_rate: 50%}]
    api: forbidden
policy: {routing: prefix-aware}
menu: {gpus: [l40s, h100], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
GB_3, MB_100 = 3_000 * MB, 100 * MB
SERIES, SAMPLE = b'{"data":{"result":[{"metric":{},"values":[', b'[1788739200,"1"],'
CASES = (
    Case("normal log", normal_log),
    Case("gzip of CSV without line breaks, 3 GB", packed("log.csv.gz", HEADER + ROW, b"0", GB_3), (2,)),
    Case("gzip of a JSON line without an end, 3 GB", packed("log.jsonl.gz", b'{"a": 1}\n{"a": "', b"0", GB_3), (2,)),
    Case("gzip of a JSON list of one record, 3 GB", packed("log.json.gz", b'[{"time": "', b"0", GB_3), (2,)),
    Case("gzip of one series of Prometheus, 3 GB", packed("log.json.gz", SERIES, SAMPLE, GB_3), (2,)),
    Case("gzip of a quoted cell without an end, 30 MB", packed("log.csv.gz", HEADER + ROW + b'"', LATER, 30 * MB)),
    Case("gzip of empty cells, 100 MB", packed("log.csv.gz", HEADER + ROW + LATER, b",,\n", MB_100)),
    Case("sparse file of 10 GB", sparse, (2,)),
    Case("JSON lines of 15.9 MB", long_lines),
    Case("CSV rows of 15.9 MB", long_cells),
    Case("verify: a day of 24 million requests, every one served", a_day, SERVED, VERIFY_MB),
    Case("verify: a week of 500 million requests, sampled", a_sampled_week, SERVED, VERIFY_MB),
    Case("verify: a day of 24 million requests that may wait", work_that_waits, SERVED, VERIFY_MB),
    Case("verify: a day of 3 million prompts with cached blocks, for ten minutes", prefixes, SERVED, VERIFY_MB),
    Case("verify: a log of 5 million requests", a_log, SERVED, VERIFY_MB),
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
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose names hold one of these texts")
    options = parser.parse_args()
    failed = 0
    print("| case | peak MB | limit MB | peak / limit | seconds | exit code |\n|---|---|---|---|---|---|")
    for case in CASES:
        if not any(text in case.name for text in options.only):
            continue
        with tempfile.TemporaryDirectory(prefix="fleetplan-memory-") as folder:
            peak, code, seconds, said = peak_mb(case.write(Path(folder)))
        wrong = peak > case.limit_mb or code not in case.exit_codes
        failed += wrong
        ratio = f"{peak / case.limit_mb:.2f}{' ABOVE' * (peak > case.limit_mb)}"
        print(f"| {case.name} | {peak:.0f} | {case.limit_mb} | {ratio} | {seconds:.0f} | {code} |", flush=True)
        if code not in case.exit_codes:
            print(f"{case.name}: exit code {code}: {said}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
