"""Running fleetplan as a user does: in this process for speed, or the installed command for real."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from planner import cli
from tests.support.patience import PATIENCE_S

SCRIPT = Path(sys.executable).with_name("fleetplan")

SMALL = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 400k}
    quality: {max_loss: 2%}
    spot: {critical_share: 60%}
menu: {gpus: [l40s], quantizations: [fp8, fp16], purchase: [on-demand, spot, reserved-1y]}
baseline: openai/gpt-4o-mini
"""
"""plans in a fraction of a second: one GPU type, every way to buy"""

HOSTED = """\
name: small
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 200k}
    api: forbidden
menu: {gpus: [l4], quantizations: [int8], purchase: [on-demand], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""
"""hosted alone: one GPU type, one way to buy"""

HARD = (
    "workloads:\n"
    + "".join(
        f"""\
  - name: w{k}
    models: [{"llama-3.1-8b" if k % 3 else "llama-3.3-70b"}, qwen2.5-14b]
    forecast: {{requests_per_day: {310 * k}k, shape: {"consumer" if k % 2 else "business-hours"}}}
    tokens: {{input: {{p50: {400 * k}, p95: {1700 * k}}}, output: {{p50: {60 + 40 * k}, p95: {100 + 190 * k}}}}}
    spot: {{critical_share: {30 + 7 * k}%}}
    api: {"forbidden" if k % 2 else "allowed"}
"""
        for k in range(1, 8)
    )
    + """\
menu:
  gpus: [h100, a100-80gb]
  quantizations: [fp16, fp8]
  purchase: [on-demand, spot, reserved-1y, reserved-3y]
  max_deployments: 2
baseline: openai/gpt-4o-mini
"""
)
"""a first plan at once, then within seconds a program that takes both solvers far longer than a test waits for it"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Command:
    """`fleetplan ...` in this process, as the inner process of the installed command runs it."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str | Path) -> Ran:
        self.monkeypatch.setattr(sys, "argv", ["fleetplan", *map(str, arguments)])
        self.capsys.readouterr()
        code: int | str | None = 0
        try:
            code = cli.run()
        except SystemExit as stop:
            code = stop.code
        out, err = self.capsys.readouterr()
        assert code is None or isinstance(code, int), code
        return Ran(code or 0, out, err)


def run_script(*arguments: str | Path, cwd: Path | None = None) -> Ran:
    """The installed command in a process of its own."""
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def no_control_characters(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)
