"""The replicas of one deployment over time: requests come, are routed and served step by step, replicas come and go.

Where a replica has data-parallel ranks, a request goes to the rank with the fewest.
"""

from __future__ import annotations

import time
from typing import NamedTuple, TypeVar

import numpy as np

from planner.verification.acceptance import drawn_passes
from planner.verification.block_cache import (
    MOST_NODES,
    NO_BLOCKS,
    Blocks,
    Cache,
    empty_cache,
    evict,
    matched,
    matched_in_host,
    with_requests,
)
from planner.verification.compiled import compiled, inlined
from planner.verification.step_times import RankTimes, StepTimes
from planner.verification.steps import (
    REFUSED,
    SHED,
    UNFINISHED,
    Each,
    Outcome,
    Replicas,
    Requests,
    Speed,
    State,
    begin_step,
    decode_on,
    decode_ranks_on,
    end_step,
    enqueue,
    forget_ended,
    next_step_of_ranks,
    preempt,
)
from solvers.backends.clock import check

T = TypeVar("T", "Requests", "Each")
LEAST_REQUESTS, ROUND_ROBIN, RANDOM, PREFIX_AWARE = 0, 1, 2, 3
MOST_SLACK, SLACK_FRAC, SLACK_PLACES = 8.0, 0.25, 2.0
"""requests, share of the fewest in flight, and times its places that a replica may have more and still get those whose
whole prompt it has; of those whose prompt it has in part, so much less"""
DRAINED, FAILED, RECLAIMED, SHEDDING = 0, 1, 2, 3
"""how the number of replicas changes"""


class Capacity(NamedTuple):
    """Replicas over time; each entry holds from its time on."""

    time_s: np.ndarray
    replicas: np.ndarray
    change: np.ndarray
    """DRAINED: replicas that go finish their work; FAILED: they take it with them; RECLAIMED: the same, and what is not
    critical is shed until the next entry; SHEDDING: it still is, and replicas that go finish their work"""


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
"""seconds that a call of compiled code takes, about, since nobody looks at the clock in it, and steps of one"""


