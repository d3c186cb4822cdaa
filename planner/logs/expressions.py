"""What is asked of all requests, written once in Ibis for every engine.

Everything that engines add up is a whole number, so that they agree to the last digit: counts, tokens, microseconds.
Floating-point arithmetic comes afterwards, on minutes and on distinct lengths, in one place for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.io.formatting import counted
from planner.logs.engine import Stage
from planner.logs.lengths import CONTEXTS
from planner.logs.reading.requests import NO_ID

if TYPE_CHECKING:
    import pandas as pd

NO_CUT = 2**62
OTHER = "other"
MOST_WORKLOADS, FEWEST_REQUESTS, FEWEST_FRAC = 24, 50, 0.1
"""of what a log is split by, the last in a log of few requests; the rest is put together"""
SAME = ("ms", "prompt", "output", "model", "key")
"""what a request without an id is known by"""
BEYOND_CHANCE = 3.0
"""times what independent files would have in common, and one"""
REPEATED_FRAC, FEWEST_REPEATED = 0.95, 5
"""of what two files have in their common time, as often in both: bursts of one length that both exported"""


def fewest_requests(total: float) -> float:
    """What a value of --by needs for a workload of its own: in a short log, a share of its requests is enough."""
    return min(FEWEST_REQUESTS, FEWEST_FRAC * total)


def few_together(values: int) -> str:
    verb = "is" if values == 1 else "are"
    return f"{counted(values, 'value')} of --by with few requests {verb} put together as '{OTHER}'"


@dataclass(frozen=True, eq=False)
class Grouped:
    """Requests by workload: `key` is its name in each table."""

    minutes: pd.DataFrame
    prompts: pd.DataFrame
    """requests by prompt length"""
    outputs: pd.DataFrame
    models: pd.DataFrame


def without_duplicates(connection: Any, requests: Any) -> tuple[Any, int]:
    """Of requests with the same id the last one counts, as in reviews."""
    import ibis

    with_id = requests.filter(requests.id != NO_ID)
    groups = with_id.group_by("id").agg(times=with_id.count(), kept=with_id.row.max())
    twice = connection.execute(groups.filter(groups.times > 1))
    if twice.empty:
        return requests, 0
    last = ibis.memtable(twice.rename(columns={"id": "twice"})[["twice", "kept"]])
    joined = requests.left_join(last, requests.id == last.twice)
    kept = joined.filter(joined.kept.isnull() | (joined.row == joined.kept))
    return kept.select(requests.columns), int((twice.times - 1).sum())


@dataclass(frozen=True)
class Shared:
    """Requests without an id that stand in one more file with the same millisecond, lengths, model and key."""

    again: int
    """of the requests, those that are there already"""
    is_chance: bool
    """whether as many coincide within files, by chance or by a coarse clock"""


def shared_by_files(connection: Any, requests: Any, stage: Stage) -> tuple[Shared, Any]:
    """What files have in common, and the requests in question.

    Only the time that files have in common is looked at: logs that follow one another cost nothing. Independent files
    (of several servers, say) coincide as often as one file does with itself, times the others that cover a moment.
    """
    low, high, depth = _common_time(list(stage.spans.values()))
    rows = requests.filter(requests.id == NO_ID)
    inside = rows.filter((rows.time_us >= low) & (rows.time_us <= high))
    inside = inside.mutate(ms=inside.time_us - inside.time_us % 1000)
    if depth < 2:
        return Shared(0, True), inside
    by_file = inside.group_by(*SAME, "file").agg(n=inside.count())
    alike = by_file.group_by(*SAME).agg(
        files=by_file.count(), all_of=by_file.n.sum(), most=by_file.n.max(), least=by_file.n.min()
    )
    equal = (alike.files > 1) & (alike.least == alike.most)
    sums = connection.execute(
        alike.agg(
            rows=alike.all_of.sum(), most=alike.most.sum(), cells=alike.files.sum(), kinds=alike.count(),
            equal=equal.cast("int64").sum(), several=((alike.most > 1) & equal).cast("int64").sum(),
        )
    )  # fmt: skip
    n, most, cells, kinds, same, several = (int(sums[name].fillna(0).iloc[0]) for name in sums.columns)
    is_chance = n - most <= BEYOND_CHANCE * (1 + (depth - 1) * (n - cells))
    repeated = several >= FEWEST_REPEATED and same >= REPEATED_FRAC * kinds
    return Shared(n - most, is_chance and not repeated), inside


def _common_time(spans: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """When two or more spans overlap, first and last, and how many do at most."""
    changes = sorted([(first, 1) for first, _ in spans] + [(last + 1, -1) for _, last in spans])
    depth = np.cumsum([step for _, step in changes])
    shared = np.flatnonzero(depth > 1)
    if not len(shared):
        return 0, 0, 1
    return changes[shared[0]][0], changes[shared[-1] + 1][0] - 1, int(depth.max())


def without_shared(connection: Any, requests: Any, inside: Any) -> Any:
    """Of a request that stands in several files the last one counts, as of ids; a file may hold it more than once."""
    import ibis

    each = ibis.window(group_by=[inside[name] for name in (*SAME, "file")], order_by=[inside.row])
    numbered = inside.mutate(nth=ibis.row_number().over(each))
    places = numbered.mutate(kept=numbered.row.max().over(ibis.window(group_by=[*SAME, "nth"])))
    earlier = connection.execute(places.filter(places.row < places.kept).select(dropped=places.row))
    dropped = ibis.memtable(earlier)
    return requests.anti_join(dropped, requests.row == dropped.dropped)


def named(frame: pd.DataFrame, codes: dict[str, int], *columns: str) -> pd.DataFrame:
    """Names instead of their numbers, in the order of the columns."""
    names = np.array(list(codes), dtype=object)
    frame = frame.assign(**{c: names[frame[c].to_numpy(dtype=np.int64)] for c in ("key", "model") if c in frame})
    return frame.sort_values(list(columns), ignore_index=True)


def with_few_keys(connection: Any, requests: Any, stage: Stage) -> tuple[Any, pd.DataFrame, int]:
    """The keys with most requests, all others as one; the models of each; and how many keys those others are."""
    import ibis

    pairs = connection.execute(requests.group_by("key", "model").agg(n=requests.count()))
    models = named(pairs, stage.codes, "key", "model")
    sizes = models.groupby("key", as_index=False).n.sum().sort_values(["n", "key"], ascending=[False, True])
    large = sizes[sizes.n >= fewest_requests(sizes.n.sum())].key.head(MOST_WORKLOADS).tolist()
    small = len(sizes) - len(large)
    if small == 0 or len(sizes) == 1:
        return requests, models, 0
    kept, other = requests.key.isin([stage.code(key) for key in large]), ibis.literal(stage.code(OTHER), "int32")
    few = requests.mutate(key=ibis.ifelse(kept, requests.key, other) if large else other)
    models = models.assign(key=models.key.where(models.key.isin(large), OTHER))
    return few, models.groupby(["key", "model"], as_index=False).n.sum(), small


def grouped(connection: Any, requests: Any, stage: Stage, models: pd.DataFrame) -> Grouped:
    """Minutes and lengths."""
    import ibis

    within = ibis.window(group_by=[requests.key, requests.minute], order_by=[requests.time_us])
    t = requests.mutate(gap=requests.time_us - requests.time_us.lag().over(within))
    minutes = t.group_by("key", "minute").agg(
        requests=t.count(),
        prompt=t.prompt.sum(),
        output=t.output.sum(),
        cached=ibis.ifelse(t.cached > 0, t.cached, 0).sum(),
        cached_of=ibis.ifelse(t.cached >= 0, t.prompt, 0).sum(),
        cached_known=ibis.ifelse(t.cached >= 0, 1, 0).sum(),
        cached_some=ibis.ifelse(t.cached > 0, 1, 0).sum(),
        first_us=t.time_us.min(),
        last_us=t.time_us.max(),
        gap_squares=ibis.coalesce(t.gap * t.gap, 0).sum().cast("int64"),
        zeros=ibis.ifelse(t.gap == 0, 1, 0).sum(),
        tick_us=ibis.ifelse(t.gap > 0, t.gap, None).min(),
    )

    def by(length: str) -> pd.DataFrame:
        table = connection.execute(requests.group_by("key", length).agg(n=requests.count()))
        return named(table, stage.codes, "key", length)

    whole = named(connection.execute(minutes), stage.codes, "key", "minute")
    return Grouped(whole, by("prompt"), by("output"), models)


def length_cells(
    connection: Any, requests: Any, stage: Stage, cuts: dict[str, tuple[Sequence[float], Sequence[float]]]
) -> pd.DataFrame:
    """Requests and tokens by slice of prompts and of answers, and by the contexts that both together exceed.

    A length at a cut belongs to the slice below it.
    """
    import ibis
    import pandas as pd

    most = [max(len(pair[k]) for pair in cuts.values()) for k in (0, 1)]
    names = [[f"{side}_cut_{k}" for k in range(most[i])] for i, side in enumerate(("prompt", "output"))]
    rows = []
    for key, pair in cuts.items():
        padded = [[int(np.floor(c)) for c in side] + [NO_CUT] * (most[i] - len(side)) for i, side in enumerate(pair)]
        rows.append(
            {"cut_key": stage.code(key), **dict(zip([*names[0], *names[1]], [*padded[0], *padded[1]], strict=True))}
        )
    table = ibis.memtable(pd.DataFrame(rows))
    joined = requests.inner_join(table, requests.key == table.cut_key)

    def slice_of(column: str, cut_names: list[str]) -> Any:
        above = [ibis.ifelse(joined[column] > joined[cut], 1, 0) for cut in cut_names]
        return sum(above[1:], above[0]) if above else ibis.literal(0)

    beyond = [ibis.ifelse(joined.prompt + joined.output > context, 1, 0) for context in CONTEXTS]
    cells = joined.mutate(
        prompt_slice=slice_of("prompt", names[0]),
        output_slice=slice_of("output", names[1]),
        contexts=sum(beyond[1:], beyond[0]),
    )
    sums = cells.group_by("key", "prompt_slice", "output_slice", "contexts").agg(
        requests=cells.count(), prompt=cells.prompt.sum(), output=cells.output.sum()
    )
    return named(connection.execute(sums), stage.codes, "key", "prompt_slice", "output_slice", "contexts")
