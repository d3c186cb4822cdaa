"""The replicas of one deployment, step by step, by the rules of vLLM V1. Compiled by numba.

A step decodes one token for every running request and prefills prompt chunks within the token budget: requests whose
prompts are begun first, then waiting ones, first come first served, while sequences and KV memory allow. KV memory is
taken as tokens come, but a waiting request is admitted only where all its tokens so far fit beside what others hold,
and never in a step that preempts. Where memory runs out, the request that was admitted last gives its own back, goes to
the head of the queue and is computed again from the start. Every decoding request gains one token a step, so none is
touched before it ends: a heap knows the step at which each will.

The rules are those of vLLM's main branch of 2026 (commit 003df296): `Scheduler.schedule` in vllm/v1/core/sched/
scheduler.py, and `KVCacheManager.allocate_slots` in vllm/v1/core/kv_cache_manager.py, with the defaults
`scheduler_reserve_full_isl: true` (the whole prompt must fit; pull request 37307) and `watermark: 0`. Memory is counted
by the token, not by blocks of 16. A request that was preempted finds again what it left in a prefix cache where one is
simulated, and nothing otherwise.

Data-parallel ranks of a replica do all that by themselves, each for its own requests; a request goes to the rank with
the fewest. Their steps begin and end together, those of ranks without work as well.
"""

from __future__ import annotations

import time
from typing import NamedTuple, TypeVar

import numpy as np

from planner.verification.block_cache import (
    MOST_NODES,
    NO_BLOCKS,
    Blocks,
    Cache,
    empty_cache,
    evict,
    matched,
    newly_pinned,
    pin,
    register,
    release,
    with_requests,
)
from planner.verification.compiled import entry, inlined, inner
from planner.verification.step_times import RankTimes, StepTimes

T = TypeVar("T", "Requests", "_Each")
LEAST_REQUESTS, ROUND_ROBIN, RANDOM, PREFIX_AWARE = 0, 1, 2, 3
CLOSE, CLOSE_FRAC = 2, 0.25
"""requests, and share of the fewest in flight, that a replica may have more and still get those whose prefix it has"""
SERVED, REFUSED, SHED, UNFINISHED = 0, 1, 2, 3
"""how a request ends"""
DRAINED, FAILED, RECLAIMED, SHEDDING = 0, 1, 2, 3
"""how the number of replicas changes"""


class Requests(NamedTuple):
    """In the order of their arrival."""

    arrival_s: np.ndarray
    prompt: np.ndarray
    """tokens of the prompt"""
    found: np.ndarray
    """of these, tokens whose KV is cached whatever happens"""
    output: np.ndarray
    """tokens of the answer"""
    critical: np.ndarray
    """whether the gateway lets it in while capacity is lost"""


class Capacity(NamedTuple):
    """Replicas over time; each entry holds from its time on."""

    time_s: np.ndarray
    replicas: np.ndarray
    change: np.ndarray
    """DRAINED: replicas that go finish their work; FAILED: they take it with them; RECLAIMED: the same, and what is not
    critical is shed until the next entry; SHEDDING: it still is, and replicas that go finish their work"""


class Outcome(NamedTuple):
    first_s: np.ndarray
    """when the first token reached the client [request]"""
    last_s: np.ndarray
    """when the last one did [request]"""
    state: np.ndarray
    preempted: np.ndarray
    """times that a request was [request]"""
    busy_s: np.ndarray
    """time in steps [hour]"""
    tokens: np.ndarray
    """prefilled, decoded"""
    found: np.ndarray
    """tokens of its prompt that were cached when it was first admitted [request]"""


class _Speed(NamedTuple):
    decode: np.ndarray
    seen_step: float
    added: np.ndarray
    alone: np.ndarray
    root_steps: float
    prompt_alone: float
    prompt_beside: float
    host: float
    pair: float
    pair_alone: float
    short: float
    full: float
    kv_token: float
    kv_window: float
    window: float
    room: float
    block: float


class _Replicas(NamedTuple):
    """One row for each replica, or for each rank of each; the first rank has `end` and `idle` of all."""

    end: np.ndarray
    """of the step that runs, inf where none does"""
    step: np.ndarray
    """steps so far"""
    decoding: np.ndarray
    context: np.ndarray
    """tokens of all decoding requests together"""
    used: np.ndarray
    """KV memory [bytes]"""
    inside: np.ndarray
    """running requests: prefilling and decoding"""
    waiting: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    prefilling: np.ndarray
    """[replica, place]"""
    prefills: np.ndarray
    admitted: np.ndarray
    """the latest last; those that have ended stay until they are looked at [replica, place]"""
    admissions: np.ndarray
    heap_step: np.ndarray
    heap_request: np.ndarray
    heap: np.ndarray
    """entries of the two above"""
    chunk: np.ndarray
    """prompt tokens in the step that runs, of each prefilling request [replica, place]"""
    idle: np.ndarray
    """whether no step runs; `end` is then when one begins"""
    planned: np.ndarray
    """by a rank for the step that begins: prompt tokens, pairs of those and what they see, whether prompts begin"""


