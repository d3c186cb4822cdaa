"""Candidates: every deployment that could serve a workload, and a reason for each one that cannot.

A deployment is (model, quantization, offer, GPUs per replica). What it can do depends on the GPU, not on who
rents it out, so throughput is estimated once per GPU and shared by its offers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.case import Case, ModelChoice, Workload
from planner.catalog import Offer, shipped_catalog
from planner.performance.latency import Machine
from planner.performance.memory import kv_room_bytes, weight_bytes
from planner.performance.throughput import Throughput
from planner.replica import Replica, machine_for, replica_for
from problems.staffing import Staffing, staffing_z

REPLICA_SIZES = (1, 2, 4, 8)
LEAST_LOAD = 0.05
"""a replica that keeps TTFT only when less busy than this is of no use"""


@dataclass(frozen=True)
class Rejection:
    """Why something on the menu cannot serve a workload."""

    workload: str
    candidate: str
    reason: str
    limit: str
    value: str

    def __str__(self) -> str:
        return f"{self.candidate}: {self.reason} ({self.value} against {self.limit})"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A deployment that can serve a workload inside its SLO."""

    workload: Workload
    offer_key: str
    offer: Offer
    model_key: str
    quantization_key: str
    quality_loss_frac: float
    replica: Replica
    min_replicas: int

    @property
    def machine(self) -> Machine:
        return self.replica.machine

    @property
    def throughput(self) -> Throughput:
        return self.replica.throughput

    @property
    def key(self) -> str:
        return f"{self.model_key}/{self.quantization_key}/{self.machine.gpus}x/{self.offer_key}"

    @property
    def name(self) -> str:
        """Without the offer."""
        return f"{self.model_key} {self.quantization_key} on {self.machine.gpus} x {self.offer.gpu}"

    @property
    def seconds_per_request(self) -> np.ndarray:
        return 1 / self.throughput.requests_per_s

    @cached_property
    def load_shares(self) -> np.ndarray:
        """Share of a replica's time that each bucket takes, at the workload's mix."""
        load = np.array([b.share_frac for b in self.workload.buckets]) * self.seconds_per_request
        return load / load.sum()

    @property
    def staffing(self) -> Staffing:
        w = self.workload
        return Staffing(
            z=staffing_z(w.ttft.percentile),
            arrival_scv=w.arrival_scv,
            rate_cv=w.rate_cv,
            batch=float(self.load_shares @ self.throughput.in_flight),
            min_replicas=self.min_replicas,
            most_load=self.replica.most_load,
        )


@dataclass(frozen=True)
class Candidates:
    """What may and what may not serve each workload."""

    accepted: dict[str, tuple[Candidate, ...]]
    rejected: tuple[Rejection, ...]


def enumerate_candidates(case: Case) -> Candidates:
    """Every combination on the menu, judged; then what is left of each GPU, on every offer of it."""
    accepted: dict[str, tuple[Candidate, ...]] = {}
    rejected: list[Rejection] = []
    for workload in case.workloads:
        judges = [_Judge(case, workload, choice, q) for choice in workload.models for q in case.quantizations]
        found: list[Candidate] = []
        for gpu in case.gpus:
            offers = [(k, o) for k, o in case.offers.items() if o.gpu == gpu and sellable(case, o)]
            variants = [v for judge in judges for v in judge.variants(gpu, offers, rejected)]
            for v in _unbeaten(variants, rejected):
                fitting = ((k, o) for k, o in offers if o.gpus % v.machine.gpus == 0)
                found += [replace(v, offer_key=k, offer=o) for k, o in fitting]
        accepted[workload.name] = tuple(found)
    return Candidates(accepted, tuple(rejected))


def _unbeaten(variants: list[Candidate], rejected: list[Rejection]) -> list[Candidate]:
    """Variants of one GPU without those that another one beats: no more GPUs for any load, in any box.

    A replica that is no larger, no slower for any length and holds no fewer requests needs no more of everything.
    Of two equal ones the first stays.
    """
    kept: list[Candidate] = []
    for b in sorted(variants, key=lambda v: (v.machine.gpus, float(v.seconds_per_request.sum()))):
        better = next((a for a in kept if _no_worse(a, b)), None)
        if better is None:
            kept.append(b)
        else:
            reason = "needs no fewer GPUs for any load than another variant"
            rejected.append(Rejection(b.workload.name, b.name, reason, better.name, "beaten"))
    order = {id(v): k for k, v in enumerate(variants)}
    return sorted(kept, key=lambda v: order[id(v)])


def _no_worse(a: Candidate, b: Candidate) -> bool:
    return (
        a.machine.gpus <= b.machine.gpus
        and bool((a.seconds_per_request <= b.seconds_per_request * (1 + 1e-12)).all())
        and a.staffing.batch >= b.staffing.batch * (1 - 1e-12)
        and a.replica.most_load >= b.replica.most_load * (1 - 1e-12)
    )


