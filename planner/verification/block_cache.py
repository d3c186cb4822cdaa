"""The prefix cache of replicas: blocks of prompts in the KV memory that running requests leave. Compiled by numba.

A block is a run of tokens whose hash covers all that stands before it. One that a running request uses is pinned; an
idle one stays until memory is needed, and the idle block whose last use is longest ago goes first. Of one request the
last blocks count as used before the first ones, so that the head of a prefix outlives its tail. Answers leave blocks
behind that nobody asks for, and that take room like others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.verification.compiled import compiled, inlined

ANSWER = -1
"""in place of the hash of a block that nobody asks for"""
NOWHERE = -1


class Blocks(NamedTuple):
    """Whole blocks of the prompts of all requests, one request after the other."""

    ids: np.ndarray
    """numbers that are equal where the tokens and all tokens before them are"""
    begin: np.ndarray
    """place of the first block of each request, and of the end [request + 1]"""
    tokens: int
    """of a block"""


NO_BLOCKS = Blocks(np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64), 1)
MOST_NODES = 10_000_000
"""blocks that all replicas have room for together, which bounds memory: 300 MB"""
SPREAD, DROPPED_BITS = 0x1E3779B97F4A7C15, 24
"""what a number is multiplied by, and the low bits that are dropped then, to find its place in a table"""


def joined(parts: list[tuple[Blocks | None, np.ndarray]], order: np.ndarray, tokens: int) -> Blocks:
    """Blocks of some requests of several streams, given by their places, in an order of their own.

    Numbers of one stream are never those of another one, nor are they in other parts of the same streams.
    """
    ids, lengths = [], []
    for k, (blocks, places) in enumerate(parts):
        if blocks is None or not len(places):
            lengths.append(np.zeros(len(places), dtype=np.int64))
            continue
        count = np.diff(blocks.begin)[places]
        ids.append(len(parts) * blocks.ids[_runs(blocks.begin[places], count)].astype(np.int64) + k)
        lengths.append(count)
    count = np.concatenate(lengths)
    begin = np.concatenate([[0], np.cumsum(count)])
    named = np.concatenate([np.zeros(0, dtype=np.int64), *ids])
    return Blocks(named[_runs(begin[:-1][order], count[order])], _begin(count[order]), tokens)


def taken(blocks: Blocks, places: np.ndarray) -> Blocks:
    """Blocks of some of the requests."""
    count = np.diff(blocks.begin)[places]
    return Blocks(blocks.ids[_runs(blocks.begin[places], count)], _begin(count), blocks.tokens)


def _begin(count: np.ndarray) -> np.ndarray:
    begin: np.ndarray = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return begin


def _runs(begin: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Places of runs, one run after the other."""
    ends = np.cumsum(count)
    places: np.ndarray = np.repeat(begin - ends + count, count) + np.arange(ends[-1] if len(ends) else 0)
    return places


class Store(NamedTuple):
    """Memory of the box that keeps blocks as well, one row for each replica: all of them idle, as in a cache."""

    table: np.ndarray
    block: np.ndarray
    newer: np.ndarray
    older: np.ndarray
    oldest: np.ndarray
    newest: np.ndarray
    idle: np.ndarray
    free: np.ndarray
    frees: np.ndarray
    read_s: float
    """for each token that comes back"""


class Cache(NamedTuple):
    """One row for each replica. Nodes are places for blocks; idle ones form a list from the oldest to the newest."""

    ids: np.ndarray
    begin: np.ndarray
    tokens: int
    block_bytes: float
    table: np.ndarray
    """nodes of blocks, each at the place that its number has or at the next one that was free [replica, place]"""
    block: np.ndarray
    """[replica, node]"""
    users: np.ndarray
    """running requests that use it [replica, node]"""
    newer: np.ndarray
    older: np.ndarray
    oldest: np.ndarray
    newest: np.ndarray
    idle: np.ndarray
    """number of idle blocks [replica]"""
    free: np.ndarray
    """nodes that hold nothing, the first so many of a row"""
    frees: np.ndarray
    holds: np.ndarray
    """whether the running request pins this block of its prompt [place in ids]"""
    owned: np.ndarray
    """blocks that a running request computed itself and that others may use [request]"""
    host: Store
    """without nodes where there is none"""


def empty_store(nodes: int, replicas: int, read_s: float) -> Store:
    """Room for so many blocks on each replica."""
    places = 1 << int(2 * nodes).bit_length() if nodes else 0
    return Store(
        np.full((replicas, places), NOWHERE, dtype=np.int32),
        np.full((replicas, nodes), ANSWER, dtype=np.int64),
        np.full((replicas, nodes), NOWHERE, dtype=np.int32),
        np.full((replicas, nodes), NOWHERE, dtype=np.int32),
        np.full(replicas, NOWHERE, dtype=np.int32),
        np.full(replicas, NOWHERE, dtype=np.int32),
        np.zeros(replicas, dtype=np.int64),
        np.tile(np.arange(nodes, dtype=np.int32), (replicas, 1)),
        np.full(replicas, nodes, dtype=np.int64),
        read_s,
    )


