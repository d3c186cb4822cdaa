"""Every verb once, as the installed command in a process of its own, on a plan that takes a fraction of a second."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from planner.cli.command import app
from tests.support.command_line import SMALL, run_script
from tests.support.places import ROOT, TESTS

pytestmark = [pytest.mark.process, pytest.mark.smoke]

LOG = "timestamp,input_tokens,output_tokens\n" + "".join(
    f"2026-09-{1 + k // 96:02}T{k % 96 // 4:02}:{k % 4 * 15:02}:00Z,{200 + k % 7},{50 + k % 5}\n" for k in range(96 * 7)
)
TINY = SMALL.replace(", fp16", "").replace("on-demand, spot, reserved-1y", "on-demand")
POINTS = """\
source,model,gpu,tp,dtype_weights,input_len,output_len,batch_or_concurrency,metric,value
bench,llama-3.1-8b,h100,1,fp8,512,128,8,decode_step_ms,7
"""
WITHOUT = {"mcp": "test_agents.py", "explore": "test_explore.py"}
"""verbs that take long or do not end, and where they are tested"""
BENCHMARK = ("guidellm_v1.json", "--model", "llama-3.1-8b", "--gpu", "h100", "--out", "profile.yaml")
VERBS: list[tuple[str, tuple[str, ...], str]] = [
    ("init", ("new.yaml",), "new.yaml"),
    ("validate", ("demand.yaml",), "assumed menu.regions"),
    ("schema", (), '"$schema"'),
    ("plan", ("demand.yaml", "--out", "plan.json", "--html", "plan.html"), "proved optimal"),
    ("report", ("plan.json", "--format", "md"), "# "),
    ("explain", ("plan.json", "--workload", "chat"), "chat"),
    ("study", ("plan.json", "--out", "studied.json"), "wrote studied.json"),
    ("check", ("plan.json",), "how the proof was found"),
    ("verify", ("plan.json", "--requests", "2k"), "TTFT"),
    ("export", ("plan.json", "--to", "kubernetes", "--out", "k8s"), "k8s"),
    ("diff", ("plan.json", "plan.json"), "no change"),
    ("what-if", ("demand.yaml", "--budget", "4k"), "$4,000"),
    ("demand", ("log.csv",), "workloads:"),
    ("estimate", ("--model", "llama-3.1-8b", "--gpu", "h100", "--input", "1000", "--output", "200"), "TPOT"),
    ("calibrate", BENCHMARK, "profile.yaml"),
    ("catalog", ("offers", "h100"), "h100"),
    ("accuracy", ("measured.csv",), "decode_step_ms"),
    ("review", (str(ROOT / "examples" / "quarterly-review" / "REVIEW.yaml"), "--quiet", "--out", "review.json"), ""),
]
"""in this order: some read what others wrote"""


def test_each_ends_well_and_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "demand.yaml").write_text(TINY)
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "measured.csv").write_text(POINTS)
    (tmp_path / "guidellm_v1.json").write_bytes((TESTS / "results" / "guidellm_v1.json").read_bytes())
    wrong = []
    for verb, arguments, words in VERBS:
        done = run_script(verb, *arguments, cwd=tmp_path)
        if done.code != 0 or words not in done.out + done.err:
            wrong.append(f"{verb}: exit {done.code}, {(done.out + done.err)[-500:]}")
    assert wrong == []
    assert json.loads((tmp_path / "plan.json").read_text())["status"] == "optimal"
    assert {p.name for p in tmp_path.iterdir()} >= {"plan.html", "studied.json", "k8s", "profile.yaml", "review.json"}


def test_no_verb_is_left_out() -> None:
    assert {verb for verb, *_ in VERBS} | set(WITHOUT) == set(typer.main.get_group(app()).commands)
