"""Sessions as people write them in a demand file: requests that come back with all that was said before."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, model_validator

from planner.case.demand.spread_schema import Spread
from planner.io.errors import shown
from planner.io.units import Duration, Fraction, PositiveCount, PositiveWhole
from planner.io.validation import FieldProblem, Strict

MOST_KINDS, MOST_TURNS = 32, 5000.0
WITHOUT_KINDS = ("turns", "first_prompt", "appended", "answers", "waits")


class WaitPointSpec(Strict):
    below: Fraction
    """Share of the waits, by the tokens that wait."""
    wait: Duration


class WaitSpec(Strict):
    """Pauses of one kind, by two percentiles (a log-normal is fitted to them) or by as many as you have."""

    p50: Duration | None = None
    p95: Duration | None = None
    points: tuple[WaitPointSpec, ...] | None = Field(default=None, min_length=2, max_length=64)
    """Instead of the two: quantiles in rising order, as `fleetplan demand` measures them."""

    @model_validator(mode="after")
    def _rises(self) -> WaitSpec:
        if self.points is not None:
            if self.p50 is not None or self.p95 is not None:
                raise FieldProblem(("points",), "cannot be combined with 'p50' and 'p95'", "Keep one of the two")
            for k, (a, b) in enumerate(pairwise(self.points), start=1):
                if b.below <= a.below or b.wait < a.wait:
                    raise FieldProblem(("points", k), "is below the point before it", "Sort them by share and by wait")
            return self
        if self.p50 is None or self.p95 is None:
            raise FieldProblem((), "needs both 'p50' and 'p95', or 'points'", "Write {p50: 9s, p95: 2min}")
        if not 0 < self.p50 <= self.p95:
            raise FieldProblem(("p95",), "is below p50, or p50 is zero", "Write the longer wait at p95")
        return self


class WaitsSpec(Strict):
    """How long a session pauses between an answer and its next turn."""

    tools: WaitSpec | None = None
    """Before the results of tools: seconds, such as {p50: 9s, p95: 2min}."""
    people: WaitSpec | None = None
    """Before the words of a human: minutes, such as {p50: 2min, p95: 40min}."""
    people_share: Fraction | None = None
    """Share of the turns that follow a human's words."""
    alike: Fraction = 0.0
    """How much the waits of one session are alike: the correlation of two. By default each is drawn by itself."""

    @model_validator(mode="after")
    def _shares(self) -> WaitsSpec:
        if self.tools is None and self.people is None:
            raise FieldProblem((), "needs 'tools', 'people' or both", "Write tools: {p50: 9s, p95: 2min}")
        both = self.tools is not None and self.people is not None
        if both and (self.people_share is None or not 0 < self.people_share < 1):
            raise FieldProblem(("people_share",), "must be given with both kinds of waits", "Write people_share: 15%")
        if not both and self.people_share is not None:
            raise FieldProblem(("people_share",), "has no effect with one kind of waits", "Remove it")
        if self.alike >= 1:
            raise FieldProblem(("alike",), "would leave a session one wait", "Write a share below 100%")
        return self


class LongestSpec(Strict):
    """The longest context that a client lets a session grow to, and what it does then."""

    tokens: PositiveWhole
    """Of prompt and answer together."""
    then: Literal["compact", "end"] = "compact"
    """compact: it goes on from a summary, of which nothing is found; end: the session ends."""
    left: PositiveCount | None = None
    """Tokens of the prompt after it was compacted. By default as long as a first prompt."""

    @model_validator(mode="after")
    def _shorter(self) -> LongestSpec:
        if self.left is not None and self.left >= self.tokens:
            raise FieldProblem(("left",), "is no shorter than the longest context", "Write fewer tokens than that")
        return self


class WindowSpec(Strict):
    """Prompts that are longer lose their oldest turns, so that nothing behind their head is found."""

    tokens: PositiveWhole
    head: PositiveCount
    """Tokens at the start of the prompt that stay: system prompt and tools."""


