"""How long a demand file from a large request log takes: seconds per million rows, peaks of memory and disk.

    python benchmarks/logs.py                                  # 20 million rows, DuckDB
    python benchmarks/logs.py --rows 5000000 --engines duckdb spark

Makes a CSV of four weeks (three models, a daily shape, ids, 0.1% duplicates) in a temporary folder, runs
`fleetplan demand` in a session of its own for each engine, and checks that their demand files are the same. Memory is
what all processes of the session hold at once (Spark has Python and Java), looked at once a second, as is its folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

CHUNK = 500_000
DAYS = 28
MODELS = np.array(["Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct", "gpt-5-mini"])


def write_log(path: Path, rows: int) -> None:
    """Rows in the order of time, in chunks."""
    rng = np.random.default_rng(1)
    hours = np.arange(DAYS * 24)
    weight = (1.5 + np.sin((hours % 24 - 8) / 24 * 2 * np.pi)) * np.where(hours // 24 % 7 >= 5, 0.5, 1.0)
    ends = np.cumsum(weight) / weight.sum()
    start = pd.Timestamp("2026-09-07").value
    for first in range(0, rows, CHUNK):
        n = min(CHUNK, rows - first)
        share = np.sort((first + rng.random(n) * n) / rows)
        seconds = np.interp(share, np.r_[0.0, ends], np.r_[0, hours + 1] * 3600.0)
        ids = np.arange(first, first + n) - (rng.random(n) < 0.001)
        pd.DataFrame({
            "time": pd.to_datetime(start + (seconds * 1e9).astype(np.int64)),
            "prompt_tokens": np.clip(rng.lognormal(7, 1, n), 1, 100_000).astype(int),
            "completion_tokens": np.clip(rng.lognormal(5, 0.9, n), 1, 8_000).astype(int),
            "model": MODELS[rng.choice(3, n, p=(0.6, 0.3, 0.1))],
            "request_id": np.char.add("req-", ids.astype(str)),
        }).to_csv(path, mode="a", header=first == 0, index=False)  # fmt: skip


def held_by_session(leader: int) -> tuple[int, float]:
    """Bytes in memory and seconds of CPU of all processes that a session leader has started, itself included."""
    memory, cpu_s = 0, 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == leader:
            memory += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
            cpu_s += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return memory, cpu_s


def bytes_under(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total


def measured_run(command: list[str], work: Path) -> tuple[float, float, int, int]:
    """Seconds, seconds of CPU, and peaks of memory and of disk in bytes."""
    began, cpu_s, memory, disk = time.monotonic(), 0.0, 0, 0
    process = subprocess.Popen(command, start_new_session=True)
    while process.poll() is None:
        memory_now, cpu_now = held_by_session(process.pid)
        memory, cpu_s, disk = max(memory, memory_now), max(cpu_s, cpu_now), max(disk, bytes_under(work))
        time.sleep(1)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.monotonic() - began, cpu_s, memory, disk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--engines", nargs="+", default=["duckdb"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log, work = Path(folder) / "log.csv", Path(folder) / "work"
        work.mkdir()
        write_log(log, options.rows)
        print(f"{options.rows:,} rows, {log.stat().st_size / 1e9:.2f} GB of CSV", flush=True)
        texts = {}
        for engine in options.engines:
            target = Path(folder) / f"{engine}.yaml"
            command = [sys.executable, "-m", "planner.cli", "demand", str(log), "--by", "model", "--out", str(target)]
            command += ["--work", str(work), "--engine", engine, "--quiet"]
            seconds, cpu_s, memory, disk = measured_run(command, work)
            each, each_cpu = (x / options.rows * 1e6 for x in (seconds, cpu_s))
            print(f"{engine}: {seconds:.0f} s; per million rows {each:.2f} s, {each_cpu:.2f} s of CPU; peak of memory "
                  f"{memory / 2**30:.2f} GiB, of disk {disk / 2**30:.2f} GiB; "
                  f"load average {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores", flush=True)  # fmt: skip
            texts[engine] = target.read_text()
        if len(texts) > 1:
            same = len(set(texts.values())) == 1
            print("the demand files are the same" if same else "THE DEMAND FILES DIFFER")


if __name__ == "__main__":
    main()
