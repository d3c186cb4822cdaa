"""A step of a replica, by the rules of vLLM V1. Compiled by numba.

A step decodes one token for every running request and prefills prompt chunks within the token budget: requests whose
prompts are begun first, then waiting ones, first come first served, while sequences and KV memory allow. KV memory is
taken as tokens come, but a waiting request is admitted only where all its tokens so far fit beside what others hold,
and never in a step that preempts. Where memory runs out, the request that was admitted last gives its own back, goes to
the head of the queue and is computed again from the start. Every decoding request gains one token a step, so none is
touched before it ends: a heap knows the step at which each will.

Where steps verify drafts, a request decodes in as many steps as were drawn for it when it came (acceptance.py); it then
gains in each what steps bring on average, and takes the place of its drafts in the token budget.

The rules are those of vLLM's main branch of 2026 (commit 003df296): `Scheduler.schedule` in vllm/v1/core/sched/
scheduler.py, and `KVCacheManager.allocate_slots` in vllm/v1/core/kv_cache_manager.py, with the defaults
`scheduler_reserve_full_isl: true` (the whole prompt must fit; pull request 37307) and `watermark: 0`. Memory is counted
by the token, not by blocks of 16. A request that was preempted finds again what it left in a prefix cache where one is
simulated, and nothing otherwise.

Data-parallel ranks of a replica do all that by themselves, each for its own requests. Their steps begin and end
together, those of ranks without work as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.verification.block_cache import (
    Cache,
    evict,
    keep_in_host,
    matched,
    matched_in_host,
    newly_pinned,
    pin,
    register,
    release,
)
from planner.verification.compiled import compiled, inlined
from planner.verification.step_times import RankTimes

SERVED, REFUSED, SHED, UNFINISHED = 0, 1, 2, 3
"""how a request ends"""


class Requests(NamedTuple):
    """In the order of their arrival."""

    arrival_s: np.ndarray
    prompt: np.ndarray
    """tokens of the prompt"""
    found: np.ndarray
    """of these, tokens whose KV is cached whatever happens; less than 0: so many that were computed before anything was
    simulated, which take memory like others"""
    output: np.ndarray
    """tokens of the answer"""
    critical: np.ndarray
    """whether the gateway lets it in while capacity is lost"""


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


class Speed(NamedTuple):
    """What a replica does in which time, and how much at once; of ranks, each of them."""

    sequences: int
    budget: int
    """tokens of a step"""
    verified: int
    """of these, for each request that decodes"""
    gain: float
    """tokens that a step brings to it"""
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
    kept: float
    room: float
    block: float


class Replicas(NamedTuple):
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


class Each(NamedTuple):
    """One row for each request."""

    next: np.ndarray
    """behind it in the queue"""
    computed: np.ndarray
    """prompt tokens that are in KV memory, without those that were cached"""
    found: np.ndarray
    """tokens of the prompt that were cached when it was admitted"""
    passes: np.ndarray
    """steps that give it tokens, that of the prompt included: as many as tokens, or fewer where drafts are accepted"""
    generated: np.ndarray
    """passes of the answer that are done; their tokens must be computed again after a preemption"""
    kv: np.ndarray
    """bytes that it holds, without what it gained since it began to decode"""
    since: np.ndarray
    """step at which it began to decode; -1 where it does not"""


class State(NamedTuple):
    """Requests, replicas, and what became of both so far.

    Compiled code takes it apart once a call: to take a part out of it counts references to every array of that part,
    and in each step that would take more time than the step.
    """

    replicas: Replicas
    requests: Requests
    each: Each
    outcome: Outcome
    speed: Speed


@inlined
def _between(table: np.ndarray, x: float) -> float:
    k = min(int(x), len(table) - 2)
    return float(table[k] + (x - k) * (table[k + 1] - table[k]))


@inlined
def _seen(speed: Speed, tokens: float) -> float:
    """Tokens that one at this place sees, mean over the layers."""
    return speed.full * tokens + (1 - speed.full) * min(tokens, speed.window)


@inlined
def _step_s(speed: Speed, decoding: int, context: float, chunk: float, pairs: float, begun: int) -> float:
    """Seconds of a step."""
    place = speed.root_steps * np.sqrt(chunk)
    if decoding == 0:
        return _between(speed.alone, place) + speed.pair_alone * pairs + speed.prompt_alone * begun
    total = _between(speed.decode[decoding], _seen(speed, context / decoding) / speed.seen_step)
    if chunk > 0:
        total += _between(speed.added[decoding], place) + speed.pair * pairs + speed.prompt_beside * begun
    return total


@compiled
def _step_of_ranks_s(
    reps: Replicas, speed: Speed, ranks: RankTimes, first: int, decoding: int, chunks: float, begun: float
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
def _of_tokens(speed: Speed, table: np.ndarray, tokens: float) -> float:
    return _between(table, speed.root_steps * np.sqrt(tokens))


@inlined
def _push(reps: Replicas, r: int, step: int, i: int) -> None:
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
def _pop(reps: Replicas, r: int) -> None:
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


@compiled
def _remove_from_heap(reps: Replicas, r: int, i: int) -> None:
    """Drop a request that was preempted while it decoded."""
    steps, ids = reps.heap_step[r], reps.heap_request[r]
    n = reps.heap[r]
    kept_steps, kept = steps[:n].copy(), ids[:n].copy()
    reps.heap[r] = 0
    for k in range(n):
        if kept[k] != i:
            _push(reps, r, kept_steps[k], kept[k])


@inlined
def enqueue(reps: Replicas, each: Each, r: int, i: int, first: bool) -> None:
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


@compiled
def _leave(reps: Replicas, speed: Speed, each: Each, cache: Cache | None, r: int, i: int, tokens: float) -> None:
    """Give back the memory of a running request; it leaves so many tokens behind, which may stay cached."""
    gained = 0
    if each.since[i] >= 0:
        gained = reps.step[r] - each.since[i]
        reps.decoding[r] -= 1
    reps.used[r] -= each.kv[i] + gained * speed.gain * speed.kv_token
    if cache is not None:
        reps.used[r] += cache.owned[i] * cache.tokens * speed.kv_token
        reps.used[r] -= release(cache, r, i, tokens) * speed.block
        keep_in_host(cache, r, i, tokens)
    reps.inside[r] -= 1
    each.kv[i] = 0.0


@compiled
def preempt(
    reps: Replicas, requests: Requests, each: Each, outcome: Outcome, speed: Speed, cache: Cache | None, r: int
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
            reps.context[r] -= requests.prompt[i] + (each.generated[i] + gained) * speed.gain
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
        enqueue(reps, each, r, i, True)
        return True
    return False


@compiled
def forget_ended(reps: Replicas, each: Each, r: int) -> None:
    """Make room in the list of admissions."""
    n = 0
    for k in range(reps.admissions[r]):
        i = reps.admitted[r, k]
        if each.kv[i] > 0.0:
            reps.admitted[r, n] = i
            n += 1
    reps.admissions[r] = n


@compiled
def begin_step(
    reps: Replicas,
    requests: Requests,
    each: Each,
    outcome: Outcome,
    speed: Speed,
    cache: Cache | None,
    ranks: RankTimes | None,
    r: int,
    now: float,
) -> None:
    """Plan the next step of a replica, or of a rank; a replica idles where there is nothing to do."""
    preempted = False
    grown = speed.gain * speed.kv_token
    while reps.used[r] + reps.decoding[r] * grown > speed.room and reps.inside[r] > 1:
        preempt(reps, requests, each, outcome, speed, cache, r)
        preempted = True
    left = speed.budget - speed.verified * reps.decoding[r]
    used = reps.used[r] + reps.decoding[r] * grown
    pairs, chunks, begun, back_s = 0.0, 0.0, 0, 0.0
    k = 0
    while k < reps.prefills[r]:
        i = reps.prefilling[r, k]
        need = requests.prompt[i] - each.found[i] + int(each.generated[i] * speed.gain) - each.computed[i]
        chunk = min(need, left)
        while used + chunk * speed.kv_token > speed.room and reps.inside[r] > 1:
            last = reps.inside[r]
            preempt(reps, requests, each, outcome, speed, cache, r)
            preempted = True
            used = reps.used[r] + reps.decoding[r] * grown
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
    while reps.waiting[r] > 0 and left > 0 and reps.inside[r] < speed.sequences and not preempted:
        i = reps.head[r]
        found, pinned, shared, loaded, read = requests.found[i], 0, 0.0, 0.0, 0.0
        if cache is not None:
            pinned = matched(cache, r, i, requests.prompt[i])
            loaded = float(matched_in_host(cache, r, i, requests.prompt[i], pinned) * cache.tokens)
            read = loaded
            loaded = max(loaded, -found - pinned * cache.tokens)  # what was there before
            found = max(found, pinned * cache.tokens + loaded)
            shared = newly_pinned(cache, r, i, pinned) * speed.block
        need = requests.prompt[i] - found + int(each.generated[i] * speed.gain)
        chunk = min(need, left)
        windowed = speed.kv_window * min(requests.prompt[i] + requests.output[i], speed.kept)
        if used + (need + loaded) * speed.kv_token + windowed + shared > speed.room and reps.inside[r] > 0:
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
            forget_ended(reps, each, r)
        reps.admitted[r, reps.admissions[r]] = i
        reps.admissions[r] += 1
        reps.inside[r] += 1
        each.kv[i] = windowed + loaded * speed.kv_token + 1e-9
        if cache is not None:
            back_s += read * cache.host.read_s
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
    took = _step_s(speed, reps.decoding[r], reps.context[r], chunks, pairs, begun) + back_s
    reps.end[r] = now + took
    hour = min(int(now / 3600), len(outcome.busy_s) - 1)
    outcome.busy_s[hour] += took
    outcome.tokens[0] += chunks
    outcome.tokens[1] += reps.decoding[r] * speed.gain


@compiled
def next_step_of_ranks(
    reps: Replicas,
    requests: Requests,
    each: Each,
    outcome: Outcome,
    speed: Speed,
    cache: Cache | None,
    ranks: RankTimes,
    first: int,
) -> None:
    """End the step of a replica's ranks, if one runs, and begin the next."""
    now, decoding, chunks, begun = reps.end[first], 0, 0.0, 0.0
    for r in range(first, first + ranks.number):
        if not reps.idle[first]:
            reps.end[r] = now
            end_step(reps, requests, each, outcome, speed, cache, r)
        begin_step(reps, requests, each, outcome, speed, cache, ranks, r, now)
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


