"""Files of sessions: requests whose times count from the start of their session, with what they share."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.io.errors import input_error
from planner.logs.sessions import SessionRows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("session", "seq", "t_s", "input_tokens", "output_tokens", "shared_blocks", "shared_with")
BLOCK_TOKENS = 64
"""of these files, as of the Weka format they are made from"""


def is_session_file(path: Path) -> bool:
    """Whether a file has the columns of sessions."""
    import pandas as pd

    if not path.is_file() or not any(path.name.endswith(end) for end in (".csv", ".csv.gz")):
        return False
    try:
        return set(COLUMNS) <= set(pd.read_csv(path, nrows=0).columns)
    except (ValueError, OSError):
        return False


def session_table(path: Path) -> pd.DataFrame:
    """Its rows, those of a session by number; `source` is that of the request gone on from, or -1.

    Raises InputError where it is broken, a cell is no number, or a request goes on from a later one.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        reason = str(error).split("\n")[0][:120]
        raise input_error(path, f"cannot be read as CSV: {reason}", "Export it again") from None
    numbers = table[list(COLUMNS[1:-1])].apply(pd.to_numeric, errors="coerce")
    wrong = ~((numbers >= 0) & np.isfinite(numbers.astype(float))).all(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise input_error(path, "has a row without a number that it needs", "Correct it or leave it out", row + 2)
    source = pd.to_numeric(table.shared_with, errors="coerce").fillna(-1)
    cycle = source.to_numpy() >= table.seq.to_numpy()
    if cycle.any():
        row = int(np.flatnonzero(cycle)[0])
        message = f"has a request that goes on from number {source[row]:.0f}, which does not come before it: a cycle"
        raise input_error(path, message, "Number the requests of a session by their time", row + 2)
    return table.assign(source=source.astype(int)).sort_values(["session", "seq"])


def read_session_file(path: Path) -> SessionRows:
    """Its sessions, those of sub-agents apart; raises InputError where a request goes on from a later one."""
    import pandas as pd

    table = session_table(path)
    table = table.assign(agent=table.agent if "agent" in table else "root")
    thread = pd.factorize(table.session.astype(str) + "\n" + table.agent.astype(str))[0]
    order = np.argsort(thread, kind="stable")
    table, thread = table.iloc[order], thread[order]
    later = np.r_[False, thread[1:] == thread[:-1]]
    start = table.t_s.to_numpy(float)
    wait = np.r_[0.0, np.diff(start)]
    assumed: tuple[str, ...] = (
        "sub-agents are sessions of their own; a turn keeps what it shares with any earlier request",
    )
    if "gap_s" in table:
        gap = pd.to_numeric(table.gap_s, errors="coerce").to_numpy(float)
        wait = np.where(np.isfinite(gap), gap, wait)
        assumed = (*assumed, "waits are the client's time between an answer and the next request")
    return SessionRows(
        thread,
        np.where(later, np.maximum(wait, 1e-3), np.inf),
        table.input_tokens.to_numpy(float),
        np.maximum(1.0, table.output_tokens.to_numpy(float)),
        np.where(later, np.minimum(BLOCK_TOKENS * table.shared_blocks.to_numpy(float), table.input_tokens), 0.0),
        assumed,
    )
