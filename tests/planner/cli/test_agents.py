"""The server of tools, through the client of the official SDK: a session, its limits, and what it refuses."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from planner.cli.agent_tools import Refused, Workshop
from tests.support.command_line import HOSTED

pytestmark = pytest.mark.process
Session = Callable[[Any], Awaitable[None]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "capacity"
    folder.mkdir()
    (folder / "demand.yaml").write_text(HOSTED, encoding="utf-8")
    return folder


def in_session(root: Path, talk: Session, *options: str) -> None:
    async def session() -> None:
        words = ["-m", "planner.cli", "mcp", "--root", str(root), *options]
        environment = {**os.environ, "FLEETPLAN_VERIFY": "0"}
        parameters = StdioServerParameters(command=sys.executable, args=words, env=environment)
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            await talk(client)

    anyio.run(session)


async def told(client: Any, tool: str, **given: Any) -> str:
    answer = await client.call_tool(tool, given)
    assert not answer.isError, answer.content[0].text
    return str(answer.content[0].text)


async def refused(client: Any, tool: str, **given: Any) -> str:
    answer = await client.call_tool(tool, given)
    assert answer.isError, answer.content[0].text
    return str(answer.content[0].text)


def test_a_session_from_a_wrong_file_to_an_answer(root: Path) -> None:
    async def talk(client: Any) -> None:
        listed = (await client.list_tools()).tools
        assert [t.name for t in listed] == ["validate", "plan", "explain", "what_if", "estimate", "verify", "catalog"]
        assert all(t.description for t in listed)
        wrong = HOSTED.replace("llama-3.1-8b", "lama-3.1-8b").replace("200k", "200 apples")
        problems = await refused(client, "validate", text=wrong)
        assert "text.yaml:4:" in problems and "text.yaml:5:" in problems and "llama-3.1-8b" in problems
        assert "valid" in await told(client, "validate", file="demand.yaml")
        assert "/ month" in await told(client, "plan", file="demand.yaml", out="plan.json")
        assert (root / "plan.json").exists()
        assert "Why small" in await told(client, "explain", plan_file="plan.json")
        rows = await told(client, "what_if", file="demand.yaml", scale=["demand=2"])
        assert "demand x 2" in rows
        assert "in flight" in await told(
            client, "estimate", model="llama-3.1-8b", gpu="l4", input_tokens=500, output_tokens=100
        )
        assert "l40s" in await told(client, "catalog", kind="gpus")

    in_session(root, talk)


def test_what_lies_elsewhere_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(HOSTED, encoding="utf-8")
    (root / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (root / "folder").symlink_to(tmp_path)
    shop = Workshop(root, 10.0)
    for name in ("../secret.yaml", str(tmp_path / "secret.yaml"), "link.yaml", "folder/secret.yaml", "a\0b", "."):
        with pytest.raises(Refused):
            shop.given(name)
    for name in ("../plan.json", "folder/plan.json", "/tmp/plan.json", "plan.yaml", "no/such/plan.json"):
        with pytest.raises(Refused):
            shop.to_write(name)
    with pytest.raises(Refused, match="read-only"):
        Workshop(root, 10.0, read_only=True).to_write("plan.json")
    assert shop.given("demand.yaml") == "demand.yaml"
    assert shop.to_write("plan.json") == "plan.json"

    (root / "names.yaml").write_text(HOSTED + "catalog: ../secret.yaml\n", encoding="utf-8")
    with pytest.raises(Refused, match="lies outside of"):
        shop.run(["validate", "names.yaml"], 30.0)


def test_values_are_not_options_and_calls_end_in_time(root: Path) -> None:
    async def talk(client: Any) -> None:
        assert "--quiet" in await refused(client, "what_if", file="demand.yaml", set=["--quiet"])
        assert "not options" in await refused(client, "catalog", kind="--help")
        assert "above 0" in await refused(client, "plan", file="demand.yaml", time_limit_s=-1)
        assert "give either" in await refused(client, "validate")

    in_session(root, talk, "--read-only")
    started = time.monotonic()
    with pytest.raises(Refused, match="ended after"):
        Workshop(root, 1.0).run(["plan", "demand.yaml", "--quiet"], 0.05)
    assert time.monotonic() - started < 60
