"""The verb that serves tools to an agent over stdio, in the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.common import examples, refuse, seconds

verbs = typer.Typer()
ABOUT = (
    "Plans GPU fleets for language models: the cheapest one inside its targets, proved, beside what an API charges. "
    "Write a demand file, validate it, plan it, and quote what the plan says."
)


@verbs.command(epilog=examples("fleetplan mcp --root ./capacity --time-limit 60s"))
def mcp(
    root: Annotated[
        Path, typer.Option("--root", exists=True, file_okay=False, help="Read and write files below this folder alone.")
    ] = Path("."),
    time_limit: Annotated[str, typer.Option(help="Most that a call may take; a tool may ask for less.")] = "60s",
    read_only: Annotated[bool, typer.Option("--read-only", help="Write no plans.")] = False,
) -> None:
    """Serve validate, plan, explain, what-if, estimate, verify and catalog as tools of an agent (needs fleetplan[mcp]).

    Speaks the Model Context Protocol over stdin and stdout; your agent starts it. Every call is a process of its own
    that ends in time.
    """
    from planner.cli.agent_tools import Workshop

    limit_s = seconds("--time-limit", time_limit)
    assert limit_s is not None
    if find_spec("mcp") is None:
        refuse("mcp", "needs the package mcp, which is not installed", "Install fleetplan[mcp]")
    _server(Workshop(root, limit_s, read_only)).run("stdio")


def _server(shop: Any) -> Any:
    from mcp.server.fastmcp import FastMCP

    from planner.cli.agent_tools import tools

    server = FastMCP("fleetplan", instructions=ABOUT, log_level="WARNING")
    for name, tool in tools(shop).items():
        server.add_tool(_one_at_a_time(tool), name=name)
    return server


def _one_at_a_time(tool: Callable[..., str]) -> Callable[..., Any]:
    """In a thread, so that the server answers meanwhile; a refusal is an error of the call."""
    from anyio import Lock
    from anyio.to_thread import run_sync
    from mcp.server.fastmcp.exceptions import ToolError

    from planner.cli.agent_tools import Refused

    lock = _LOCKS.setdefault("calls", Lock())

    @wraps(tool)
    async def called(**given: Any) -> str:
        async with lock:
            try:
                return await run_sync(lambda: tool(**given))
            except Refused as refusal:
                raise ToolError(str(refusal)) from None

    return called


_LOCKS: dict[str, Any] = {}