def empty_cache(
    tokens: int, nodes: int, replicas: int, block_bytes: float, host_nodes: int = 0, read_s: float = 0.0
) -> Cache:
    """A cache for blocks of so many tokens, so many of them on each replica and on its part of the box."""
    return Cache(
        NO_BLOCKS.ids, NO_BLOCKS.begin, tokens, block_bytes,
        np.full((replicas, 1 << int(2 * nodes).bit_length()), NOWHERE, dtype=np.int32),
        np.full((replicas, nodes), ANSWER, dtype=np.int64),
        np.zeros((replicas, nodes), dtype=np.int32),
        np.full((replicas, nodes), NOWHERE, dtype=np.int32),
        np.full((replicas, nodes), NOWHERE, dtype=np.int32),
        np.full(replicas, NOWHERE, dtype=np.int32),
        np.full(replicas, NOWHERE, dtype=np.int32),
        np.zeros(replicas, dtype=np.int64),
        np.tile(np.arange(nodes, dtype=np.int32), (replicas, 1)),
        np.full(replicas, nodes, dtype=np.int64),
        np.zeros(0, dtype=np.bool_),
        np.zeros(0, dtype=np.int64),
        empty_store(host_nodes, replicas, read_s),
    )  # fmt: skip


def with_requests(cache: Cache, kept: np.ndarray, more: Blocks) -> Cache:
    """The cache when requests have left, all but those at some places, and others have come."""
    count = np.diff(cache.begin)[kept]
    places = _runs(cache.begin[kept], count)
    return cache._replace(
        ids=np.concatenate([cache.ids[places], more.ids.astype(np.int64)]),
        begin=_begin(np.concatenate([count, np.diff(more.begin)])),
        holds=np.concatenate([cache.holds[places], np.zeros(len(more.ids), dtype=np.bool_)]),
        owned=np.concatenate([cache.owned[kept], np.zeros(len(more.begin) - 1, dtype=np.int64)]),
    )


@inlined
def _home(cache: Cache | Store, block: int) -> int:
    """The place in a table where the search for a block begins."""
    return int(((block * SPREAD) >> DROPPED_BITS) & (cache.table.shape[1] - 1))


@compiled
def _node_of(cache: Cache | Store, r: int, block: int) -> int:
    """The node of a block on a replica; NOWHERE where it is not there."""
    place, last = _home(cache, block), cache.table.shape[1] - 1
    while True:
        node = cache.table[r, place]
        if node == NOWHERE or cache.block[r, node] == block:
            return int(node)
        place = (place + 1) & last


@compiled
def _note(cache: Cache | Store, r: int, block: int, node: int) -> None:
    """Enter a block that is not in the table."""
    place, last = _home(cache, block), cache.table.shape[1] - 1
    while cache.table[r, place] != NOWHERE:
        place = (place + 1) & last
    cache.table[r, place] = node


@compiled
def _forget(cache: Cache | Store, r: int, block: int) -> None:
    """Take a block out of the table, and close the gap: those behind it that are not at home move up."""
    gap, last = _home(cache, block), cache.table.shape[1] - 1
    while cache.block[r, cache.table[r, gap]] != block:
        gap = (gap + 1) & last
    place = gap
    while True:
        place = (place + 1) & last
        node = cache.table[r, place]
        if node == NOWHERE:
            break
        if ((place - _home(cache, cache.block[r, node])) & last) >= ((place - gap) & last):
            cache.table[r, gap] = node
            gap = place
    cache.table[r, gap] = NOWHERE


