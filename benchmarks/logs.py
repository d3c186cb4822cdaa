"""How long a demand file from a large request log takes, and how much memory: seconds per million rows, peak memory.

    python benchmarks/logs.py                                  # 20 million rows, DuckDB
    python benchmarks/logs.py --rows 5000000 --engines duckdb spark

Makes a CSV of four weeks (three models, a daily shape, ids, 0.1% duplicates) in a temporary folder, runs
`fleetplan demand` in a process of its own for each engine, and checks that their demand files are the same.
"""

from __future__ import annotations

import argparse
import resource
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--engines", nargs="+", default=["duckdb"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        write_log(log, options.rows)
        print(f"{options.rows:,} rows, {log.stat().st_size / 1e9:.2f} GB of CSV")
        texts = {}
        for engine in options.engines:
            target = Path(folder) / f"{engine}.yaml"
            command = [sys.executable, "-m", "planner.cli", "demand", str(log), "--by", "model", "--out", str(target)]
            began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([*command, "--engine", engine, "--quiet"], check=True)
            seconds = time.monotonic() - began
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
            each, each_cpu = (x / options.rows * 1e6 for x in (seconds, cpu_s))
            print(f"{engine}: {seconds:.1f} s; per million rows {each:.2f} s, {each_cpu:.2f} s of CPU; "
                  f"peak memory of one process {used.ru_maxrss / 2**20:.2f} GiB")  # fmt: skip
            texts[engine] = target.read_text()
        if len(texts) > 1:
            same = len(set(texts.values())) == 1
            print("the demand files are the same" if same else "THE DEMAND FILES DIFFER")


if __name__ == "__main__":
    main()
