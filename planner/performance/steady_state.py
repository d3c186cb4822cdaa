"""A replica that always has so many requests in flight: how many steps a request takes of it, and how long they are.

With b requests in flight, prompts of p new tokens and answers of n tokens, the first of which a prefill gives, and at
most C tokens in a step,

    steps per request        1/x = max((m + max(1, p/C)) / b, (p + m v) / C)
    decodes in a step        d   = m x
    requests/s                   = 1 / (prefill + step(d) / x)
    mean TPOT                    = (step(d) + c x (1 - 1/b) x prefill) m / (n - 1)

An answer decodes in m = n - 1 steps of one token, v = 1; where drafts are verified in fewer, of v tokens each
(speculation.py). x prompts begin in a step. Where that is more than one, they are prefilled together, and prefill is
what each of them adds to a step of d decodes; c is the engine's share of prefills that decodes wait for. A lone request
takes a prefill and m steps, and answers of one token take prefills alone, of as many prompts as there are. The host's
time for a prompt keeps no others waiting where passes mix prompts and decodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from planner.performance.latency import decode_step_s, prefill_added_s, prefill_s
from planner.performance.machine import Machine

Array = np.ndarray


class Scaling(Protocol):
    """What measurements of a deployment make of the predicted times."""

    @property
    def prefill_ratio(self) -> float: ...

    @property
    def ttft_ratio(self) -> float: ...

    @property
    def ttft_added_s(self) -> float: ...

    def lone_ttft_s(self, prefill_s: np.ndarray) -> np.ndarray: ...

    def decode_ratio(self, batch: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class SteadyState:
    in_flight: Array
    output_tokens: Array
    steps: Array
    """that one request takes of the replica: its own over those that share them"""
    begun: Array
    """prompts of others that begin in a step, and delay it"""
    step_s: Array
    """of a step, without the prompts that it prefills"""
    prefill_s: Array
    """what one more prompt adds"""
    interruption_frac: float
    steps_a_token: Array | float = 1.0
    """of an answer after its first token: less than one where drafts are accepted"""
    steps_a_token_sd: Array | float = 0.0
    """from answer to answer"""

    @property
    def by_acceptance_s(self) -> Array:
        """Standard deviation of the mean time of a token from answer to answer, as drafts are accepted by chance."""
        sd: Array = self.step_s * self.steps_a_token_sd
        return sd

    @property
    def token_s(self) -> Array:
        """Mean time of a token beside no prompts."""
        token: Array = self.step_s * self.steps_a_token
        return token

    @property
    def requests_per_s(self) -> Array:
        rate: Array = 1 / (self.prefill_s + self.steps * self.step_s)
        return rate

    @property
    def interruptions(self) -> Array:
        """Prompts of others that begin during an answer."""
        others: Array = self.output_tokens * self.steps_a_token * self.begun
        return others

    @property
    def interruption_s(self) -> Array:
        """What each of them adds to the mean time of a token."""
        added: Array = self.interruption_frac * self.prefill_s / self.output_tokens
        return added

    @property
    def tpot_s(self) -> Array:
        """mean"""
        tpot: Array = self.token_s + self.interruptions * self.interruption_s
        return tpot

    def scaled(self, scaling: Scaling | None) -> SteadyState:
        """As measurements have it; the prefill of a lone request is what it waits for its first token."""
        if scaling is None:
            return self
        prefill = np.where(
            self.in_flight > 1, self.prefill_s * scaling.prefill_ratio, scaling.lone_ttft_s(self.prefill_s)
        )
        return replace(self, step_s=self.step_s * scaling.decode_ratio(self.in_flight), prefill_s=prefill)


def steady_state(
    machine: Machine,
    in_flight: Array | float,
    input_tokens: Array | float,
    output_tokens: Array | float,
    new_tokens: Array | float | None = None,
    met_output: float | None = None,
) -> SteadyState:
    """Of so many requests in flight, at least one; of their prompts so many tokens are new (if None, all).

    `met_output` is the mean answer of those in flight, among which long ones are found more often (if None, the same).
    """
    b, prompt = np.asarray(in_flight, dtype=float), np.asarray(input_tokens, dtype=float)
    output = np.maximum(np.asarray(output_tokens, dtype=float), 1.0)
    new = np.maximum(prompt if new_tokens is None else np.asarray(new_tokens, dtype=float), 1.0)
    budget = machine.step_tokens
    together = np.minimum(b, np.maximum(1.0, budget / new))
    own, in_all, a_token, sd = output - 1, new + output - 1, np.asarray(1.0), np.asarray(0.0)
    if machine.speculation is not None:
        own = machine.speculation.steps_of(output - 1)
        in_all, decoded = new + machine.verified_tokens * own, np.maximum(output - 1, 1.0)
        a_token, sd = (f(decoded) / decoded for f in (machine.speculation.steps_of, machine.speculation.steps_sd))
    steps = np.maximum((own + np.maximum(1.0, new / budget)) / b, in_all / budget)
    lone, undecoded = b <= 1, output <= 1
    decoding = np.where(lone, 1.0, own / steps)
    host = 0.0 if not machine.engine.mixes_prefill else machine.engine.prefill_overhead_ms / 1e3
    apart = (prefill_s(machine, new, prompt, together) - np.where(lone, 0.0, host)) / together
    added = prefill_added_s(machine, new, prompt, decoding, 1 / steps)
    return SteadyState(
        in_flight=b,
        output_tokens=output,
        steps=np.where(lone | undecoded, own, steps),
        begun=np.where(undecoded, 0.0, (1 - 1 / b) / steps),
        step_s=decode_step_s(machine, decoding, prompt + (output if met_output is None else met_output) / 2),
        prefill_s=np.where(lone | undecoded, apart, added),
        interruption_frac=machine.engine.interruption_frac,
        steps_a_token=a_token,
        steps_a_token_sd=sd,
    )