class _Each(NamedTuple):
    """One row for each request."""

    next: np.ndarray
    """behind it in the queue"""
    computed: np.ndarray
    """prompt tokens that are in KV memory, without those that were cached"""
    found: np.ndarray
    """tokens of the prompt that were cached when it was admitted"""
    generated: np.ndarray
    """tokens of the answer that are known, and must be computed again after a preemption"""
    kv: np.ndarray
    """bytes that it holds, without what it gained since it began to decode"""
    since: np.ndarray
    """step at which it began to decode; -1 where it does not"""


class _Clock(NamedTuple):
    """How far the simulation is."""

    at: np.ndarray
    """the counters named below"""
    held_back: np.ndarray
    """requests for which there is no replica yet"""


ARRIVED, EVENT, ACTIVE, HOLDING, TURN, CHANCE, IS_SHEDDING = range(7)
"""requests that have come, changes of capacity, replicas, requests held back, routed ones, random state, shedding"""
COUNTERS = 7
OF_REQUESTS = ("first_s", "last_s", "state", "preempted", "found")
"""columns of an outcome with a row for each request"""
CALL_S, FEWEST_STEPS, MOST_STEPS = 0.1, 2000, 1 << 30
"""seconds that a call of compiled code takes, about, since no signal interrupts it, and steps of one"""


