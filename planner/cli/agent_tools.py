"""Tools of an agent: each is a command in a process of its own, below one folder and within a time limit.

A command prints what a person would get, so errors name file, line and remedy; one that does not end in time is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

KEPT_S = 3.0
"""of a time limit, for a command to start and to write what it found"""
GRACE_S = 5.0
"""after its time limit that a command may take to end by itself"""
MOST_CHARACTERS = 60_000
"""of an answer"""
ENDED_WELL = (0, 4, 5, 6, 7)
"""exit codes with which a command has an answer: not proved in time, a rule or a promise broken, not served as asked"""


class Refused(ValueError):
    """What a tool cannot do, in words for the agent."""


@dataclass(frozen=True)
class Workshop:
    """Where tools work, and what they may."""

    root: Path
    limit_s: float
    read_only: bool = False

    def given(self, name: str) -> str:
        """A file to read; refused where it lies elsewhere, by its name or by a link."""
        inside = self._inside(name)
        if not inside.is_file():
            raise Refused(f"{name}: there is no such file below the root")
        return str(inside.relative_to(os.path.realpath(self.root)))

    def to_write(self, name: str) -> str:
        """A file to write."""
        if self.read_only:
            raise Refused(f"{name}: this server was started with --read-only")
        inside = self._inside(name)
        if inside.suffix.lower() != ".json":
            raise Refused(f"{name}: end the name of a plan with .json")
        if not inside.parent.is_dir():
            raise Refused(f"{name}: there is no such folder below the root")
        return str(inside.relative_to(os.path.realpath(self.root)))

    def _inside(self, name: str) -> Path:
        root = Path(os.path.realpath(self.root))
        try:
            found = Path(os.path.realpath(root / name))
        except (OSError, ValueError):
            raise Refused("no file can have this name") from None
        if not found.is_relative_to(root) or found == root:
            raise Refused(f"{name}: lies outside of the root; name files below it")
        return found

    def seconds(self, asked_s: float | None) -> float:
        if asked_s is not None and asked_s <= 0:
            raise Refused(f"time_limit_s: expected seconds above 0, got {asked_s:g}")
        return min(self.limit_s, asked_s or self.limit_s)

    def run(self, words: Sequence[str], limit_s: float, folder: Path | None = None) -> str:
        """What a command prints; raises Refused with its message where it has no answer."""
        environment = {**os.environ, "NO_COLOR": "1", "FLEETPLAN_ROOT": "."}
        command = [sys.executable, "-m", "planner.cli", *words]
        process = subprocess.Popen(
            command,
            cwd=folder or os.path.realpath(self.root),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _end(process, signal.SIGINT)
            try:
                out, err = process.communicate(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                out, err = "", ""
            if not out.strip():
                raise Refused(f"ended after {limit_s:g} s without an answer; ask for more time or for less") from None
            err += f"\nended after {limit_s:g} s; this is what there was"
        finally:
            _end(process, signal.SIGKILL)
            process.wait()
        if process.returncode not in (*ENDED_WELL, 130) or not out.strip():
            raise Refused((err.strip() or out.strip() or f"exit code {process.returncode}")[:MOST_CHARACTERS])
        return _shortened(out) + (f"\n{err.strip()[:2000]}" if process.returncode else "")


def _end(process: subprocess.Popen[str], how: signal.Signals) -> None:
    """All of its processes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)


