"""The requests of a pool, one part of an hour after the other: drawn or from a log, and where each of them goes.

Every part of an hour is drawn by itself, from a seed of its own. So any of them can be had without the others, and work
that waits is drawn again in the hour that it is let in, instead of being remembered until then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.performance.sessions import Sessions, ages_of
from planner.plan.account.account import PlanAccount
from planner.plan.account.flows import Served
from planner.plan.plan import PoolPlan
from planner.verification.arrivals import HOURS, MINUTES, Stream, drawn_lengths, drawn_minutes
from planner.verification.block_cache import Blocks
from planner.verification.prefixes import PromptBlocks, block_tokens, longest_gap_s, tuned_scale
from planner.verification.request_logs import LoggedBlocks, RequestSource
from planner.verification.session_turns import AsPlanned, SessionTurns, longest_wait_s, tokens_of_blocks

ON_API, ON_GPUS, PLANNED_SHED, TURNED_AWAY = -1, 0, -2, -3
"""where a request goes: an API, deployment number 0 and up, or nowhere: shed, or longer than is let in"""
PART_REQUESTS, PART_BLOCKS = 400_000, 3e6
"""about as many as a part of an hour may have, and blocks of their prompts, which bounds memory"""
PARTS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)
"""that an hour may have, each of whole minutes"""
TRIED = 100_000
"""requests that are drawn to see how long they are"""


@dataclass(frozen=True, eq=False)
class Arrived:
    """Requests of a workload in the order in which they are let in, and where each goes."""

    served: Served
    stream: Stream
    place: np.ndarray
    let_in_s: np.ndarray
    """when they came, but for work that may wait"""
    row: np.ndarray
    """in the log, where they are from one"""
    blocks: Blocks | None = None
    """of their prompts, where caches decide what is found"""


class Traffic:
    """Requests of a pool."""

    def __init__(
        self,
        view: PlanAccount,
        pool: PoolPlan,
        week: np.ndarray,
        factors: np.ndarray,
        load: float,
        seed: tuple[int, int],
        log: RequestSource | None,
    ) -> None:
        self.view, self.pool, self.week, self.load, self.seed = view, pool, week, load, seed
        self.members = view.members(pool)
        self.log = log if log is not None and log.workload in pool.workloads else None
        self.logged_s = self.log.times_s(load) if self.log is not None else np.zeros(0)
        self.factors = [factors[view.served.index(s)] for s in self.members]
        self.ways = [ways_of(view, s) for s in self.members]
        self.rates = [load * view.arriving_rps(s.seen) for s in self.members]
        self.requests = sum((self._expected(k) for k in range(len(self.members))), np.zeros(HOURS))
        """let in, about [hour of the week]"""
        self.longest, self.block_tokens, self.scales = 1.0, 0, dict[int, float]()
        self._look_at_lengths()
        most = float(self.requests.max()) * max(1 / PART_REQUESTS, self._mean_blocks() / PART_BLOCKS)
        self.parts = next((n for n in PARTS if n >= most), PARTS[-1])
        """of every hour"""
        self.blocks: dict[int, PromptBlocks | LoggedBlocks | SessionTurns] = {}
        """of members for which caches decide what is found, as far as they have been asked for"""

    def begin(self) -> None:
        """Nothing has been asked for before."""
        for k in range(len(self.members)):
            sessions = self._drawn_sessions(k)
            if sessions is not None:
                self.blocks[k] = SessionTurns(sessions, self.block_tokens, self._as_planned(k, sessions))
            elif k in self.scales:
                self.blocks[k] = PromptBlocks(self.members[k].seen, self.block_tokens, self.scales[k])
            elif self.caches_blocks_of(k):
                self.blocks[k] = LoggedBlocks(self.block_tokens)

    def end(self) -> None:
        """Remember nothing."""
        self.blocks.clear()

    @property
    def remembered_min(self) -> float:
        """Minutes after which prompts come back at most."""
        waits = [longest_wait_s(x) for k in range(len(self.members)) if (x := self._drawn_sessions(k)) is not None]
        return max([*(longest_gap_s(self.members[k].seen) for k in self.scales), *waits], default=0.0) / 60

    def _drawn_sessions(self, k: int) -> Sessions | None:
        """The sessions of a member whose turns are drawn."""
        return None if self._is_logged(k) else self.members[k].seen.sessions

    def _as_planned(self, k: int, sessions: Sessions) -> AsPlanned:
        """How long an answer takes about, and what its session finds."""
        deployments = self.view.plan.pool_of(self.members[k].w.name).deployments
        if not deployments or (cache := deployments[0].deployment.prefix_cache) is None:
            return AsPlanned(0.0, 0.0, 0.0, 0.0)
        d, ages = deployments[0].deployment, ages_of(sessions, 1)
        kept_s = max([cache.residence_s, *(tier.residence_s for tier in cache.tiers or ())])
        possible = max(1e-12, ages.found_frac(kept_s) - ages.always)
        found = min(1.0, max(0.0, (cache.found_fracs[0] - ages.always) / possible))
        return AsPlanned((d.ttft_ms or 0.0) / 2e3, d.tpot_ms / 1e3, kept_s, found)

    def caches_blocks_of(self, k: int) -> bool:
        """Whether caches decide what prompts of a member find."""
        logged = self.log is not None and self._is_logged(k) and self.log.has_blocks_for(self.members[k].seen)
        return logged or k in self.scales or self._drawn_sessions(k) is not None

    @property
    def caches_blocks(self) -> bool:
        return any(self.caches_blocks_of(k) for k in range(len(self.members)))

    def part(self, number: int) -> list[Arrived]:
        """Requests of all members that are let in in a part of an hour, which counts from Monday on."""
        hour, part = divmod(number, self.parts)
        arrived = []
        for k in range(len(self.members)):
            one = self._let_in(k, hour, part)
            arrived.append(self._with_blocks(k, one, self._rng(k, hour, part, 1)))
        return arrived

    def _is_logged(self, k: int) -> bool:
        return self.log is not None and self.log.workload == self.members[k].w.name

    def _rng(self, *of: int) -> np.random.Generator:
        return np.random.default_rng([*self.seed, *of])

    def _expected(self, k: int) -> np.ndarray:
        if self._is_logged(k):
            return np.bincount((self.logged_s / 3600).astype(int), minlength=HOURS).astype(float)
        return self._drawn(k)

    @property
    def planned(self) -> np.ndarray:
        """Requests that the plan counts on [hour of the week]."""
        return sum((self._drawn(k) for k in range(len(self.members))), np.zeros(HOURS)) / self.load

    @property
    def covered(self) -> np.ndarray:
        """Whether there is anything to serve [hour of the week]: a log alone may be shorter than the week."""
        if not all(self._is_logged(k) for k in range(len(self.members))):
            return np.ones(HOURS, dtype=bool)
        hours = np.flatnonzero(self.requests)
        covered = np.zeros(HOURS, dtype=bool)
        covered[hours.min(initial=HOURS) : hours.max(initial=-1) + 1] = True
        return covered

    def _drawn(self, k: int) -> np.ndarray:
        by_slot = self.rates[k].copy()
        kept = np.array([sum(rates) for rates in self.members[k].kept])
        for move in self.members[k].decided.moves:
            moved = self.rates[k][move.from_slot] * move.requests_per_s / max(kept[move.from_slot], 1e-12)
            by_slot[move.from_slot] -= moved
            by_slot[move.to_slot] += moved
        hourly: np.ndarray = 3600.0 * np.maximum(by_slot, 0.0)[self.week]
        return hourly

    def _look_at_lengths(self) -> None:
        """How long requests are, of which blocks prompts consist, and how they are drawn."""
        logged = self.log.log.blocks is not None if self.log is not None else False
        reusing = [s.seen for s in self.members if s.seen.prefix_reuse is not None]
        peak_rps = max((float(r.max()) for r in self.rates), default=0.0)
        if self.log is not None and logged:
            self.block_tokens = self.log.block_tokens or 0
        elif any(s.seen.sessions is not None for s in self.members):
            self.block_tokens = max(tokens_of_blocks(s.seen.sessions) for s in self.members if s.seen.sessions)
        elif reusing:
            self.block_tokens = block_tokens(reusing, peak_rps)
        for k, s in enumerate(self.members):
            rng = self._rng(k)
            if self._is_logged(k) and self.log is not None:
                count = len(self.logged_s)
                prompt, output = self.log.log.prompt[:count], self.log.log.output[:count]
            else:
                prompt, output, _ = drawn_lengths(s.seen, TRIED, rng)
            self.longest = max(self.longest, float((prompt + output).max(initial=1.0)))
            drawn = s.seen.prefix_reuse is not None and not (self._is_logged(k) and logged)
            if drawn:
                rps = float(self.rates[k][self.week].mean())
                self.scales[k] = tuned_scale(s.seen, self.block_tokens, prompt.astype(float), rps, rng)

    def _mean_blocks(self) -> float:
        """Blocks of a request, about."""
        if not self.block_tokens:
            return 0.0
        return max(sum(b.share_frac * b.input_tokens for b in s.seen.buckets) for s in self.members) / self.block_tokens

    def _let_in(self, k: int, hour: int, part: int) -> Arrived:
        own = self._arrived(k, hour, part)
        if not self.members[k].decided.moves:
            return own
        begin, end = (3600.0 * (hour + (part + more) / self.parts) for more in (0, 1))
        several = [own, *(self._arrived(k, hour - h, part) for h in self._later_h(k, hour))]
        inside = [np.flatnonzero((a.let_in_s >= begin) & (a.let_in_s < end)) for a in several]
        let_in = np.concatenate([a.let_in_s[i] for a, i in zip(several, inside, strict=True)])
        order = np.argsort(let_in, kind="stable")
        streams = [a.stream.at(i) for a, i in zip(several, inside, strict=True)]
        columns = (np.concatenate(c)[order] for c in zip(*(vars(s).values() for s in streams), strict=True))
        place, row = (
            np.concatenate([getattr(a, name)[i] for a, i in zip(several, inside, strict=True)])[order]
            for name in ("place", "row")
        )
        return Arrived(own.served, Stream(*columns), place, let_in[order], row)

    def _later_h(self, k: int, hour: int) -> list[int]:
        """By how many hours later than it came the work is let in that the plan moves to this hour."""
        slots, moves = self.view.slots, self.members[k].decided.moves
        later = ((m.from_slot, (slots[m.to_slot].hour - slots[m.from_slot].hour) % 24) for m in moves)
        return sorted({h for from_slot, h in later if h and self.week[(hour - h) % HOURS] == from_slot})

    def _arrived(self, k: int, hour: int, part: int) -> Arrived:
        """Requests that came in a part of an hour, whenever they are let in."""
        s, rng = self.members[k], self._rng(k, hour % HOURS, part)
        minutes = 60 // self.parts
        first = 60 * hour + minutes * part
        if self.log is not None and self._is_logged(k):
            ends = np.searchsorted(self.logged_s, [60.0 * first, 60.0 * (first + minutes)])
            stream = self.log.stream(s.seen, self.logged_s, slice(*ends.tolist()), rng)
            row = np.arange(*ends.tolist())
        else:
            rate = self.rates[k][self.week[hour % HOURS]]
            swing = self.factors[k][first % MINUTES : first % MINUTES + minutes]
            stream = drawn_minutes(s.seen, rate * swing, first, rng)
            row = np.zeros(len(stream), dtype=np.int8)
        slot = np.full(len(stream), self.week[hour % HOURS])
        place = placed(s, self.ways[k], stream, slot, rng)
        return Arrived(s, stream, place, released(self.view, s, stream, slot, rng, 60.0 * minutes), row)

    def _with_blocks(self, k: int, one: Arrived, rng: np.random.Generator) -> Arrived:
        blocks = self.blocks.get(k)
        if blocks is None:
            return one
        if isinstance(blocks, PromptBlocks):
            return replace(one, blocks=blocks.draw(one.let_in_s, one.stream.prompt, rng))
        if isinstance(blocks, SessionTurns):
            drawn = blocks.draw(one.let_in_s, rng)
            stream = replace(one.stream, prompt=drawn.prompt, output=drawn.output, found=-drawn.there)
            return replace(one, stream=stream, blocks=drawn.blocks)
        assert self.log is not None and self.log.log.blocks is not None
        return replace(one, blocks=blocks.numbered(self.log.log.blocks[one.row], one.stream.prompt))


def ways_of(view: PlanAccount, s: Served) -> dict[int, np.ndarray]:
    """Shares of a workload's requests that the plan sends one way or another [slot, bucket]; the rest has no entry."""
    demand = np.array(s.demand)
    ways = {ON_API: s.decided.api_flows, PLANNED_SHED: s.decided.shed_flows}
    ways |= {k + 1: flows for k, flows in enumerate(s.decided.deployment_flows)}
    if not view.plan.pool_of(s.w.name).deployments:
        return {ON_API: np.ones_like(demand)}
    return {
        where: np.divide(np.array(view.flow(s.w, flows)), demand, out=np.zeros_like(demand), where=demand > 0)
        for where, flows in ways.items()
    }