@compiled
def matched(cache: Cache, r: int, i: int, prompt: float) -> int:
    """Leading blocks of a prompt that are there; its last token is always computed."""
    begin = cache.begin[i]
    most = min(cache.begin[i + 1] - begin, int((prompt - 1) // cache.tokens))
    n = 0
    while n < most and _node_of(cache, r, cache.ids[begin + n]) != NOWHERE:
        n += 1
    return n


@compiled
def matched_in_host(cache: Cache, r: int, i: int, prompt: float, n: int) -> int:
    """Blocks of a prompt that follow its first n and that memory of the box has."""
    host, begin = cache.host, cache.begin[i]
    if host.block.shape[1] == 0:
        return 0
    most, m = min(cache.begin[i + 1] - begin, int((prompt - 1) // cache.tokens)), n
    while m < most and _node_of(host, r, cache.ids[begin + m]) != NOWHERE:
        m += 1
    return m - n


@compiled
def keep_in_host(cache: Cache, r: int, i: int, tokens: float) -> None:
    """Copy the blocks of a request to memory of the box, its head used last."""
    host, begin = cache.host, cache.begin[i]
    if host.block.shape[1] == 0:
        return
    for k in range(min(cache.begin[i + 1], begin + int(tokens // cache.tokens)) - 1, begin - 1, -1):
        block = cache.ids[k]
        node = _node_of(host, r, block)
        if node == NOWHERE:
            node = _new_node(host, r, block)
            _note(host, r, block, node)
        else:
            _unlink(host, r, node)
        _link_newest(host, r, node)


@compiled
def newly_pinned(cache: Cache, r: int, i: int, n: int) -> int:
    """How many of the first n blocks of a prompt are idle so far."""
    idle = 0
    for k in range(cache.begin[i], cache.begin[i] + n):
        idle += cache.users[r, _node_of(cache, r, cache.ids[k])] == 0
    return idle


@compiled
def _unlink(cache: Cache | Store, r: int, node: int) -> None:
    older, newer = cache.older[r, node], cache.newer[r, node]
    if older == NOWHERE:
        cache.oldest[r] = newer
    else:
        cache.newer[r, older] = newer
    if newer == NOWHERE:
        cache.newest[r] = older
    else:
        cache.older[r, newer] = older
    cache.idle[r] -= 1


@compiled
def _link_newest(cache: Cache | Store, r: int, node: int) -> None:
    before = cache.newest[r]
    cache.older[r, node], cache.newer[r, node] = before, NOWHERE
    if before == NOWHERE:
        cache.oldest[r] = node
    else:
        cache.newer[r, before] = node
    cache.newest[r] = node
    cache.idle[r] += 1


@compiled
def pin(cache: Cache, r: int, i: int, n: int) -> int:
    """Let a request use the first n blocks of its prompt, which are there; returns how many of them were idle."""
    idle = 0
    for k in range(cache.begin[i], cache.begin[i] + n):
        node = _node_of(cache, r, cache.ids[k])
        if cache.users[r, node] == 0:
            _unlink(cache, r, node)
            idle += 1
        cache.users[r, node] += 1
        cache.holds[k] = True
    return idle


@compiled
def evict(cache: Cache | Store, r: int, keep: int) -> None:
    """Drop idle blocks, the oldest first, until no more than so many are left."""
    while cache.idle[r] > max(0, keep):
        node = cache.oldest[r]
        _unlink(cache, r, node)
        if cache.block[r, node] != ANSWER:
            _forget(cache, r, cache.block[r, node])
        cache.free[r, cache.frees[r]] = node
        cache.frees[r] += 1


@compiled
def _new_node(cache: Cache | Store, r: int, block: int) -> int:
    """A node for a block; NOWHERE where all are in use."""
    if cache.frees[r] == 0:
        evict(cache, r, cache.idle[r] - 1)
    if cache.frees[r] == 0:
        return NOWHERE
    cache.frees[r] -= 1
    node = cache.free[r, cache.frees[r]]
    cache.block[r, node] = block
    return int(node)


@compiled
def register(cache: Cache, r: int, i: int, prompt: float) -> int:
    """Let others use the blocks that a request has computed; returns their number. A second copy stays its own."""
    begin = cache.begin[i]
    count = 0
    for k in range(begin, min(cache.begin[i + 1], begin + int(prompt // cache.tokens))):
        block = cache.ids[k]
        if cache.holds[k] or _node_of(cache, r, block) != NOWHERE:
            continue
        node = _new_node(cache, r, block)
        if node == NOWHERE:
            break
        _note(cache, r, block, node)
        cache.users[r, node] = 1
        cache.holds[k] = True
        count += 1
    cache.owned[i] += count
    return count


@compiled
def release(cache: Cache, r: int, i: int, tokens: float) -> int:
    """Give up the blocks of a request that leaves; returns how many nobody uses any more.

    `tokens` are those of its prompt and its answer that it leaves behind; 0 where it was preempted.
    """
    begin, end = cache.begin[i], cache.begin[i + 1]
    held = 0
    for k in range(begin, end):
        held += cache.holds[k]
    place = begin + int(tokens // cache.tokens)
    for _ in range(int(tokens // cache.tokens) - held):
        place -= 1
        named = ANSWER  # what was computed twice, and answers that nobody asks for
        if place < end and not cache.holds[place] and _node_of(cache, r, cache.ids[place]) == NOWHERE:
            named = cache.ids[place]
        node = _new_node(cache, r, named)
        if node == NOWHERE:
            break
        if named != ANSWER:
            _note(cache, r, named, node)
        _link_newest(cache, r, node)
    idle = 0
    for k in range(end - 1, begin - 1, -1):
        if cache.holds[k]:
            node = _node_of(cache, r, cache.ids[k])
            cache.holds[k] = False
            cache.users[r, node] -= 1
            if cache.users[r, node] == 0:
                _link_newest(cache, r, node)
                idle += 1
    cache.owned[i] = 0
    return idle
