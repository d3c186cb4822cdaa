"""Work for executors to run: quick, slow, wrong, and deadly to its worker."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from planner.studies.executing.jobs import Job

Payload = dict[str, Any]


def square(payload: Payload) -> Payload:
    return {"status": "done", "x": payload["x"], "square": (payload["x"] * payload["x"],)}


def noted_square(payload: Payload) -> Payload:
    """Says in a folder that it ran, where and how often; slow while there is a file of that name."""
    with open(Path(payload["folder"]) / str(payload["x"]), "a") as file:
        file.write(f"{os.getpid()}\n")
    if (Path(payload["folder"]) / "slow").exists():
        time.sleep(0.15)
    return square(payload)


def picky_square(payload: Payload) -> Payload:
    noted_square(payload)
    if payload["x"] == 1:
        raise ValueError("no ones")
    if payload["x"] == 2:
        sys.exit(3)
    if payload["x"] == 3:
        return {"figure": float("nan")}
    if payload["x"] == 4:
        payload["x"] = "changed"
    return square(payload) if payload["x"] != "changed" else {"status": "done"}


def deadly_square(payload: Payload) -> Payload:
    """Takes its worker with it the first so many times."""
    noted_square(payload)
    if len(ran(payload["folder"], payload["x"])) <= payload["deaths"]:
        time.sleep(payload.get("seconds", 0.0))
        os._exit(9)
    return square(payload)


def endless(payload: Payload) -> Payload:
    """A solve that a test need not wait for."""
    from solvers.backends.solve import solve_mip
    from tests.solvers.backends.test_solver_traps import market_split

    return {"objective": solve_mip(market_split()).objective}


def ran(folder: str | Path, x: int) -> list[int]:
    """The processes in which it ran."""
    file = Path(folder) / str(x)
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def squares(count: int, **more: Any) -> list[Job]:
    return [Job(f"x={x}", {"x": x} | more) for x in range(count)]
