"""A log becomes demand, demand a plan, and the plan serves the same log within its promises."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import planner
from tests.support.command_line import Command

pytest.importorskip("ibis", reason="demand needs ibis and duckdb: pip install fleetplan[logs]")
pytest.importorskip("numba", reason="verify needs numba: pip install fleetplan[verify]")


def test_a_plan_from_a_log_holds_when_it_serves_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fleetplan = Command(monkeypatch, capsys)
    rng = np.random.default_rng(2)
    gaps = rng.gamma(0.5, 1 / 0.5 / 8, 24_000)  # 50 minutes at 8 a second, burstiness 2
    times, prompts = np.cumsum(gaps), np.clip(rng.lognormal(6.5, 0.9, len(gaps)), 10, 6000).astype(int)
    outputs = np.clip(rng.lognormal(4, 0.7, len(gaps)), 2, 800).astype(int)
    rows = [f"{t:.6f},{p},{o}" for t, p, o in zip(times.tolist(), prompts.tolist(), outputs.tolist(), strict=True)]
    Path("log.csv").write_text("\n".join(["time_s,prompt_tokens,completion_tokens", *rows]))
    columns = ("--columns", "time=time_s")
    assert fleetplan("demand", "log.csv", "--out", "demand.yaml", *columns, "--name", "chat").code == 0
    text = Path("demand.yaml").read_text()
    assert "burstiness: 2." in text or "burstiness: 1.9" in text
    # What a user decides: no API, one kind of GPU.
    text = text.replace("    # slo:", "    api: forbidden\n    slo:").replace("menu: {", "menu: {gpus: [l4, l40s], ")
    text = text.replace("decide:", "# decide:")
    Path("demand.yaml").write_text(text)
    assert fleetplan("plan", "demand.yaml", "--out", "plan.json", "--quiet").code == 0
    Path("log.csv").write_text(Path("log.csv").read_text().replace("time_s,", "time,"))
    ran = fleetplan("verify", "plan.json", "--log", "log.csv", "--quiet")
    assert ran.code == 0, ran.out
    assert "verified by 24,000 requests" in ran.out


def conversations(rng: np.random.Generator, count: int) -> list[dict[str, object]]:
    """Requests of conversations in Mooncake's format: each turn repeats all that came before, some seconds later."""
    rows: list[tuple[float, list[int], int]] = []
    block, start = 1, 0.0
    while len(rows) < count:
        start += float(rng.exponential(1.2))
        known, at = [0], start
        for _ in range(int(rng.geometric(0.4))):
            new = int(rng.integers(2, 9))
            known = known + list(range(block, block + new))
            block += new
            rows.append((at, known, int(rng.integers(100, 300))))
            at += float(rng.gamma(2, 12))
    rows = sorted(rows, key=lambda row: row[0])[:count]
    return [
        {"timestamp": round(1000 * at), "input_length": 512 * len(blocks), "output_length": n, "hash_ids": blocks}
        for at, blocks, n in rows
    ]


def test_a_plan_from_block_hashes_finds_what_it_counts_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fleetplan = Command(monkeypatch, capsys)
    log = conversations(np.random.default_rng(4), 6000)
    Path("log.jsonl").write_text("\n".join(json.dumps(row) for row in log))
    assert fleetplan("demand", "log.jsonl", "--out", "demand.yaml", "--name", "chat").code == 0
    text = Path("demand.yaml").read_text()
    assert "prefix_reuse:" in text
    # What a user decides: no API, the GPU, some patience, and a gateway that knows prefixes.
    text = (
        text.replace("    # slo:", "    api: forbidden\n    slo:")
        .replace("decide:", "# decide:")
        .replace("tpot_p95: 50ms", "tpot_p95: 80ms")
        .replace("ttft_p95: 2s", "ttft_p95: 6s")
    )
    text = text.replace("menu: {", "menu: {gpus: [l40s], purchase: [on-demand], max_deployments: 1, ")
    Path("demand.yaml").write_text(text + "policy: {routing: prefix-aware}\n")
    assert fleetplan("plan", "demand.yaml", "--out", "plan.json", "--quiet").code == 0
    ran = fleetplan("verify", "plan.json", "--log", "log.jsonl", "--out", "served.json", "--quiet")
    assert ran.code == 0, ran.out
    (served,) = json.loads(Path("served.json").read_text())["runs"][0]["workloads"]
    assert served["planned_found_frac"] > 0.15
    # No router finds more than one cache without a limit that sees all requests; the plan counts on a good part of it.
    most = max(float(rate) / 100 for rate in re.findall(r"hit_rate: ([\d.]+)%}", text))
    assert served["planned_found_frac"] - 0.02 < served["found_frac"] <= most
    assert served["planned_found_frac"] > 0.6 * served["found_frac"]


def test_the_file_ends_with_scenarios_that_are_never_surer_of_a_year_than_a_floor(tmp_path: Path) -> None:
    """Thirteen quiet weeks of two workloads: taken in, the comments are a horizon with P10 and P90 20% from P50."""
    rows = ["time,model,requests"]
    for hour in range(168 * 13):
        time = datetime(2026, 9, 1, tzinfo=UTC) + timedelta(hours=hour)
        rows += [f"{time:%Y-%m-%dT%H:%M:%SZ},{name},1000" for name in ("chat", "it's")]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(rows) + "\n", encoding="utf-8")
    text = planner.demand([log], by="model").text
    lines = [line.removeprefix("# ") if line.startswith(("# starts", "# horizon", "# scenarios")) else
             line.removeprefix("# ") if line.startswith("#   ") else line for line in text.splitlines()]  # fmt: skip
    case = planner.case_from_text("\n".join(line for line in lines if not line.startswith("decide")))
    assert case.future is not None
    low, middle, high = ({name: f[11] for name, f in s.month_factors.items()} for s in case.future.scenarios)
    for name, times in middle.items():
        assert high[name] / times == pytest.approx(1.2 ** (11 / 12), rel=1e-3)
        assert low[name] / times == pytest.approx(1.2 ** -(11 / 12), rel=1e-3)