def placed(
    s: Served, ways: dict[int, np.ndarray], stream: Stream, slot: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """By length and hour, in the proportions of the plan; what is longer than is let in goes nowhere."""
    draw, place = rng.random(len(stream)), np.full(len(stream), ON_GPUS, dtype=np.int32)
    below = np.zeros(len(stream))
    for where, share in ways.items():
        each = share[slot, stream.bucket]
        place[(draw >= below) & (draw < below + each)] = where
        below = below + each
    if s.w.length_limit is not None:
        place[stream.prompt + stream.output > s.w.length_limit.tokens] = TURNED_AWAY
    return place


def released(
    view: PlanAccount,
    s: Served,
    stream: Stream,
    slot: np.ndarray,
    rng: np.random.Generator,
    part_s: float = 3600.0,
) -> np.ndarray:
    """Work that waits is let in in the hour that the plan moves it to, some time in the same part of that hour."""
    if not s.decided.moves:
        return stream.arrival_s
    rate = np.array([sum(rates) for rates in s.kept])
    hour = np.array([t.hour for t in view.slots])
    draw, below, release = rng.random(len(stream)), np.zeros(len(stream)), stream.arrival_s.copy()
    within = rng.random(len(stream))
    for move in s.decided.moves:
        here = slot == move.from_slot
        if not here.any():
            continue
        each = np.where(here, move.requests_per_s / max(rate[move.from_slot], 1e-12), 0.0)
        moved = here & (draw >= below) & (draw < below + each)
        later = (hour[move.to_slot] - hour[move.from_slot]) % 24
        start = part_s * np.floor(stream.arrival_s / part_s) + 3600.0 * later
        release[moved] = np.maximum(start + part_s * within, stream.arrival_s)[moved]
        below = below + each
    return release