class _Judge:
    """Judges the replica sizes and GPUs for one model variant of one workload."""

    def __init__(self, case: Case, workload: Workload, choice: ModelChoice, quantization: str) -> None:
        self.case, self.workload, self.choice, self.quantization = case, workload, choice, quantization
        self.model = case.models[choice.model]
        self.scheme = case.quantizations[quantization]
        loss = self.scheme.loss_for(self.model, quantization)
        native = self.model.native_quantization
        self.loss_frac = choice.quality_loss_frac + loss.loss_frac
        self.not_native = native not in ("fp16", quantization) and self.scheme.weight_bits > 0.9 * native_bits(
            case, native
        )

    def variants(self, gpu: str, offers: list[tuple[str, Offer]], rejected: list[Rejection]) -> list[Candidate]:
        """Each replica size that works, on the first offer it fits; for the others, the reason."""
        why = self._against_the_variant(gpu, f"{self.choice.model} {self.quantization} on {gpu}")
        if why is not None:
            rejected.append(why)
            return []
        found: list[Candidate] = []
        for n in REPLICA_SIZES:
            fitting = [(k, o) for k, o in offers if self._fits_box(n, o)]
            replica = self._replica(gpu, n, rejected) if fitting else None
            if replica is not None:
                found.append(self._candidate(*fitting[0], replica))
        return found

    def _fits_box(self, n: int, offer: Offer) -> bool:
        return n <= self.case.limits.max_gpus_per_replica and offer.gpus % n == 0

    def _reject(self, candidate: str, reason: str, limit: str, value: str) -> Rejection:
        return Rejection(self.workload.name, candidate, reason, limit, value)

    def _against_the_variant(self, gpu: str, name: str) -> Rejection | None:
        accepted = self.workload.max_quality_loss_frac
        if self.loss_frac > accepted + 1e-12:
            limit, value = f"{accepted:.1%}", f"{self.loss_frac:.1%} on {self.scheme.benchmark}"
            return self._reject(name, "quality loss", limit, value)
        if self.not_native:
            native = self.model.native_quantization
            return self._reject(name, f"published in {native}, which is no larger", native, self.quantization)
        needs = self.scheme.needs
        if needs != "none" and needs not in self.case.gpus[gpu].dense_tflops:
            return self._reject(name, f"the GPU has no native {needs}", needs, "none")
        longest = max(b.input_tokens + b.output_tokens for b in self.workload.buckets)
        if longest > self.model.max_context_tokens:
            return self._reject(name, "context too short", f"{self.model.max_context_tokens} tokens",
                                f"{longest:.0f} tokens")  # fmt: skip
        return None

    def _replica(self, gpu: str, n: int, reasons: list[Rejection]) -> Replica | None:
        name = f"{self.choice.model} {self.quantization} on {n} x {gpu}"
        machine = machine_for(self.case, self.choice.model, self.quantization, gpu, n)
        if self.model.query_heads % n:
            reasons.append(self._reject(name, "attention heads do not split", f"{self.model.query_heads}", str(n)))
            return None
        if kv_room_bytes(self.model, machine.gpu, n, self.scheme) <= 0:
            need = weight_bytes(self.model, self.scheme) / 1e9
            have = machine.gpu.vram_gb * n
            reasons.append(self._reject(name, "weights do not fit", f"{have:.0f} GB", f"{need:.0f} GB"))
            return None
        replica = replica_for(self.case, self.workload, self.choice.model, self.quantization, gpu, n)
        estimate = replica.throughput
        if not estimate.requests_per_s.all():
            worst = int(np.argmin(estimate.requests_per_s))
            reasons.append(self._too_slow(name, estimate, worst))
            return None
        if replica.most_load < LEAST_LOAD:
            limit = f"{self.workload.ttft.seconds * 1e3:.0f} ms"
            value = f"{replica.ttft_s(LEAST_LOAD) * 1e3:.0f} ms in a replica that is {LEAST_LOAD:.0%} busy"
            reasons.append(self._reject(name, "TTFT", limit, value))
            return None
        return replica

    def _too_slow(self, name: str, estimate: Throughput, bucket: int) -> Rejection:
        if estimate.bound_by[bucket] == "measured table":
            b = self.workload.buckets[bucket]
            value = f"{b.input_tokens:.0f} in, {b.output_tokens:.0f} out"
            return self._reject(name, "the measured table has no rate for such lengths", "the table", value)
        if estimate.bound_by[bucket] == "KV memory":
            tokens = self.workload.buckets[bucket].input_tokens + self.workload.buckets[bucket].output_tokens
            return self._reject(name, "no room for the KV cache", "one request", f"{tokens:.0f} tokens of context")
        if estimate.bound_by[bucket] == "E2E" and self.workload.e2e is not None:
            limit, value = f"{self.workload.e2e.seconds:g} s", f"{estimate.e2e_s[bucket]:.1f} s with one request"
            return self._reject(name, "E2E", limit, value)
        limit = f"{self.workload.tpot.seconds * 1e3:.0f} ms"
        return self._reject(name, "TPOT", limit, f"{estimate.tpot_s[bucket] * 1e3:.0f} ms with one request")

    def _candidate(self, key: str, offer: Offer, replica: Replica) -> Candidate:
        return Candidate(
            workload=self.workload, offer_key=key, offer=offer, model_key=self.choice.model,
            quantization_key=self.quantization, quality_loss_frac=self.loss_frac, replica=replica,
            min_replicas=self.case.limits.min_replicas,
        )  # fmt: skip


def native_bits(case: Case, quantization: str) -> float:
    """Bits of a model's own format, whether or not it is on the menu; 16 where nobody knows it."""
    known = case.quantizations.get(quantization) or shipped_catalog().quantizations.get(quantization)
    return known.weight_bits if known else 16.0


def sellable(case: Case, offer: Offer) -> bool:
    """Whether the menu's purchase options can rent this instance firmly or as spot."""
    prices = offer.prices
    return (
        ("on-demand" in case.purchase and prices.on_demand is not None)
        or ("spot" in case.purchase and prices.spot is not None)
        or any(term in case.purchase for term in prices.reserved())
    )