def serve(
    requests: Requests,
    capacity: Capacity,
    times: StepTimes,
    sequences: int,
    budget: int,
    router: int,
    seed: int,
    blocks: Blocks = NO_BLOCKS,
) -> Outcome:
    """Serve requests in the order of their arrival by the replicas there are, which cache blocks of their prompts.

    Sequences and budget are those of a rank.
    """
    hours = int(requests.arrival_s[-1] / 3600) + 25 if len(requests.arrival_s) else 1
    most = len(blocks.ids) + float(((requests.prompt + requests.output) // blocks.tokens).sum())
    cached_tokens = blocks.tokens if len(blocks.ids) else 0
    simulation = Simulation(capacity, times, sequences, budget, router, seed, hours, cached_tokens, most)
    simulation.add(requests, blocks)
    simulation.run()
    return simulation.outcome


class Simulation:
    """Replicas that serve requests for a while, and go on."""

    def __init__(
        self,
        capacity: Capacity,
        times: StepTimes,
        sequences: int,
        budget: int,
        router: int,
        seed: int,
        hours: int,
        block_tokens: int = 0,
        most_blocks: float = MOST_NODES,
    ) -> None:
        """Blocks of no tokens: nothing is cached."""
        if budget < sequences:
            raise ValueError(f"a step of {budget} tokens cannot decode {sequences} requests")
        self.capacity, self.sequences, self.budget, self.router = capacity, sequences, budget, router
        self.ranks = times.ranks
        self.speed = _Speed(
            times.decode_s, times.seen_step, times.added_s, times.alone_s, times.root_steps, times.prompt_alone_s,
            times.prompt_beside_s, times.host_s, times.attention_s, times.attention_alone_s,
            times.attention_short_tokens, times.full_frac, times.kv_bytes_per_token, times.kv_window_bytes_per_token,
            times.window_tokens, times.kv_room_bytes,
            block_tokens * times.cached_bytes_per_token,
        )  # fmt: skip
        rows = max(1, int(capacity.replicas.max())) * (times.ranks.number if times.ranks else 1)
        self.replicas = _no_work(rows, sequences)
        self.requests = Requests(*(np.zeros(0, dtype=kind) for kind in (float, float, float, np.int64, np.bool_)))
        self.each, self.outcome = _untouched(0), _unanswered(0, hours)
        self.clock = _Clock(np.zeros(COUNTERS, dtype=np.int64), np.zeros(0, dtype=np.int64))
        self.clock.at[CHANCE] = seed % 0x7FFFFFFF
        self.cache = None  # compiled apart, and three times as fast as an empty one
        if block_tokens:
            # Of models with windows, running requests may hold more blocks than there is room for idle ones.
            least = min(self.speed.block, block_tokens * self.speed.kv_token)
            nodes = int(min(self.speed.room / least if least else np.inf, most_blocks, MOST_NODES / rows)) + 8
            self.cache = empty_cache(block_tokens, nodes, rows, self.speed.block)
        self.steps = FEWEST_STEPS

    def __len__(self) -> int:
        """Requests that are waiting or under way, and those that have ended and not been taken away."""
        return len(self.requests.arrival_s)

    @property
    def waiting(self) -> int:
        """Requests that have come and that no replica has begun."""
        return int(self.replicas.waiting.sum() + self.clock.at[HOLDING])

    def add(self, requests: Requests, blocks: Blocks = NO_BLOCKS) -> None:
        """Let in more requests, all of which arrive after those that are there."""
        count = len(requests.arrival_s)
        found = np.minimum(requests.found, requests.prompt - 1)  # the last one is computed
        self._become(np.arange(len(self)), requests._replace(found=found), count, blocks)

    def take_ended(self) -> tuple[np.ndarray, Requests, Outcome]:
        """Requests that are served, refused or shed leave: their places among all, and what became of them."""
        over = self.outcome.state != UNFINISHED
        ended, kept = np.flatnonzero(over), np.flatnonzero(~over)
        outcome = self.outcome._replace(**{name: getattr(self.outcome, name)[ended] for name in OF_REQUESTS})
        left = Requests(*(x[ended] for x in self.requests))
        _renumber(self.replicas, self.each, self.clock, np.cumsum(~over) - 1)
        self._become(kept, Requests(*(x[:0] for x in self.requests)), 0, NO_BLOCKS)
        return ended, left, outcome

    def _become(self, kept: np.ndarray, more: Requests, count: int, blocks: Blocks) -> None:
        """Keep the requests at some places, and so many more behind them."""
        self.requests = _after(self.requests, kept, more)
        self.each = _after(self.each, kept, _untouched(count))
        fresh, outcome = _unanswered(count, 0), self.outcome
        self.outcome = outcome._replace(
            **{name: np.concatenate([getattr(outcome, name)[kept], getattr(fresh, name)]) for name in OF_REQUESTS}
        )
        waiting = self.clock.held_back[: self.clock.at[HOLDING]]
        self.clock = self.clock._replace(held_back=np.concatenate([waiting, np.zeros(len(self) - len(waiting), int)]))
        if self.cache is not None:
            if not len(blocks.ids):
                blocks = Blocks(blocks.ids, np.zeros(count + 1, dtype=np.int64), blocks.tokens)
            self.cache = with_requests(self.cache, kept, blocks)

    def run(self, until_s: float = np.inf) -> None:
        """Serve all that happens before some time. An interruption strikes between two calls, and leaves it whole."""
        done = False
        while not done:
            began = time.perf_counter()
            done = _run(
                self.requests, self.capacity, self.speed, self.sequences, self.budget, self.router, self.cache,
                self.ranks, self.replicas, self.each, self.outcome, self.clock, until_s, self.steps,
            )  # fmt: skip
            if not done:  # it took all its steps
                slower = (time.perf_counter() - began) / CALL_S
                self.steps = min(MOST_STEPS, max(FEWEST_STEPS, int(self.steps / min(4.0, max(0.5, slower)))))


def _after(columns: T, kept: np.ndarray, more: T) -> T:
    return type(columns)(*(np.concatenate([a[kept], b]) for a, b in zip(columns, more, strict=True)))


def _no_work(rows: int, sequences: int) -> _Replicas:
    places = sequences + 2

    def counts(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    return _Replicas(
        end=np.full(rows, np.inf), step=counts(rows), decoding=counts(rows), context=np.zeros(rows),
        used=np.zeros(rows), inside=counts(rows), waiting=counts(rows), head=counts(rows), tail=counts(rows),
        prefilling=counts(rows, places), prefills=counts(rows), admitted=counts(rows, 4 * places),
        admissions=counts(rows), heap_step=counts(rows, places), heap_request=counts(rows, places), heap=counts(rows),
        chunk=np.zeros((rows, places)), idle=np.ones(rows, dtype=np.bool_), planned=np.zeros((rows, 3)),
    )  # fmt: skip


def _untouched(count: int) -> _Each:
    return _Each(
        next=np.zeros(count, dtype=np.int64), computed=np.zeros(count), found=np.zeros(count),
        generated=np.zeros(count, dtype=np.int64), kv=np.zeros(count), since=np.full(count, -1, dtype=np.int64),
    )  # fmt: skip


def _unanswered(count: int, hours: int) -> Outcome:
    return Outcome(
        first_s=np.full(count, -1.0), last_s=np.full(count, -1.0), state=np.full(count, UNFINISHED, dtype=np.int8),
        preempted=np.zeros(count, dtype=np.int32), busy_s=np.zeros(hours), tokens=np.zeros(2),
        found=np.full(count, -1.0),
    )  # fmt: skip


@inlined
def _between(table: np.ndarray, x: float) -> float:
    k = min(int(x), len(table) - 2)
    return float(table[k] + (x - k) * (table[k + 1] - table[k]))


@inlined
def _seen(speed: _Speed, tokens: float) -> float:
    """Tokens that one at this place sees, mean over the layers."""
    return speed.full * tokens + (1 - speed.full) * min(tokens, speed.window)


@inlined
def _step_s(speed: _Speed, decoding: int, context: float, chunk: float, pairs: float, begun: int) -> float:
    """Seconds of a step."""
    place = speed.root_steps * np.sqrt(chunk)
    if decoding == 0:
        return _between(speed.alone, place) + speed.pair_alone * pairs + speed.prompt_alone * begun
    total = _between(speed.decode[decoding], _seen(speed, context / decoding) / speed.seen_step)
    if chunk > 0:
        total += _between(speed.added[decoding], place) + speed.pair * pairs + speed.prompt_beside * begun
    return total


@inner
def _step_of_ranks_s(
    reps: _Replicas, speed: _Speed, ranks: RankTimes, first: int, decoding: int, chunks: float, begun: float
) -> float:
    """Seconds of a step of the ranks from this row on, which decode and prefill so much together."""
    own, most_decode, most_prompt = 0.0, 0.0, 0.0
    for r in range(first, first + ranks.number):
        d, chunk, pairs = reps.decoding[r], reps.planned[r, 0], reps.planned[r, 1]
        decode = _of_tokens(speed, ranks.products_s, d) + ranks.requests_s[d]
        prompt = 0.0
        if chunk > 0:
            beside, saved = (d, decode) if ranks.mixed and decoding > 0 else (0, 0.0)
            inside = beside + reps.prefills[r]
            prompt = _of_tokens(speed, ranks.products_s, beside + chunk) + ranks.requests_s[inside] - saved
        if d > 0:
            decode += d * _between(ranks.attention_s, _seen(speed, reps.context[r] / d) / speed.seen_step)
        if decoding == 0:
            own = max(own, ranks.alone_ratio * prompt + speed.pair_alone * pairs)
            continue
        decode *= ranks.decode_ratio[decoding]
        prompt = ranks.prefill_ratio * prompt + speed.pair * pairs
        own = max(own, decode + prompt)
        most_decode, most_prompt = max(most_decode, decode), max(most_prompt, prompt)
    if decoding == 0:
        return float(own + ranks.alone_ratio * _of_tokens(speed, ranks.shared_s, chunks) + speed.prompt_alone * begun)
    together = _of_tokens(speed, ranks.shared_s, decoding)
    overhead = ranks.overhead_s + decoding * ranks.request_s
    total = ranks.decode_ratio[decoding] * (together + overhead)
    if chunks > 0 and ranks.mixed:
        total += ranks.prefill_ratio * (_of_tokens(speed, ranks.shared_s, decoding + chunks) - together)
    elif chunks > 0:
        total += ranks.prefill_ratio * _of_tokens(speed, ranks.shared_s, chunks) + speed.prompt_beside * begun
    return float(total + (own if ranks.mixed else most_decode + most_prompt))


@inlined
def _of_tokens(speed: _Speed, table: np.ndarray, tokens: float) -> float:
    return _between(table, speed.root_steps * np.sqrt(tokens))


@inlined
def _push(reps: _Replicas, r: int, step: int, i: int) -> None:
    """Note the step at which a request ends; of those that end together the first that came is the first to leave."""
    k = reps.heap[r]
    reps.heap[r] = k + 1
    steps, ids = reps.heap_step[r], reps.heap_request[r]
    while k > 0:
        above = (k - 1) >> 1
        if steps[above] < step or (steps[above] == step and ids[above] < i):
            break
        steps[k], ids[k] = steps[above], ids[above]
        k = above
    steps[k], ids[k] = step, i


@inlined
def _pop(reps: _Replicas, r: int) -> None:
    steps, ids = reps.heap_step[r], reps.heap_request[r]
    reps.heap[r] -= 1
    n = reps.heap[r]
    step, i = steps[n], ids[n]
    k = 0
    while True:
        below = 2 * k + 1
        if below >= n:
            break
        if below + 1 < n and (
            steps[below + 1] < steps[below] or (steps[below + 1] == steps[below] and ids[below + 1] < ids[below])
        ):
            below += 1
        if steps[below] > step or (steps[below] == step and ids[below] > i):
            break
        steps[k], ids[k] = steps[below], ids[below]
        k = below
    steps[k], ids[k] = step, i


@inner
def _remove_from_heap(reps: _Replicas, r: int, i: int) -> None:
    """Drop a request that was preempted while it decoded."""
    steps, ids = reps.heap_step[r], reps.heap_request[r]
    n = reps.heap[r]
    kept_steps, kept = steps[:n].copy(), ids[:n].copy()
    reps.heap[r] = 0
    for k in range(n):
        if kept[k] != i:
            _push(reps, r, kept_steps[k], kept[k])


@inlined
def _enqueue(reps: _Replicas, each: _Each, r: int, i: int, first: bool) -> None:
    if reps.waiting[r] == 0:
        reps.head[r] = i
        reps.tail[r] = i
    elif first:
        each.next[i] = reps.head[r]
        reps.head[r] = i
    else:
        each.next[reps.tail[r]] = i
        reps.tail[r] = i
    reps.waiting[r] += 1


@inner
def _leave(reps: _Replicas, speed: _Speed, each: _Each, cache: Cache | None, r: int, i: int, tokens: float) -> None:
    """Give back the memory of a running request; it leaves so many tokens behind, which may stay cached."""
    gained = 0
    if each.since[i] >= 0:
        gained = reps.step[r] - each.since[i]
        reps.decoding[r] -= 1
    reps.used[r] -= each.kv[i] + gained * speed.kv_token
    if cache is not None:
        reps.used[r] += cache.owned[i] * cache.tokens * speed.kv_token
        reps.used[r] -= release(cache, r, i, tokens) * speed.block
    reps.inside[r] -= 1
    each.kv[i] = 0.0


@inner
def _preempt(
    reps: _Replicas, requests: Requests, speed: _Speed, each: _Each, cache: Cache | None, r: int, outcome: Outcome
) -> bool:
    """Send the request that was admitted last back to the queue; False where there is none."""
    while reps.admissions[r] > 0:
        i = reps.admitted[r, reps.admissions[r] - 1]
        reps.admissions[r] -= 1
        if each.kv[i] <= 0.0:  # it has ended
            continue
        if each.since[i] >= 0:
            _remove_from_heap(reps, r, i)
            gained = reps.step[r] - each.since[i]
            reps.context[r] -= requests.prompt[i] + each.generated[i] + gained
            _leave(reps, speed, each, cache, r, i, 0.0)
            each.generated[i] += gained
        else:
            for k in range(reps.prefills[r]):
                if reps.prefilling[r, k] == i:
                    for m in range(k, reps.prefills[r] - 1):
                        reps.prefilling[r, m] = reps.prefilling[r, m + 1]
                        reps.chunk[r, m] = reps.chunk[r, m + 1]
                    reps.prefills[r] -= 1
                    break
            _leave(reps, speed, each, cache, r, i, 0.0)
        each.since[i] = -1
        each.computed[i] = 0
        outcome.preempted[i] += 1
        _enqueue(reps, each, r, i, True)
        return True
    return False


@inner
def _forget_ended(reps: _Replicas, each: _Each, r: int) -> None:
    """Make room in the list of admissions."""
    n = 0
    for k in range(reps.admissions[r]):
        i = reps.admitted[r, k]
        if each.kv[i] > 0.0:
            reps.admitted[r, n] = i
            n += 1
    reps.admissions[r] = n


@inner
def _begin_step(
    reps: _Replicas,
    requests: Requests,
    speed: _Speed,
    each: _Each,
    cache: Cache | None,
    ranks: RankTimes | None,
    r: int,
    now: float,
    sequences: int,
    budget: int,
    outcome: Outcome,
) -> None:
    """Plan the next step of a replica, or of a rank; a replica idles where there is nothing to do."""
    preempted = False
    while reps.used[r] + reps.decoding[r] * speed.kv_token > speed.room and reps.inside[r] > 1:
        _preempt(reps, requests, speed, each, cache, r, outcome)
        preempted = True
    left = budget - reps.decoding[r]
    used = reps.used[r] + reps.decoding[r] * speed.kv_token
    pairs, chunks, begun = 0.0, 0.0, 0
    k = 0
    while k < reps.prefills[r]:
        i = reps.prefilling[r, k]
        need = requests.prompt[i] - each.found[i] + each.generated[i] - each.computed[i]
        chunk = min(need, left)
        while used + chunk * speed.kv_token > speed.room and reps.inside[r] > 1:
            last = reps.inside[r]
            _preempt(reps, requests, speed, each, cache, r, outcome)
            preempted = True
            used = reps.used[r] + reps.decoding[r] * speed.kv_token
            for m in range(min(k, reps.prefills[r])):
                used += reps.chunk[r, m] * speed.kv_token
            if reps.inside[r] == last or k >= reps.prefills[r] or reps.prefilling[r, k] != i:
                break
        if k >= reps.prefills[r] or reps.prefilling[r, k] != i:
            break
        reps.chunk[r, k] = chunk
        left -= chunk
        used += chunk * speed.kv_token
        chunks += chunk
        pairs += chunk * (_seen(speed, each.found[i] + each.computed[i] + chunk / 2) + speed.short)
        k += 1
    while reps.waiting[r] > 0 and left > 0 and reps.inside[r] < sequences and not preempted:
        i = reps.head[r]
        found, pinned, shared = requests.found[i], 0, 0.0
        if cache is not None:
            pinned = matched(cache, r, i, requests.prompt[i])
            found = max(found, pinned * cache.tokens)
            shared = newly_pinned(cache, r, i, pinned) * speed.block
        need = requests.prompt[i] - found + each.generated[i]
        chunk = min(need, left)
        windowed = speed.kv_window * min(requests.prompt[i] + requests.output[i], speed.window)
        if used + need * speed.kv_token + windowed + shared > speed.room and reps.inside[r] > 0:
            break  # were its first chunk enough, two long prompts would preempt each other again and again
        if cache is not None:
            shared = pin(cache, r, i, pinned) * speed.block
            reps.used[r] += shared
            used += shared
        each.found[i] = found
        if outcome.found[i] < 0:
            outcome.found[i] = found
        reps.head[r] = each.next[i]
        reps.waiting[r] -= 1
        if reps.admissions[r] == reps.admitted.shape[1]:
            _forget_ended(reps, each, r)
        reps.admitted[r, reps.admissions[r]] = i
        reps.admissions[r] += 1
        reps.inside[r] += 1
        each.kv[i] = windowed + 1e-9
        reps.used[r] += each.kv[i]
        used += each.kv[i] + chunk * speed.kv_token
        p = reps.prefills[r]
        reps.prefilling[r, p] = i
        reps.chunk[r, p] = chunk
        reps.prefills[r] = p + 1
        left -= chunk
        chunks += chunk
        begun = 1
        pairs += chunk * (_seen(speed, found + chunk / 2) + speed.short)
    if cache is not None:
        evict(cache, r, int((speed.room - used) / speed.block))
    if ranks is not None:  # their step begins when all have decided
        reps.planned[r, 0], reps.planned[r, 1], reps.planned[r, 2] = chunks, pairs, begun
        return
    if reps.decoding[r] == 0 and chunks == 0:
        reps.end[r], reps.idle[r] = np.inf, True
        return
    reps.idle[r] = False
    took = _step_s(speed, reps.decoding[r], reps.context[r], chunks, pairs, begun)
    reps.end[r] = now + took
    hour = min(int(now / 3600), len(outcome.busy_s) - 1)
    outcome.busy_s[hour] += took
    outcome.tokens[0] += chunks
    outcome.tokens[1] += reps.decoding[r]


@inner
def _next_step_of_ranks(
    reps: _Replicas,
    requests: Requests,
    speed: _Speed,
    each: _Each,
    cache: Cache | None,
    ranks: RankTimes,
    first: int,
    sequences: int,
    budget: int,
    outcome: Outcome,
) -> None:
    """End the step of a replica's ranks, if one runs, and begin the next."""
    now, decoding, chunks, begun = reps.end[first], 0, 0.0, 0.0
    for r in range(first, first + ranks.number):
        if not reps.idle[first]:
            reps.end[r] = now
            _end_step(reps, requests, speed, each, cache, r, outcome)
        _begin_step(reps, requests, speed, each, cache, ranks, r, now, sequences, budget, outcome)
        decoding, chunks = decoding + reps.decoding[r], chunks + reps.planned[r, 0]
        begun = max(begun, reps.planned[r, 2])
    if decoding == 0 and chunks == 0:
        reps.end[first], reps.idle[first] = np.inf, True
        return
    took = _step_of_ranks_s(reps, speed, ranks, first, decoding, chunks, begun)
    reps.end[first], reps.idle[first] = now + took, False
    outcome.busy_s[min(int(now / 3600), len(outcome.busy_s) - 1)] += took
    outcome.tokens[0] += chunks
    outcome.tokens[1] += decoding


@inner
def _end_step(
    reps: _Replicas, requests: Requests, speed: _Speed, each: _Each, cache: Cache | None, r: int, outcome: Outcome
) -> None:
    """Every decoding request has a token more, and prompts that are done have their first."""
    now = reps.end[r]
    reps.step[r] += 1
    reps.context[r] += reps.decoding[r]
    reps.used[r] += reps.decoding[r] * speed.kv_token
    while reps.heap[r] > 0 and reps.heap_step[r, 0] <= reps.step[r]:
        i = reps.heap_request[r, 0]
        _pop(reps, r)
        reps.context[r] -= requests.prompt[i] + each.generated[i] + reps.step[r] - each.since[i]
        _leave(reps, speed, each, cache, r, i, requests.prompt[i] + requests.output[i])
        outcome.last_s[i] = now + speed.host
        outcome.state[i] = SERVED
    kept = 0
    for k in range(reps.prefills[r]):
        i = reps.prefilling[r, k]
        chunk = reps.chunk[r, k]
        each.computed[i] += chunk
        each.kv[i] += chunk * speed.kv_token
        reps.used[r] += chunk * speed.kv_token
        if each.computed[i] < requests.prompt[i] - each.found[i] + each.generated[i]:
            reps.prefilling[r, kept] = i
            kept += 1
            continue
        if cache is not None:
            reps.used[r] += register(cache, r, i, requests.prompt[i]) * (speed.block - cache.tokens * speed.kv_token)
        each.generated[i] += 1
        if outcome.first_s[i] < 0:
            outcome.first_s[i] = now + speed.host
        if each.generated[i] >= requests.output[i]:
            _leave(reps, speed, each, cache, r, i, requests.prompt[i] + requests.output[i])
            outcome.last_s[i] = now + speed.host
            outcome.state[i] = SERVED
        else:
            each.since[i] = reps.step[r]
            reps.decoding[r] += 1
            reps.context[r] += requests.prompt[i] + each.generated[i]
            _push(reps, r, reps.step[r] + requests.output[i] - each.generated[i], i)
    reps.prefills[r] = kept


@inlined
def _decode_on(reps: _Replicas, speed: _Speed, r: int, until: float, outcome: Outcome) -> None:
    """Run the steps in which nothing happens but that each decoding request has a token more.

    Most steps are such. They are those of _end_step and _begin_step in the same arithmetic, in half the time.
    """
    decoding, step, end = reps.decoding[r], reps.step[r], reps.end[r]
    if decoding == 0 or reps.prefills[r] > 0 or reps.waiting[r] > 0:
        return
    before, context, used = reps.heap_step[r, 0], reps.context[r], reps.used[r]
    kv, row, last = decoding * speed.kv_token, speed.decode[decoding], len(outcome.busy_s) - 1
    while end <= until and step + 1 < before and used + kv + kv <= speed.room:
        step += 1
        context += decoding
        used += kv
        took = _between(row, _seen(speed, context / decoding) / speed.seen_step)
        outcome.busy_s[min(int(end / 3600), last)] += took
        outcome.tokens[1] += decoding
        end += took
    reps.step[r], reps.end[r], reps.context[r], reps.used[r] = step, end, context, used


@inner
def _decode_ranks_on(
    reps: _Replicas, speed: _Speed, ranks: RankTimes, first: int, until: float, outcome: Outcome
) -> None:
    """Run the steps in which every request of every rank has a token more and nothing else happens."""
    decoding, steps = 0, 1 << 62
    for r in range(first, first + ranks.number):
        d = reps.decoding[r]
        if reps.prefills[r] > 0 or reps.waiting[r] > 0:
            return
        if d > 0:
            kv = d * speed.kv_token
            room = int((speed.room - reps.used[r]) / kv) - 2 if kv > 0 else 1 << 62
            steps, decoding = min(steps, reps.heap_step[r, 0] - reps.step[r] - 1, room), decoding + d
    if decoding == 0 or steps <= 0:
        return
    ratio, end, done, idle = ranks.decode_ratio[decoding], reps.end[first], 0, ranks.products_s[0] + ranks.requests_s[0]
    together = _of_tokens(speed, ranks.shared_s, decoding) + ranks.overhead_s + decoding * ranks.request_s
    for r in range(first, first + ranks.number):
        d = reps.decoding[r]
        reps.planned[r, 0] = _of_tokens(speed, ranks.products_s, d) + ranks.requests_s[d]
    while end <= until and done < steps:
        done += 1
        own = idle
        for r in range(first, first + ranks.number):
            d = reps.decoding[r]
            if d > 0:
                seen = _seen(speed, reps.context[r] / d + done) / speed.seen_step
                own = max(own, reps.planned[r, 0] + d * _between(ranks.attention_s, seen))
        took = ratio * (own + together)
        outcome.busy_s[min(int(end / 3600), len(outcome.busy_s) - 1)] += took
        end += took
    for r in range(first, first + ranks.number):
        reps.step[r] += done
        reps.context[r] += done * reps.decoding[r]
        reps.used[r] += done * reps.decoding[r] * speed.kv_token
    outcome.tokens[1] += done * decoding
    reps.end[first] = end


@entry
def _renumber(reps: _Replicas, each: _Each, clock: _Clock, new: np.ndarray) -> None:
    """Give requests new numbers; those that have ended have none, and nobody asks for them."""
    for r in range(len(reps.end)):
        _forget_ended(reps, each, r)
        for k in range(reps.admissions[r]):
            reps.admitted[r, k] = new[reps.admitted[r, k]]
        for k in range(reps.prefills[r]):
            reps.prefilling[r, k] = new[reps.prefilling[r, k]]
        for k in range(reps.heap[r]):
            reps.heap_request[r, k] = new[reps.heap_request[r, k]]
        i = reps.head[r]
        for k in range(reps.waiting[r]):
            behind = each.next[i]
            if k < reps.waiting[r] - 1:
                each.next[i] = new[behind]
            i = behind
        if reps.waiting[r] > 0:
            reps.head[r], reps.tail[r] = new[reps.head[r]], new[reps.tail[r]]
    for k in range(clock.at[HOLDING]):
        clock.held_back[k] = new[clock.held_back[k]]
    arrived = clock.at[ARRIVED]
    clock.at[ARRIVED] = new[arrived - 1] + 1 if arrived > 0 else 0


@entry
def _run(
    requests: Requests,
    capacity: Capacity,
    speed: _Speed,
    sequences: int,
    budget: int,
    router: int,
    cache: Cache | None,
    ranks: RankTimes | None,
    reps: _Replicas,
    each: _Each,
    outcome: Outcome,
    clock: _Clock,
    until: float,
    most_steps: int,
) -> bool:
    """Go on serving until so many steps are done, or all that happens before some time; whether the latter is so."""
    each_has = 1 if ranks is None else ranks.number
    n, most = len(requests.arrival_s), len(reps.end)
    now_at, held_back = clock.at, clock.held_back
    i, event, active, holding = now_at[ARRIVED], now_at[EVENT], now_at[ACTIVE], now_at[HOLDING]
    turn, random, shedding = now_at[TURN], now_at[CHANCE], now_at[IS_SHEDDING] == 1
    steps, done = 0, False
    while True:
        arrival = requests.arrival_s[i] if i < n else np.inf
        change = capacity.time_s[event] if event < len(capacity.time_s) else np.inf
        now = min(arrival, change)
        if now >= until and until < np.inf:
            done = True
            break
        steps += 1
        for r in range(0, most, each_has):
            while reps.end[r] <= now and reps.end[r] < np.inf and steps < most_steps:
                steps += 1
                if ranks is not None:
                    _next_step_of_ranks(reps, requests, speed, each, cache, ranks, r, sequences, budget, outcome)
                    if cache is None:
                        _decode_ranks_on(reps, speed, ranks, r, now, outcome)
                    continue
                began = reps.end[r]
                if not reps.idle[r]:
                    _end_step(reps, requests, speed, each, cache, r, outcome)
                _begin_step(reps, requests, speed, each, cache, ranks, r, began, sequences, budget, outcome)
                if cache is None:
                    _decode_on(reps, speed, r, now, outcome)
        if steps >= most_steps:
            break  # replicas that are behind catch up when it goes on
        if now == np.inf:
            done = True
            break
        if change <= arrival:
            after = capacity.replicas[event]
            lost = capacity.change[event] == FAILED or capacity.change[event] == RECLAIMED
            shedding = capacity.change[event] == RECLAIMED or capacity.change[event] == SHEDDING
            for r in range(each_has * after, each_has * active):
                while lost and reps.inside[r] > 0 and _preempt(reps, requests, speed, each, cache, r, outcome):
                    pass
                if lost:
                    reps.end[r], reps.idle[r] = np.inf, True
                while reps.waiting[r] > 0:
                    k = reps.head[r]
                    reps.head[r] = each.next[k]
                    reps.waiting[r] -= 1
                    held_back[holding] = k
                    holding += 1
            if cache is not None:
                for r in range(each_has * active, each_has * after):  # a new replica knows nothing
                    evict(cache, r, 0)
            active = after
            event += 1
            if active > 0:
                for h in range(holding):
                    k = held_back[h]
                    turn += 1
                    random = (random * 1103515245 + 12345) & 0x7FFFFFFF
                    r = each_has * _routed(reps, cache, k, requests.prompt[k], active, router, turn, random, each_has)
                    _enqueue(reps, each, r if ranks is None else _emptiest(reps, r, each_has), k, False)
                    reps.end[r] = min(reps.end[r], now) if reps.idle[r] else reps.end[r]
                holding = 0
            continue
        own = requests.prompt[i] - requests.found[i] + requests.output[i]
        need = own * speed.kv_token + speed.kv_window * min(requests.prompt[i] + requests.output[i], speed.window)
        if need > speed.room:
            outcome.state[i] = REFUSED
        elif shedding and not requests.critical[i]:
            outcome.state[i] = SHED
        elif active == 0:
            held_back[holding] = i
            holding += 1
        else:
            turn += 1
            random = (random * 1103515245 + 12345) & 0x7FFFFFFF
            r = each_has * _routed(reps, cache, i, requests.prompt[i], active, router, turn, random, each_has)
            _enqueue(reps, each, r if ranks is None else _emptiest(reps, r, each_has), i, False)
            reps.end[r] = min(reps.end[r], now) if reps.idle[r] else reps.end[r]
        i += 1
    now_at[ARRIVED], now_at[EVENT], now_at[ACTIVE], now_at[HOLDING] = i, event, active, holding
    now_at[TURN], now_at[CHANCE], now_at[IS_SHEDDING] = turn, random, 1 if shedding else 0
    return done


@inner
def _routed(
    reps: _Replicas,
    cache: Cache | None,
    i: int,
    prompt: float,
    active: int,
    router: int,
    turn: int,
    random: int,
    ranks: int,
) -> int:
    """The replica that a request goes to."""
    if router == ROUND_ROBIN:
        return turn % active
    if router == RANDOM:
        return (random * active) >> 31  # the low bits of this generator repeat after a few hundred
    best, least = 0, 1 << 62
    for k in range(active):
        r = (turn + k) % active
        load = _load(reps, r, ranks)
        if load < least:
            best, least = r, load
    if router == PREFIX_AWARE and cache is not None:
        return _with_its_prefix(reps, cache, i, prompt, active, turn, least, ranks)
    return best


@inlined
def _load(reps: _Replicas, replica: int, ranks: int) -> int:
    """Requests of a replica."""
    load = 0
    for r in range(ranks * replica, ranks * (replica + 1)):
        load += reps.inside[r] + reps.waiting[r]
    return load


@inner
def _emptiest(reps: _Replicas, first: int, ranks: int) -> int:
    """The rank with the fewest requests."""
    best = first
    for r in range(first + 1, first + ranks):
        if reps.inside[r] + reps.waiting[r] < reps.inside[best] + reps.waiting[best]:
            best = r
    return best


@inner
def _with_its_prefix(
    reps: _Replicas, cache: Cache, i: int, prompt: float, active: int, turn: int, least: int, ranks: int
) -> int:
    """Of the replicas that have hardly more requests than the fewest, the one with most of the prompt's prefix.

    Which of its ranks has it is not known to the router, nor does a replica choose the rank by it.
    """
    most_load = least + max(CLOSE, int(CLOSE_FRAC * least))
    best, best_blocks, best_load = 0, -1, 0
    for k in range(active):
        replica = (turn + k) % active
        load = _load(reps, replica, ranks)
        if load > most_load:
            continue
        blocks = 0
        for r in range(ranks * replica, ranks * (replica + 1)):
            blocks = max(blocks, matched(cache, r, i, prompt))
        if blocks > best_blocks or (blocks == best_blocks and load < best_load):
            best, best_blocks, best_load = replica, blocks, load
    return best