class TurnsSpec(Spread):
    """Requests of a session."""

    @model_validator(mode="before")
    @classmethod
    def _at_least_one(cls, given: Any) -> Any:
        path, fewest = (("p50",), given.get("p50")) if isinstance(given, dict) else ((), given)
        if isinstance(fewest, int | float) and not isinstance(fewest, bool) and fewest < 1:
            message = f"is {fewest:g}, and a session has at least one turn"
            remedy = (
                "Write the requests of a session, such as turns: {p50: 40, p95: 160}; without sessions, leave it out"
            )
            raise FieldProblem(path, message, remedy)
        return given


class KindSpec(Strict):
    """Sessions that are alike."""

    share: Fraction | None = None
    """Share of the sessions, where there are several kinds."""
    turns: TurnsSpec | None = None
    """Requests of a session: {p50: 40, p95: 160}, with the mean if you know it."""
    first_prompt: Spread | None = None
    """Tokens of the first prompt: instructions, tools and the first question."""
    appended: Spread | None = None
    """New tokens in the prompt of each later turn: results of tools or words of people, without answers."""
    slows: Fraction = 0.0
    """How much less a turn of a longer session appends: with n turns, n to the power of minus this."""
    answers: Spread | None = None
    """Generated tokens of a turn, which are part of the next prompt."""
    waits: WaitsSpec | None = None
    """Pauses between an answer and the next turn, each with a unit."""
    rewritten: Fraction = 0.0
    """Share of the later turns whose history was rewritten, so that nothing of it is found."""
    longest: LongestSpec | None = None
    """The context at which sessions are compacted or end: {tokens: 131072, then: compact}."""

    def missing(self) -> list[str]:
        return [name for name in WITHOUT_KINDS if getattr(self, name) is None]

    @model_validator(mode="after")
    def _possible(self) -> KindSpec:
        if self.turns is not None:
            if self.turns.p50 < 1:
                raise FieldProblem(("turns", "p50"), "is below one turn", "Write the number of requests of a session")
            if self.turns.p95 > MOST_TURNS:
                raise FieldProblem(("turns", "p95"), f"is above {MOST_TURNS:,.0f} turns", "Check the number")
        if self.rewritten >= 1:
            raise FieldProblem(("rewritten",), "would leave no turn that finds anything", "Write a share below 100%")
        return self


class SessionsSpec(KindSpec):
    """Sessions: what requests, their lengths and their reuse of each other follow from."""

    kinds: tuple[KindSpec, ...] | None = Field(default=None, min_length=1, max_length=MOST_KINDS)
    """Instead of one: kinds of sessions, each with a `share`, as `fleetplan demand` writes them."""
    window: WindowSpec | None = None
    """A gateway that drops the oldest turns of longer prompts: {tokens: 131072, head: 16k}."""

    @model_validator(mode="after")
    def _complete(self) -> SessionsSpec:
        if self.kinds is None:
            if self.share is not None:
                raise FieldProblem(("share",), "has no effect without 'kinds'", "Remove it")
            missing = self.missing()
            if missing:
                raise FieldProblem((), f"needs '{missing[0]}'", f"Give {', '.join(missing)}")
            return self
        given = [name for name in (*WITHOUT_KINDS, "longest", "share") if getattr(self, name) is not None]
        given += [name for name in ("rewritten", "slows") if getattr(self, name)]
        if given:
            name = given[0]
            raise FieldProblem((name,), "cannot be combined with 'kinds'", "Write it for each kind")
        for k, kind in enumerate(self.kinds):
            missing = kind.missing() + (["share"] if not kind.share else [])
            if missing:
                raise FieldProblem(("kinds", k), f"needs '{missing[0]}'", f"Give {', '.join(missing)}")
        total = sum(kind.share or 0.0 for kind in self.kinds)
        if abs(total - 1) > 1e-4:
            raise FieldProblem(("kinds",), f"has shares that add up to {shown(f'{total:.4%}')}", "Make them 100%")
        return self