def serve(
    requests: Requests,
    capacity: Capacity,
    times: StepTimes,
    sequences: int,
    budget: int,
    router: int,
    seed: int,
    blocks: Blocks = NO_BLOCKS,
    slack: float = MOST_SLACK,
) -> Outcome:
    """Serve requests in the order of their arrival by the replicas there are, which cache blocks of their prompts.

    Sequences and budget are those of a rank.
    """
    hours = int(requests.arrival_s[-1] / 3600) + 25 if len(requests.arrival_s) else 1
    most = len(blocks.ids) + float(((requests.prompt + requests.output) // blocks.tokens).sum())
    cached_tokens = blocks.tokens if len(blocks.ids) else 0
    simulation = Simulation(capacity, times, sequences, budget, router, seed, hours, cached_tokens, most, slack=slack)
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
        most_replicas: int = 1,
        host_tokens: float = 0.0,
        read_s: float = 0.0,
        slack: float = MOST_SLACK,
    ) -> None:
        """Blocks of no tokens: nothing is cached. There may be so many replicas where a controller scales them.

        A router that knows prefixes gives a replica with a whole prompt so many requests more than one with none of it.
        """
        if budget < times.verified * sequences:
            raise ValueError(f"a step of {budget} tokens cannot decode {sequences} requests")
        self.chances, self.rng = times.chances, np.random.default_rng(seed)
        self.capacity, self.router, self.slack, self.ranks = capacity, router, slack, times.ranks
        speed = Speed(
            sequences=sequences, budget=budget, verified=times.verified, gain=times.gain,
            decode=times.decode_s, seen_step=times.seen_step, added=times.added_s, alone=times.alone_s,
            root_steps=times.root_steps, prompt_alone=times.prompt_alone_s, prompt_beside=times.prompt_beside_s,
            host=times.host_s, pair=times.attention_s, pair_alone=times.attention_alone_s,
            short=times.attention_short_tokens, full=times.full_frac, kv_token=times.kv_bytes_per_token,
            kv_window=times.kv_window_bytes_per_token, window=times.window_tokens, kept=times.kv_window_tokens,
            room=times.kv_room_bytes, block=block_tokens * times.cached_bytes_per_token,
        )  # fmt: skip
        rows = max(most_replicas, int(capacity.replicas.max())) * (times.ranks.number if times.ranks else 1)
        nobody = Requests(*(np.zeros(0, dtype=kind) for kind in (float, float, float, np.int64, np.bool_)))
        self.state = State(_no_work(rows, sequences), nobody, _untouched(0), _unanswered(0, hours), speed)
        self.clock = _Clock(np.zeros(COUNTERS, dtype=np.int64), np.zeros(0, dtype=np.int64))
        self.clock.at[CHANCE] = seed % 0x7FFFFFFF
        self.cache = None  # compiled apart, and three times as fast as an empty one
        if block_tokens:
            # Of models with windows, running requests may hold more blocks than there is room for idle ones.
            least = min(speed.block, block_tokens * speed.kv_token)
            nodes = int(min(speed.room / least if least else np.inf, most_blocks, MOST_NODES / rows)) + 8
            in_host = int(min(host_tokens / block_tokens, MOST_NODES / rows))
            self.cache = empty_cache(block_tokens, nodes, rows, speed.block, in_host, read_s)
        self.steps = FEWEST_STEPS

    def __len__(self) -> int:
        """Requests that are waiting or under way, and those that have ended and not been taken away."""
        return len(self.requests.arrival_s)

    @property
    def requests(self) -> Requests:
        return self.state.requests

    @property
    def outcome(self) -> Outcome:
        return self.state.outcome

    @property
    def waiting(self) -> int:
        """Requests that have come and that no replica has begun."""
        return int(self.state.replicas.waiting.sum() + self.clock.at[HOLDING])

    def add(self, requests: Requests, blocks: Blocks = NO_BLOCKS) -> None:
        """Let in more requests, all of which arrive after those that are there."""
        count = len(requests.arrival_s)
        found = np.minimum(requests.found, requests.prompt - 1)  # the last one is computed
        self._become(np.arange(len(self)), requests._replace(found=found), count, blocks)
        fresh = self.state.each.passes[len(self) - count :]
        fresh[:] = drawn_passes(requests.output, self.chances, self.rng) if self.chances else requests.output

    def take_ended(self) -> tuple[np.ndarray, Requests, Outcome]:
        """Requests that are served, refused or shed leave: their places among all, and what became of them."""
        over = self.outcome.state != UNFINISHED
        ended, kept = np.flatnonzero(over), np.flatnonzero(~over)
        outcome = self.outcome._replace(**{name: getattr(self.outcome, name)[ended] for name in OF_REQUESTS})
        left = Requests(*(x[ended] for x in self.requests))
        _renumber(self.state.replicas, self.state.each, self.clock, np.cumsum(~over) - 1)
        self._become(kept, Requests(*(x[:0] for x in self.requests)), 0, NO_BLOCKS)
        return ended, left, outcome

    def _become(self, kept: np.ndarray, more: Requests, count: int, blocks: Blocks) -> None:
        """Keep the requests at some places, and so many more behind them."""
        fresh, outcome = _unanswered(count, 0), self.outcome
        self.state = self.state._replace(
            requests=_after(self.requests, kept, more),
            each=_after(self.state.each, kept, _untouched(count)),
            outcome=outcome._replace(
                **{name: np.concatenate([getattr(outcome, name)[kept], getattr(fresh, name)]) for name in OF_REQUESTS}
            ),
        )
        waiting = self.clock.held_back[: self.clock.at[HOLDING]]
        self.clock = self.clock._replace(held_back=np.concatenate([waiting, np.zeros(len(self) - len(waiting), int)]))
        if self.cache is not None:
            if not len(blocks.ids):
                blocks = Blocks(blocks.ids, np.zeros(count + 1, dtype=np.int64), blocks.tokens)
            self.cache = with_requests(self.cache, kept, blocks)

    def scale(self, time_s: list[float], replicas: list[int], change: list[int] | None = None) -> None:
        """Replicas from some times on, all of them later than what was served so far; those that go are drained."""
        how = np.full(len(time_s), DRAINED) if change is None else np.array(change)
        self.capacity = Capacity(np.array(time_s), np.array(replicas), how)
        self.clock.at[EVENT] = 0

    @property
    def replicas_at_work(self) -> np.ndarray:
        """Requests of each replica, those that are drained as well [replica]."""
        rows = self.state.replicas
        of_rows = rows.inside + rows.waiting
        ranks = 1 if self.ranks is None else self.ranks.number
        return np.asarray(of_rows.reshape(-1, ranks).sum(axis=1))

    def run(self, until_s: float = np.inf) -> None:
        """Serve all that happens before some time. Stopped between two calls, it can go on later."""
        done = False
        while not done:
            check()
            began = time.perf_counter()
            routing = self.router, self.slack
            done = _run(self.state, self.capacity, self.clock, self.cache, self.ranks, *routing, until_s, self.steps)
            if not done:  # it took all its steps
                slower = (time.perf_counter() - began) / CALL_S
                self.steps = min(MOST_STEPS, max(FEWEST_STEPS, int(self.steps / min(4.0, max(0.5, slower)))))


def _after(columns: T, kept: np.ndarray, more: T) -> T:
    return type(columns)(*(np.concatenate([a[kept], b]) for a, b in zip(columns, more, strict=True)))


def _no_work(rows: int, sequences: int) -> Replicas:
    places = sequences + 2

    def counts(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    return Replicas(
        end=np.full(rows, np.inf), step=counts(rows), decoding=counts(rows), context=np.zeros(rows),
        used=np.zeros(rows), inside=counts(rows), waiting=counts(rows), head=counts(rows), tail=counts(rows),
        prefilling=counts(rows, places), prefills=counts(rows), admitted=counts(rows, 4 * places),
        admissions=counts(rows), heap_step=counts(rows, places), heap_request=counts(rows, places), heap=counts(rows),
        chunk=np.zeros((rows, places)), idle=np.ones(rows, dtype=np.bool_), planned=np.zeros((rows, 3)),
    )  # fmt: skip


def _untouched(count: int) -> Each:
    return Each(
        next=np.zeros(count, dtype=np.int64), computed=np.zeros(count), found=np.zeros(count),
        passes=np.zeros(count, dtype=np.int64), generated=np.zeros(count, dtype=np.int64),
        kv=np.zeros(count), since=np.full(count, -1, dtype=np.int64),
    )  # fmt: skip


def _unanswered(count: int, hours: int) -> Outcome:
    return Outcome(
        first_s=np.full(count, -1.0), last_s=np.full(count, -1.0), state=np.full(count, UNFINISHED, dtype=np.int8),
        preempted=np.zeros(count, dtype=np.int32), busy_s=np.zeros(hours), tokens=np.zeros(2),
        found=np.full(count, -1.0),
    )  # fmt: skip


@compiled
def _renumber(reps: Replicas, each: Each, clock: _Clock, new: np.ndarray) -> None:
    """Give requests new numbers; those that have ended have none, and nobody asks for them."""
    for r in range(len(reps.end)):
        forget_ended(reps, each, r)
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


@compiled
def _run(
    state: State,
    capacity: Capacity,
    clock: _Clock,
    cache: Cache | None,
    ranks: RankTimes | None,
    router: int,
    slack: float,
    until: float,
    most_steps: int,
) -> bool:
    """Go on serving until so many steps are done, or all that happens before some time; whether the latter is so."""
    reps, requests, each, outcome, speed = state
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
        pauses = now >= until and until < np.inf
        if pauses:
            now = until
        steps += 1
        for r in range(0, most, each_has):
            while reps.end[r] <= now and reps.end[r] < np.inf and steps < most_steps:
                steps += 1
                if ranks is not None:
                    next_step_of_ranks(reps, requests, each, outcome, speed, cache, ranks, r)
                    if cache is None:
                        decode_ranks_on(reps, outcome, speed, ranks, r, now)
                    continue
                began = reps.end[r]
                if not reps.idle[r]:
                    end_step(reps, requests, each, outcome, speed, cache, r)
                begin_step(reps, requests, each, outcome, speed, cache, ranks, r, began)
                if cache is None:
                    decode_on(reps, outcome, speed, r, now)
        if steps >= most_steps:
            break  # replicas that are behind catch up when it goes on
        if pauses or now == np.inf:
            done = True
            break
        if change <= arrival:
            after = capacity.replicas[event]
            lost = capacity.change[event] == FAILED or capacity.change[event] == RECLAIMED
            shedding = capacity.change[event] == RECLAIMED or capacity.change[event] == SHEDDING
            for r in range(each_has * after, each_has * active):
                while lost and reps.inside[r] > 0 and preempt(reps, requests, each, outcome, speed, cache, r):
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
                    prompt = requests.prompt[k]
                    r = each_has * _routed(reps, cache, k, prompt, active, router, slack, turn, random, each_has)
                    enqueue(reps, each, r if ranks is None else _emptiest(reps, r, each_has), k, False)
                    reps.end[r] = min(reps.end[r], now) if reps.idle[r] else reps.end[r]
                holding = 0
            continue
        own = requests.prompt[i] - requests.found[i] + requests.output[i]
        need = own * speed.kv_token + speed.kv_window * min(requests.prompt[i] + requests.output[i], speed.kept)
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
            prompt = requests.prompt[i]
            r = each_has * _routed(reps, cache, i, prompt, active, router, slack, turn, random, each_has)
            enqueue(reps, each, r if ranks is None else _emptiest(reps, r, each_has), i, False)
            reps.end[r] = min(reps.end[r], now) if reps.idle[r] else reps.end[r]
        i += 1
    now_at[ARRIVED], now_at[EVENT], now_at[ACTIVE], now_at[HOLDING] = i, event, active, holding
    now_at[TURN], now_at[CHANCE], now_at[IS_SHEDDING] = turn, random, 1 if shedding else 0
    return done


@compiled
def _routed(
    reps: Replicas,
    cache: Cache | None,
    i: int,
    prompt: float,
    active: int,
    router: int,
    slack: float,
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
        return _with_its_prefix(reps, cache, i, prompt, active, turn, slack + SLACK_FRAC * least, ranks)
    return best


@inlined
def _load(reps: Replicas, replica: int, ranks: int) -> int:
    """Requests of a replica."""
    load = 0
    for r in range(ranks * replica, ranks * (replica + 1)):
        load += reps.inside[r] + reps.waiting[r]
    return load


@compiled
def _emptiest(reps: Replicas, first: int, ranks: int) -> int:
    """The rank with the fewest requests."""
    best = first
    for r in range(first + 1, first + ranks):
        if reps.inside[r] + reps.waiting[r] < reps.inside[best] + reps.waiting[best]:
            best = r
    return best


@compiled
def _with_its_prefix(
    reps: Replicas, cache: Cache, i: int, prompt: float, active: int, turn: int, slack: float, ranks: int
) -> int:
    """The replica with the fewest requests, less the slack in proportion to the share of the prompt that it has.

    Which of its ranks has it is not known to the router, nor does a replica choose the rank by it.
    """
    best, best_cost, best_load = 0, np.inf, 0
    for k in range(active):
        replica = (turn + k) % active
        load = _load(reps, replica, ranks)
        if load - slack > best_cost:
            continue  # even with the whole prompt
        blocks = 0
        for r in range(ranks * replica, ranks * (replica + 1)):
            here = matched(cache, r, i, prompt)
            blocks = max(blocks, here + matched_in_host(cache, r, i, prompt, here))
        cost = load - slack * (blocks * cache.tokens / prompt)
        if cost < best_cost or (cost == best_cost and load < best_load):
            best, best_cost, best_load = replica, cost, load
    return best