@compiled
def end_step(
    reps: Replicas, requests: Requests, each: Each, outcome: Outcome, speed: Speed, cache: Cache | None, r: int
) -> None:
    """Every decoding request has a token more, and prompts that are done have their first."""
    now = reps.end[r]
    reps.step[r] += 1
    reps.context[r] += reps.decoding[r] * speed.gain
    reps.used[r] += reps.decoding[r] * speed.gain * speed.kv_token
    while reps.heap[r] > 0 and reps.heap_step[r, 0] <= reps.step[r]:
        i = reps.heap_request[r, 0]
        _pop(reps, r)
        reps.context[r] -= requests.prompt[i] + (each.generated[i] + reps.step[r] - each.since[i]) * speed.gain
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
        if each.computed[i] < requests.prompt[i] - each.found[i] + int(each.generated[i] * speed.gain):
            reps.prefilling[r, kept] = i
            kept += 1
            continue
        if cache is not None:
            reps.used[r] += register(cache, r, i, requests.prompt[i]) * (speed.block - cache.tokens * speed.kv_token)
        each.generated[i] += 1
        if outcome.first_s[i] < 0:
            outcome.first_s[i] = now + speed.host
        if each.generated[i] >= each.passes[i]:
            _leave(reps, speed, each, cache, r, i, requests.prompt[i] + requests.output[i])
            outcome.last_s[i] = now + speed.host
            outcome.state[i] = SERVED
        else:
            each.since[i] = reps.step[r]
            reps.decoding[r] += 1
            reps.context[r] += requests.prompt[i] + each.generated[i] * speed.gain
            _push(reps, r, reps.step[r] + each.passes[i] - each.generated[i], i)
    reps.prefills[r] = kept


@inlined
def decode_on(reps: Replicas, outcome: Outcome, speed: Speed, r: int, until: float) -> None:
    """Run the steps in which nothing happens but that each decoding request has a token more.

    Most steps are such. They are those of end_step and begin_step in the same arithmetic, in half the time.
    """
    decoding, step, end = reps.decoding[r], reps.step[r], reps.end[r]
    if decoding == 0 or reps.prefills[r] > 0 or reps.waiting[r] > 0:
        return
    before, context, used = reps.heap_step[r, 0], reps.context[r], reps.used[r]
    gained = decoding * speed.gain
    kv, row, last = gained * speed.kv_token, speed.decode[decoding], len(outcome.busy_s) - 1
    while end <= until and step + 1 < before and used + kv + kv <= speed.room:
        step += 1
        context += gained
        used += kv
        took = _between(row, _seen(speed, context / decoding) / speed.seen_step)
        outcome.busy_s[min(int(end / 3600), last)] += took
        outcome.tokens[1] += gained
        end += took
    reps.step[r], reps.end[r], reps.context[r], reps.used[r] = step, end, context, used


@compiled
def decode_ranks_on(reps: Replicas, outcome: Outcome, speed: Speed, ranks: RankTimes, first: int, until: float) -> None:
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
