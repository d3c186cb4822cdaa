"""Peaks of memory where a great many requests are served, each held to its limit.

    python benchmarks/verify_memory.py                   # all cases, which takes most of an hour
    python benchmarks/verify_memory.py verify-day        # one of them
    python benchmarks/verify_memory.py --list

Every case runs `fleetplan` as a child process; its peak is what the operating system says that it held at most
(`wait4`). The exit code is 1 where a case is above its limit, or fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
KB_TO_MB = 1 / 1024 if sys.platform != "darwin" else 1 / 1024**2
PLANNING = ("--time-limit", "60s", "-q")
FINE = (0, 6, 7)
"""exit codes: a promise may be missed, and time may run out"""


@dataclass(frozen=True)
class Case:
    name: str
    what: str
    limit_mb: float
    prepared: Callable[[Path], list[str]]
    """makes what the command needs in a folder, and returns its arguments"""


def child(arguments: list[str], folder: Path) -> tuple[int, float, float]:
    """Exit code, peak in MB and seconds of a command."""
    started = time.monotonic()
    with (folder / "out.txt").open("w") as out:
        process = subprocess.Popen([sys.executable, "-m", "planner.cli", *arguments], stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * KB_TO_MB, time.monotonic() - started


def scaled_plan(example: str, before: str, after: str, folder: Path) -> Path:
    """The plan of an example with other requests."""
    text = (EXAMPLES / example).read_text(encoding="utf-8")
    assert before in text, f"{example} has no {before}"
    demand, plan = folder / "demand.yaml", folder / "plan.json"
    demand.write_text(text.replace(before, after), encoding="utf-8")
    code, _, _ = child(["plan", str(demand), "--out", str(plan), *PLANNING], folder)
    assert plan.exists(), f"no plan: exit code {code}"
    return plan


def a_day(folder: Path) -> list[str]:
    plan = scaled_plan("quickstart.yaml", "800k", "24M", folder)
    return ["verify", str(plan), "--days", "1", "--requests", "all", "-q"]


def a_sampled_week(folder: Path) -> list[str]:
    return ["verify", str(scaled_plan("quickstart.yaml", "800k", "71M", folder)), "-q"]


def work_that_waits(folder: Path) -> list[str]:
    plan = scaled_plan("levers/deferrable-batch.yaml", BATCH, BATCH_SCALED, folder)
    return ["verify", str(plan), "--days", "1", "--requests", "all", "-q"]


def prefixes(folder: Path) -> list[str]:
    demand, plan = folder / "demand.yaml", folder / "plan.json"
    demand.write_text(AGENT, encoding="utf-8")
    child(["plan", str(demand), "--out", str(plan), *PLANNING], folder)
    return ["verify", str(plan), "--days", "1", "-q", "--time-limit", "10min"]


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

CASES = (
    Case("verify-day", "a day of 24 million requests, every one served", 1000, a_day),
    Case("verify-week", "a week of 500 million requests, sampled", 1000, a_sampled_week),
    Case("verify-waiting", "a day of 24 million requests that may wait", 1000, work_that_waits),
    Case("verify-prefixes", "a day of 3 million prompts whose blocks are cached, for ten minutes", 1000, prefixes),
    Case("verify-log", "a log of 5 million requests", 1000, a_log),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="all where none is named")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(f"{case.name:<16} {case.what}" for case in CASES))
        return 0
    worst = 0
    print(f"{'case':<16} {'peak MB':>8} {'limit':>6} {'wall s':>7}  what")
    for case in (c for c in CASES if not asked.cases or c.name in asked.cases):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            code, peak_mb, took_s = child(case.prepared(folder), folder)
            head = (folder / "out.txt").read_text(errors="replace").splitlines()[:2]
        bad = peak_mb > case.limit_mb or code not in FINE
        worst = max(worst, int(bad))
        print(f"{case.name:<16} {peak_mb:>8,.0f} {case.limit_mb:>6,.0f} {took_s:>7,.0f}  {case.what}", flush=True)
        print(
            "\n".join(f"    {line}" for line in head) + (f"\n    FAILED, exit code {code}" if bad else ""), flush=True
        )
    return worst


if __name__ == "__main__":
    sys.exit(main())
