"""A slow and obvious simulation of replicas, written from the rules alone: the simulator must agree with it.

Every request is looked at in every step, memory is counted anew before every decision, and the next event is the
smallest of a list. The scheduler is vLLM V1's own loop: running requests in the order of their admission, each of which
needs the tokens that are known and not yet computed, then waiting ones, first come first served, each of which must fit
whole. The prefix cache is a list of blocks from the oldest to the newest, beside a count of the running requests that
use a block. Where a replica has data-parallel ranks, each of them is a Replica here, and they run their steps together.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from planner.verification.step_times import StepTimes

LEAST_REQUESTS, ROUND_ROBIN, PREFIX_AWARE = 0, 1, 3
SERVED, REFUSED, SHED, UNFINISHED = 0, 1, 2, 3
DRAINED, FAILED, RECLAIMED, SHEDDING = 0, 1, 2, 3


@dataclass(eq=False)
class Request:
    arrival_s: float
    prompt: int
    found: int
    output: int
    critical: bool
    generated: int = 0
    computed: int = 0
    """tokens whose KV it holds by itself"""
    decoding: bool = False
    new: int = 0
    """tokens that the running step computes"""
    first_s: float = -1.0
    last_s: float = -1.0
    state: int = UNFINISHED
    preempted: int = 0
    blocks: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """blocks of its prompt that it uses and others may use, in their order"""
    owned: int = 0
    """those of them that it computed"""
    first_found: int | None = None

    @property
    def missing(self) -> int:
        """tokens that are known and not computed"""
        return self.prompt - self.found + self.generated - self.computed


@dataclass(eq=False)
class Replica:
    running: list[Request] = field(default_factory=list)
    """in the order of their admission"""
    waiting: list[Request] = field(default_factory=list)
    end_s: float = math.inf
    idle: list[int | None] = field(default_factory=list)
    """cached blocks that nobody uses, the oldest first; None is one of an answer"""
    users: Counter[int] = field(default_factory=Counter)
    """running requests that use a block"""

    @property
    def requests(self) -> int:
        return len(self.running) + len(self.waiting)


@dataclass(eq=False)
class Naive:
    """Replicas behind a router; one after the other, so many ranks of each."""

    times: StepTimes
    sequences: int
    budget: int
    router: int
    requests: list[Request]
    replicas: list[Replica]
    block_tokens: int = 1
    slack: float = 8.0
    active: int = 0
    routed: int = 0
    shedding: bool = False
    held_back: list[Request] = field(default_factory=list)
    prefilled: int = 0
    decoded: int = 0
    busy_s: float = 0.0

    @property
    def ranks(self) -> int:
        return self.times.ranks.number if self.times.ranks else 1

    @property
    def groups(self) -> list[list[Replica]]:
        """The ranks of each replica."""
        return [self.replicas[k : k + self.ranks] for k in range(0, len(self.replicas), self.ranks)]

    # -- memory -------------------------------------------------------------------------------------------

    def held_bytes(self, request: Request, more: int = 0) -> float:
        t = self.times
        window = t.kv_window_bytes_per_token * min(request.prompt + request.output, t.kv_window_tokens)
        return window + (request.computed - request.owned * self.block_tokens + more) * t.kv_bytes_per_token

    def fits(self, replica: Replica, request: Request, new: int, found: tuple[int, ...] = ()) -> bool:
        """Whether a request may compute so many tokens beside what the others hold and are about to compute."""
        others = [r for r in replica.running if r is not request]
        used = sum(self.held_bytes(r, r.new) for r in others) + self.held_bytes(request, new)
        return not others or used + self.block_bytes(len({*replica.users, *found})) <= self.times.kv_room_bytes

    # -- the prefix cache ---------------------------------------------------------------------------------

    def block_bytes(self, count: int) -> float:
        return count * self.block_tokens * self.times.cached_bytes_per_token

    def matched(self, replica: Replica, request: Request) -> tuple[int, ...]:
        """Leading blocks of a prompt that are there; its last token is always computed."""
        n = 0
        most = min(len(request.blocks), (request.prompt - 1) // self.block_tokens)
        while n < most and (request.blocks[n] in replica.users or request.blocks[n] in replica.idle):
            n += 1
        return tuple(request.blocks[:n])

    def use(self, replica: Replica, request: Request, blocks: tuple[int, ...]) -> None:
        for block in blocks:
            if block in replica.idle:
                replica.idle.remove(block)
            replica.users[block] += 1
            request.held.append(block)

    def register(self, replica: Replica, request: Request) -> None:
        whole = request.blocks[: request.prompt // self.block_tokens]
        new = tuple(b for b in whole if b not in replica.users and b not in replica.idle)
        request.owned += len(new)
        self.use(replica, request, new)

    def release(self, replica: Replica, request: Request, tokens: int) -> None:
        if self.block_tokens > 1:  # else nothing is cached
            replica.idle += [None] * (tokens // self.block_tokens - len(request.held))
        for block in sorted(request.held, key=request.blocks.index, reverse=True):
            replica.users[block] -= 1
            if not replica.users[block]:
                del replica.users[block]
                replica.idle.append(block)
        request.held, request.owned = [], 0

    def evict(self, replica: Replica) -> None:
        used = sum(self.held_bytes(r, r.new) for r in replica.running) + self.block_bytes(len(replica.users))
        while replica.idle and used + self.block_bytes(len(replica.idle)) > self.times.kv_room_bytes:
            replica.idle.pop(0)

    # -- a step -------------------------------------------------------------------------------------------

    def begin_step(self, group: list[Replica], now: float) -> None:
        for replica in group:
            self.plan_step(replica)
        took = self.step_s(group[0].running) if self.times.ranks is None else self.step_of_ranks_s(group)
        for replica in group:
            replica.end_s = now + took if any(rank.running for rank in group) else math.inf
        self.busy_s += took

    def plan_step(self, replica: Replica) -> None:
        for r in replica.running:
            r.new = 0
        left, preempted, k = self.budget, False, 0
        while k < len(replica.running):
            request = replica.running[k]
            new = min(request.missing, left)
            while request in replica.running and not self.fits(replica, request, new):
                self.give_back(replica.running.pop(), replica)
                preempted = True
            if request in replica.running:
                request.new = new
                left -= new
            k += 1
        while replica.waiting and left > 0 and len(replica.running) < self.sequences and not preempted:
            request = replica.waiting[0]
            found = self.matched(replica, request)
            request.found = len(found) * self.block_tokens if request.blocks else request.found
            new = min(request.missing, left)
            if not self.fits(replica, request, request.missing, found):
                break
            self.use(replica, request, found)
            request.first_found = request.found if request.first_found is None else request.first_found
            replica.running.append(replica.waiting.pop(0))
            request.new = new
            left -= new
        self.evict(replica)

    def give_back(self, request: Request, replica: Replica) -> None:
        """Preempt: it goes to the head of the queue and starts again, with the tokens that are known."""
        self.release(replica, request, 0)
        request.computed, request.new, request.decoding = 0, 0, False
        request.preempted += 1
        replica.waiting.insert(0, request)

    def end_step(self, replica: Replica) -> None:
        now = replica.end_s + self.times.host_s
        decoding = sorted((r for r in replica.running if r.decoding), key=self.requests.index)
        for r in [*decoding, *(r for r in replica.running if not r.decoding)]:
            r.computed += r.new
            if r.missing > 0:
                continue
            if not r.decoding:
                self.register(replica, r)
            r.generated += 1
            r.decoding = True
            r.first_s = now if r.first_s < 0 else r.first_s
            if r.generated >= r.output:
                r.last_s, r.state = now, SERVED
                self.release(replica, r, r.prompt + r.output)
                replica.running.remove(r)

    def step_s(self, running: list[Request]) -> float:
        decodes = [r for r in running if r.decoding]
        prompts = [r for r in running if not r.decoding and r.new > 0]
        chunk = sum(r.new for r in prompts)
        self.prefilled += chunk
        self.decoded += len(decodes)
        seconds = 0.0
        if decodes:
            context = sum(r.prompt + r.generated for r in decodes) / len(decodes)
            seconds += self.decode_s(len(decodes), context)
        begun = any(r.computed == 0 for r in prompts)
        if prompts and decodes:
            seconds += self.added_s(len(decodes), chunk) + sum(self.attention_s(r) for r in prompts)
            seconds += begun * self.times.prompt_beside_s
        elif prompts:
            seconds += self.alone_s(chunk, begun) + sum(self.attention_s(r, alone=True) for r in prompts)
        return seconds

    def step_of_ranks_s(self, group: list[Replica]) -> float:
        """The parts of the busiest rank, and those of all together."""
        t = self.times.ranks
        assert t is not None
        decodes = [[r for r in rank.running if r.decoding] for rank in group]
        prompts = [[r for r in rank.running if not r.decoding] for rank in group]
        many, new = sum(map(len, decodes)), sum(r.new for rank in prompts for r in rank)
        self.prefilled += new
        self.decoded += many

        def products(tokens: int, requests: int) -> float:
            return self.at_root(tokens, t.products_s) + float(t.requests_s[requests])

        own_decode, own_prompt = [], []
        for decoding, prefilling in zip(decodes, prompts, strict=True):
            d, p, chunk = len(decoding), len(prefilling), sum(r.new for r in prefilling)
            seen = self.seen(sum(r.prompt + r.generated for r in decoding) / d) / self.times.seen_step if d else 0.0
            attention = d * float(np.interp(seen, np.arange(len(t.attention_s)), t.attention_s))
            own_decode.append(products(d, d) + attention)
            with_decodes = products(chunk + d, p + d) - products(d, d)
            own_prompt.append((with_decodes if many and t.mixed else products(chunk, p)) if chunk else 0.0)
        pairs = [sum(self.attention_s(r, alone=not many) for r in rank if r.new) for rank in prompts]
        shared, passes = (self.at_root(tokens, t.shared_s) for tokens in (many, new))
        begun = any(r.computed == 0 and r.new > 0 for rank in prompts for r in rank)
        if not many:
            if not new:
                return 0.0
            longest = max(t.alone_ratio * x + y for x, y in zip(own_prompt, pairs, strict=True))
            return longest + t.alone_ratio * passes + begun * self.times.prompt_alone_s
        ratio = float(t.decode_ratio[many])
        decode = [ratio * x for x in own_decode]
        prompt = [t.prefill_ratio * x + y for x, y in zip(own_prompt, pairs, strict=True)]
        total = ratio * (shared + t.overhead_s + many * t.request_s)
        if t.mixed:
            both = self.at_root(many + new, t.shared_s)
            return total + t.prefill_ratio * (both - shared) + max(x + y for x, y in zip(decode, prompt, strict=True))
        return (
            total
            + (t.prefill_ratio * passes if new else 0.0)
            + self.times.prompt_beside_s * begun
            + max(decode)
            + max(prompt)
        )

    # -- tables -------------------------------------------------------------------------------------------

    def seen(self, tokens: float) -> float:
        t = self.times
        return t.full_frac * tokens + (1 - t.full_frac) * min(tokens, t.window_tokens)

    def decode_s(self, batch: int, context: float) -> float:
        row = self.times.decode_s[batch]
        return float(np.interp(self.seen(context), self.times.seen_step * np.arange(len(row)), row))

    def added_s(self, batch: int, chunk: int) -> float:
        return self.at_root(chunk, self.times.added_s[batch])

    def alone_s(self, chunk: int, begun: bool) -> float:
        return self.at_root(chunk, self.times.alone_s) + (self.times.prompt_alone_s if begun else 0.0)

    def at_root(self, chunk: int, row: np.ndarray) -> float:
        return float(np.interp(self.times.root_steps * math.sqrt(chunk), np.arange(len(row)), row))

    def attention_s(self, request: Request, alone: bool = False) -> float:
        """Attention of the tokens in the running step over those before them."""
        t = self.times
        seen = self.seen(request.found + request.computed + request.new / 2) + t.attention_short_tokens
        return (t.attention_alone_s if alone else t.attention_s) * request.new * seen

    # -- the router and the replicas there are ------------------------------------------------------------

    def send(self, request: Request) -> None:
        if self.active == 0:
            self.held_back.append(request)
            return
        self.routed += 1
        places = [(self.routed + k) % self.active for k in range(self.active)]
        groups = self.groups
        load = [sum(rank.requests for rank in group) for group in groups]
        fewest = min(load[p] for p in places)
        if self.router == LEAST_REQUESTS:
            place = next(p for p in places if load[p] == fewest)
        elif self.router == PREFIX_AWARE:
            slack = self.slack + 0.25 * fewest
            known = [max(len(self.matched(rank, request)) for rank in group) for group in groups]
            share = [blocks * self.block_tokens / request.prompt for blocks in known]
            place = min(places, key=lambda p: (load[p] - slack * share[p], load[p]))
        else:
            place = places[0]
        min(groups[place], key=lambda rank: rank.requests).waiting.append(request)

    def arrive(self, request: Request, now: float) -> None:
        own = request.prompt - request.found + request.output
        if self.held_bytes(request, own) > self.times.kv_room_bytes:
            request.state = REFUSED
        elif self.shedding and not request.critical:
            request.state = SHED
        else:
            self.send(request)
        self.wake(now)

    def change(self, replicas: int, change: int, now: float) -> None:
        for replica in self.replicas[self.ranks * replicas : self.ranks * self.active]:
            if change in (FAILED, RECLAIMED):
                while replica.running:
                    self.give_back(replica.running.pop(), replica)
                replica.end_s = math.inf
            self.held_back += replica.waiting
            replica.waiting = []
        for replica in self.replicas[self.ranks * self.active : self.ranks * replicas]:
            replica.idle = []
        self.active, self.shedding = replicas, change in (RECLAIMED, SHEDDING)
        again, self.held_back = self.held_back, []
        for request in again:
            self.send(request)
        self.wake(now)

    def wake(self, now: float) -> None:
        for group in self.groups:
            if group[0].end_s == math.inf and any(rank.waiting for rank in group):
                self.begin_step(group, now)


def naive_serve(
    requests: list[Request], capacity: list[tuple[float, int, int]], times: StepTimes, sequences: int, budget: int,
    router: int, block_tokens: int = 1, slack: float = 8.0,
) -> Naive:  # fmt: skip
    """Serve requests in the order of their arrival; capacity: (from when on, replicas, how those that go do so)."""
    most = max(1, *(replicas for _, replicas, _ in capacity)) * (times.ranks.number if times.ranks else 1)
    naive = Naive(times, sequences, budget, router, requests, [Replica() for _ in range(most)], block_tokens, slack)
    arrivals, changes = list(requests), list(capacity)
    while True:
        events = [(group[0].end_s, 0, k) for k, group in enumerate(naive.groups)]
        events += [(changes[0][0], 1, 0)] if changes else []
        events += [(arrivals[0].arrival_s, 2, 0)] if arrivals else []
        now, kind, k = min(events)
        if now == math.inf:
            return naive
        if kind == 0:
            group = naive.groups[k]
            for rank in group:
                naive.end_step(rank)
            naive.begin_step(group, now)
        elif kind == 1:
            _, count, change = changes.pop(0)
            naive.change(count, change, now)
        else:
            naive.arrive(arrivals.pop(0), now)