def _shortened(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    return (
        text[:MOST_CHARACTERS] + f"\n... {len(text) - MOST_CHARACTERS:,} more characters: ask for less, or for one part"
    )


def _options(**given: str | float | None) -> list[str]:
    """As --name=value, so that no value is taken for an option."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None]


def _every(name: str, values: Sequence[str] | None) -> list[str]:
    return [f"--{name}={value}" for value in values or ()]


def tools(shop: Workshop) -> dict[str, Callable[..., str]]:
    """By name; signatures and docstrings are what an agent sees."""

    def validate(file: str | None = None, text: str | None = None) -> str:
        """Every mistake of a demand file at once, as file:line:column with a remedy, or that it is valid and what is
        assumed. Give `file`, below the root, or the `text` of one that is not saved yet.
        """
        if (file is None) == (text is None):
            raise Refused("give either file or text")
        if text is None:
            return shop.run(["validate", shop.given(str(file))], shop.limit_s)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "text.yaml").write_text(text, encoding="utf-8")
            return shop.run(["validate", "text.yaml"], shop.limit_s, Path(folder))

    def plan(file: str, out: str | None = None, as_json: bool = False, time_limit_s: float | None = None) -> str:
        """The cheapest fleet for a demand file, proved and checked. `out` (.json, below the root) keeps the plan for
        the other tools; `as_json` gives all figures in place of the first screen.
        """
        limit_s = shop.seconds(time_limit_s)
        words = ["plan", shop.given(file), "--quiet", *_options(format="json" if as_json else "table")]
        words += _options(
            out=None if out is None else shop.to_write(out), time_limit=f"{max(1.0, limit_s - KEPT_S):g}s"
        )
        return shop.run(words, limit_s + GRACE_S)

    def explain(plan_file: str, workload: str | None = None, time_limit_s: float | None = None) -> str:
        """Why a saved plan is as it is: the runner-up, what each lever saves and each limit costs; each is planned."""
        limit_s = shop.seconds(time_limit_s)
        words = ["explain", shop.given(plan_file), "--quiet", *_options(workload=workload)]
        return shop.run([*words, *_options(time_limit=f"{max(1.0, limit_s - KEPT_S):g}s")], limit_s + GRACE_S)

    def what_if(
        file: str,
        set: list[str] | None = None,
        scale: list[str] | None = None,
        without: list[str] | None = None,
        only: list[str] | None = None,
        budget: list[str] | None = None,
        each: bool = True,
        time_limit_s: float | None = None,
    ) -> str:
        """Plan a demand file again with changes: set ["policy.min_replicas=1,2"], scale ["demand=0.5,2",
        "gpu-prices=0.8", "ttft=2"], without ["spot"], only ["gpus=l4,l40s"], budget ["20k"]. One change at a time, or
        all combinations with each=false. The limit holds for all of it.
        """
        limit_s = shop.seconds(time_limit_s)
        changes = {"set": set, "scale": scale, "without": without, "only": only, "budget": budget}
        words = [word for name, values in changes.items() for word in _every(name, values)]
        words += ["--each"] if each else []
        return shop.run(
            ["what-if", shop.given(file), "--quiet", *words, f"--time-limit={limit_s:g}s"], limit_s + GRACE_S
        )

    def estimate(
        model: str, gpu: str, input_tokens: int, output_tokens: int, quantization: str | None = None,
        gpus_per_replica: int | None = None,
    ) -> str:  # fmt: skip
        """Memory, TTFT, TPOT and throughput of one deployment by requests in flight."""
        words = _options(model=model, gpu=gpu, input=input_tokens, output=output_tokens, quantization=quantization)
        return shop.run(["estimate", *words, *_options(gpus_per_replica=gpus_per_replica)], shop.limit_s)

    def verify(plan_file: str, load: str = "1", time_limit_s: float | None = None) -> str:
        """Serve a saved plan request by request: each promise against what users would have seen. `load` is a multiple
        of the demand, or several such as "1,1.2". Needs fleetplan[verify].
        """
        limit_s = shop.seconds(time_limit_s)
        words = ["verify", shop.given(plan_file), "--quiet", *_options(load=load)]
        return shop.run([*words, *_options(time_limit=f"{max(1.0, limit_s - KEPT_S):g}s")], limit_s + GRACE_S)

    def catalog(kind: str | None = None, name: str | None = None) -> str:
        """What is known of gpus, offers, models, quantizations or apis, with sources and dates; `name` or a part of it
        narrows the list.
        """
        words = [word for word in (kind, name) if word is not None]
        if any(word.startswith("-") for word in words):
            raise Refused("kind and name are words, not options")
        return shop.run(["catalog", "show", *words], shop.limit_s)

    return {f.__name__: f for f in (validate, plan, explain, what_if, estimate, verify, catalog)}
