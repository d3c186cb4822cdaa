"""Requests of a file of sessions, which has times within sessions only: sessions begin as the plan's requests do.

Each session begins at a random moment of the week, at the rates that the plan counts on, and then goes on as the file
says. So much of the week is taken that the file's requests come as often as the plan's do. Blocks of a prompt follow
from what the file says it shares with an earlier one: those, and new ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.case.case import Workload
from planner.io.errors import input_error
from planner.logs.reading.session_files import BLOCK_TOKENS, session_table
from planner.verification.arrivals import MOST_TOKENS

if TYPE_CHECKING:
    import pandas as pd

SEED = 7
MOST_BLOCKS_A_PROMPT = 400
"""of a mean prompt; blocks are larger where they would be more"""
WEEKDAYS, DAYS = 5, 7


def read_session_requests(
    path: Path, w: Workload, start_hour: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Times since hour `start_hour` began, prompts, answers, blocks and their tokens, in the order of arrival.

    Raises InputError where the file breaks the rules of its format.
    """
    table = session_table(path).reset_index(drop=True)
    if table.empty:
        raise input_error(path, "has no requests", "Name a file with one row for each request")
    tokens = BLOCK_TOKENS
    while table.input_tokens.mean() / tokens > MOST_BLOCKS_A_PROMPT:
        tokens *= 2
    number = np.unique(table.session.astype(str).to_numpy())
    begins = dict(zip(number.tolist(), _begins_s(len(number), len(table), w, start_hour).tolist(), strict=True))
    within = table.t_s.to_numpy(float)
    earliest = table.t_s.groupby(table.session.astype(str)).transform("min").to_numpy(float)
    times = table.session.astype(str).map(begins).to_numpy(float) + within - earliest
    blocks = _blocks(table, tokens)
    order = np.argsort(times, kind="stable")
    prompt, output = (
        np.clip(table[name].to_numpy(float), 1, MOST_TOKENS).astype(np.int32)
        for name in ("input_tokens", "output_tokens")
    )
    return times[order], prompt[order], output[order], blocks[order], tokens


def _begins_s(sessions: int, requests: int, w: Workload, start_hour: int) -> np.ndarray:
    """When sessions begin: over as many hours of the plan's demand as have the requests of the file."""
    week = np.concatenate([*([w.weekday_rps] * WEEKDAYS), *([w.weekend_rps] * (DAYS - WEEKDAYS))])
    due = np.concatenate([[0.0], np.cumsum(3600.0 * week[start_hour:])])
    if not due[-1]:
        raise input_error(
            "--at", "the plan counts on no requests from that hour on", "Name an earlier hour of the week"
        )
    drawn = np.sort(np.random.default_rng(SEED).uniform(0.0, min(float(requests), float(due[-1])), sessions))
    begins: np.ndarray = np.interp(drawn, due, 3600.0 * np.arange(len(due)))
    return begins


def _blocks(table: pd.DataFrame, tokens: int) -> np.ndarray:
    """Numbers of the whole blocks of every prompt; sessions share none, as the file does not say what they do."""
    blocks, count = np.empty(len(table), dtype=object), 0
    of_request: dict[tuple[str, int], np.ndarray] = {}
    nothing = np.zeros(0, dtype=np.int64)
    columns = (
        table.session.astype(str),
        table.seq,
        table.source,
        table.shared_blocks,
        table.input_tokens.clip(upper=MOST_TOKENS),
    )
    for k, (session, seq, source, shared, prompt) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        before = of_request.get((session, source), nothing)[: int(shared * BLOCK_TOKENS // tokens)]
        whole = int(prompt // tokens)
        new = max(0, whole - len(before))
        blocks[k] = np.concatenate([before[:whole], np.arange(count, count + new)])
        of_request[session, seq] = blocks[k]
        count += new
    return blocks
