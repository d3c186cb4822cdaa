"""Power of the GPUs of a replica, from what its steps are made of.

With the time that a request takes of a replica in the steady state (steady_state.py), the shares of it are

    busy        kernels read or compute: all but waiting for the network and for kernels to start
    arithmetic  the matrix products at the rate of the datasheet

    W of a GPU = most x TDP at the most, else TDP x (waiting + reading x busy + computing x arithmetic)

It is these shares that decide, not the requests in flight: where a host or the network keeps an engine waiting, power
falls again while the batch grows. The constants are in planner/data/power.yaml, fitted by benchmarks/power.py. Between
one request in flight and as many as planned, power is taken to rise in line with the requests that are answered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.performance.latency import waiting_s
from planner.performance.machine import Machine
from planner.performance.steady_state import steady_state

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class StepShares:
    """Of a replica's time."""

    busy: Array
    arithmetic: Array


def step_shares(
    machine: Machine,
    in_flight: Array | float,
    input_tokens: Array | float,
    output_tokens: Array | float,
    new_tokens: Array | float | None = None,
) -> StepShares:
    """What the time of a replica with so many requests in flight goes into."""
    prompt, output = np.asarray(input_tokens, dtype=float), np.maximum(np.asarray(output_tokens, dtype=float), 1.0)
    new = prompt if new_tokens is None else np.asarray(new_tokens, dtype=float)
    steady = steady_state(machine, in_flight, prompt, output, new)
    total = steady.prefill_s + steady.steps * steady.step_s
    own_steps = (output - 1) * np.asarray(steady.steps_a_token)
    decoding = np.where(steady.in_flight > 1, own_steps / np.maximum(steady.steps, 1e-12), 1.0)
    waits = steady.steps * waiting_s(machine, decoding * machine.verified_tokens)
    parameters = machine.parameters
    active = parameters.dense + parameters.head + parameters.routed * parameters.chosen_frac
    tflops = machine.gpu.dense_tflops
    peak = tflops.get(machine.quantization.compute, tflops["fp16"]) * 1e12 * machine.gpus
    arithmetic = 2 * active * (new + machine.verified_tokens * own_steps) / peak
    return StepShares(np.clip(1 - waits / total, 0.0, 1.0), np.minimum(arithmetic / total, 1.0))


@dataclass(frozen=True)
class PowerLaw:
    """Shares of the TDP of a GPU."""

    waiting: float
    reading: float
    computing: float
    most: float

    def frac(self, shares: StepShares) -> Array:
        """of its TDP"""
        drawn = self.waiting + self.reading * shares.busy + self.computing * shares.arithmetic
        return np.asarray(np.minimum(drawn, self.most))
