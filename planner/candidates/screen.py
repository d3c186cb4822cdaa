"""The judge: which deployments keep the objectives of which groups, and a reason for each one that does not.

What a deployment can do depends on the GPU, not on who rents it out, so throughput is estimated once per GPU and shared
by its offers; and for all groups at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.dominance import dominated_variants
from planner.candidates.draft_lengths import best_lengths
from planner.candidates.pools import PoolSpec
from planner.candidates.rejection import Rejection, RejectionKind
from planner.candidates.replica import CONTEXT, LEAST_LOAD, MANY, TABLE, Replica, machine_for
from planner.candidates.shortlist import shortlist
from planner.candidates.staffing import staffing_in_a_mix
from planner.candidates.step_budget import replicas_for
from planner.case.boxes import BOX_SIZES, most_boxes, offers_for
from planner.case.case import KV_TIERS, Case
from planner.case.drafts import NO_DRAFTS, against_drafts, methods_of
from planner.case.kv_tiers import tiers_of
from planner.case.length_buckets import too_long_share
from planner.case.menu import allowed_offers
from planner.case.quality import quality_of
from planner.case.start_up import start_s
from planner.case.support import support_of
from planner.catalog.entries import Offer, shipped_catalog
from planner.catalog.variant import TENSOR, Parallelism, Variant
from planner.io.formatting import percent
from planner.performance.kv_tiers import KvTier
from planner.performance.machine import Machine
from planner.performance.memory import does_not_split, kv_room_bytes, weight_bytes
from planner.performance.throughput import KV_MEMORY
from problems.staffing import Staffing

REPLICA_SIZES = (1, 2, 4, 8)
TOO_LARGE, E2E_PER_TOKEN = "weights do not fit", "E2E per token"
FAST_LINKS = "interconnect of the offer: efa, infiniband, nvlink or roce"


Excluded = frozenset[tuple[str, str]]
"""workloads, each with the name of a candidate that may not serve it; what it would beat may then"""


Reason = tuple[str, str, str]
"""why not, the limit, and the value that breaks it"""


@dataclass(frozen=True, eq=False)
class Screening:
    """What was found about one group."""

    accepted: list[Candidate] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)

    def against_sharing(self, group: PoolSpec) -> list[Rejection]:
        """Pick one of the reasons why nothing serves the pool."""
        noisy = [r for r in self.rejected if r.kind is RejectionKind.TOO_MUCH_OF_A_POOL]
        reasons = noisy or self.rejected
        together = (replace(r, reason=f"not served together: {r.reason}", variant=None) for r in reasons[:1])
        return [replace(r, candidate=group.key) for r in together]


class Screen:
    """Judges every model variant on every GPU and replica size, for all groups that may use it at once."""

    def __init__(
        self, case: Case, groups: list[PoolSpec], without: Excluded, on_step: Callable[[], None], look_at: int | None
    ) -> None:
        self.case, self.groups, self.without, self.on_step = case, groups, without, on_step
        self.offers = {group.key: allowed_offers(case, group.members) for group in groups}
        self.found = {group.key: Screening() for group in groups}
        self.able: dict[str, list[Candidate]] = {group.key: [] for group in groups}
        self.sizes = [n for n in REPLICA_SIZES if n <= case.limits.max_gpus_per_replica]
        self.looked_at: dict[str, frozenset[Variant]] | None = None
        """in a box, by group; all of them where it is None"""
        if look_at is not None:
            self.looked_at = {group.key: self._shortlist(group, look_at) for group in groups}

    def _shortlist(self, group: PoolSpec, most: int) -> frozenset[Variant]:
        """The best of what could serve a group at all."""
        offers = self.offers[group.key].values()
        kinds = product(group.models, self.case.quantizations, dict.fromkeys(o.gpu for o in offers))
        possible = (kind for kind in kinds if self._variant_is_possible(group, *kind))
        sizes = (Variant(*kind, n) for kind in possible for n in self.sizes)
        machines = ((variant, machine_for(self.case, variant)) for variant in sizes)
        fitting = [(variant, machine) for variant, machine in machines if _against_the_size(machine) is None]
        return shortlist(self.case, group, offers, fitting, most)

    def _looks_at(self, group: PoolSpec, variant: Variant) -> bool:
        if self.looked_at is None or variant.boxes > 1:
            return True
        return replace(variant, parallelism=TENSOR, speculation="") in self.looked_at[group.key]

    def verdicts(self) -> dict[str, Screening]:
        for group in self.groups:
            if not self.offers[group.key]:
                reason = "no offer where its data may go"
                self._reject(group, "any GPU", reason, _places(group), "none")
        for gpu in self.case.gpus:
            for tiers in self._boxes_with(gpu):
                self._judge_gpu(gpu, tiers)
        for group in self.groups:
            self._accept(group)
        return self.found

    def _boxes_with(self, gpu: str) -> list[tuple[KvTier, ...]]:
        """Tiers of KV cache that boxes with this GPU have for the groups that may use them; of most groups, none."""
        pairs = ((group, o) for group in self.groups for o in self.offers[group.key].values() if o.gpu == gpu)
        return list(dict.fromkeys(tiers_for(self.case, group, o) for group, o in pairs)) or [()]

    def _judge_gpu(self, gpu: str, tiers: tuple[KvTier, ...]) -> None:
        """What serves a group on this GPU in boxes with these tiers, by the order of its models."""
        here = {
            group.key: {
                k: o
                for k, o in self.offers[group.key].items()
                if o.gpu == gpu and tiers_for(self.case, group, o) == tiers
            }
            for group in self.groups
        }
        variants: dict[str, list[Candidate]] = {group.key: [] for group in self.groups}
        for model, quantization in product(self.case.models, self.case.quantizations):
            self.on_step()
            able = [g for g in self.groups if model in g.models and here[g.key]]
            able = [g for g in able if self._variant_is_possible(g, model, quantization, gpu)]
            for variant in self._sizes_of(model, quantization, gpu):
                fitting = [g for g in able if self._looks_at(g, variant) and offers_for(here[g.key], variant)]
                for drafting, some in self._drafting(fitting, variant):
                    for candidate in self._judge_size(some, drafting, here, tiers):
                        variants[candidate.pool.key].append(candidate)
            for variant, some in self._over_boxes(model, quantization, gpu, able, here):
                for candidate in self._judge_size(some, variant, here, tiers):
                    variants[candidate.pool.key].append(candidate)
        for group in self.groups:
            self.able[group.key] += sorted(variants[group.key], key=lambda c: group.models.index(c.model_key))

    def _sizes_of(self, model: str, quantization: str, gpu: str) -> list[Variant]:
        """A model on every number of GPUs, in every way in which these may share it."""
        ways = ((n, way) for n in self.sizes for way in ways_to_share(self.case, model, n))
        return [Variant(model, quantization, gpu, n, way) for n, way in ways]

    def _over_boxes(
        self, model: str, quantization: str, gpu: str, groups: list[PoolSpec], here: dict[str, dict[str, Offer]]
    ) -> Iterator[tuple[Variant, list[PoolSpec]]]:
        """A model over several boxes whose single ones do not hold its weights, for the groups that may rent such."""
        most, allowed = most_boxes(self.case, model), self.case.limits.speculation
        if most == 1 or (allowed is not None and NO_DRAFTS not in allowed):
            return
        boxes = {
            o.gpus for g in groups for o in here[g.key].values() if o.gpus <= self.case.limits.max_gpus_per_replica
        }
        for each in sorted(boxes.intersection(BOX_SIZES)):
            sizes = [Variant(model, quantization, gpu, n * each, boxes=n) for n in range(1, most + 1)]
            why = [_against_the_size(machine_for(self.case, v)) for v in sizes]
            if why[0] is None or why[0][0] != TOO_LARGE:
                continue
            holding = [v for v, problem in zip(sizes, why, strict=True) if problem is None]
            for variant in holding or sizes[-1:]:
                here_too = [g for g in groups if any(o.gpus == each for o in here[g.key].values())]
                fitting = [g for g in here_too if offers_for(here[g.key], variant)]
                for group in here_too:
                    if group not in fitting and variant is (holding or sizes[-1:])[0]:
                        self._reject(group, variant, *_against_joining(here[group.key], variant))
                ways = ways_to_share(self.case, model, each)
                for way in ways if fitting else ():
                    if way != "data":
                        yield replace(variant, parallelism=way), fitting

    def _drafting(self, groups: list[PoolSpec], variant: Variant) -> Iterator[tuple[Variant, list[PoolSpec]]]:
        """The variant without drafts, and with the draft lengths that are worth trying, each for some groups."""
        allowed = self.case.limits.speculation
        if allowed is None or NO_DRAFTS in allowed:
            yield variant, groups
        if _against_the_size(machine_for(self.case, variant)) is not None:
            return  # without drafts it says why
        by_length: dict[str, list[PoolSpec]] = {}
        for method, group in product(methods_of(self.case), groups):
            drafting = replace(variant, speculation=f"{method}:0")
            why = next(against_drafts(self.case, variant, method, group.members), None)
            if why is not None:
                self._reject(group, replace(drafting, gpus_per_replica=0), why[0], why[1], method)
                continue
            lengths = best_lengths(self.case, group, variant, method)
            if lengths == []:
                reason, kind = "carries no more with any number of drafts", RejectionKind.DOMINATED
                self._reject(group, drafting, reason, str(variant), "dominated", kind=kind)
            for tokens in lengths or ():
                by_length.setdefault(f"{method}:{tokens}", []).append(group)
        for speculation in sorted(by_length):
            yield replace(variant, speculation=speculation), by_length[speculation]

    def _judge_size(
        self,
        groups: list[PoolSpec],
        variant: Variant,
        here: dict[str, dict[str, Offer]],
        tiers: tuple[KvTier, ...],
    ) -> Iterator[Candidate]:
        """Candidates on the first offer that they fit; for the others, the reason."""
        machine = machine_for(self.case, variant)
        why = _against_the_size(machine)
        if why is not None:
            for group in groups:
                self._reject(group, variant, *why)
            return
        if variant.boxes > 1:
            groups = [group for group in groups if not self._adapters_span_boxes(group, variant)]
        if variant.parallelism != TENSOR:
            runs = (group for group in groups if self._engine_runs(group, variant))
            groups = [group for group in runs if not self._needs_slices(group, variant)]
        in_time = start_s(self.case, variant.model, variant.quantization) <= self.case.start.spot_within_s
        traffics = [group.traffic for group in groups]
        for group, replica in zip(groups, replicas_for(self.case, traffics, variant, tiers), strict=True):
            factors = self.case.load_factors_of(group.workloads, variant.key_on(variant.gpu))
            if group.deadline_h is not None:
                factors = (min(factors),) * len(factors)
            in_a_mix = self._staffing_in_a_mix(group, replica, min(factors))
            if not self._serves(group, replica, variant) and (replica.serves_all or in_a_mix is None):
                continue
            key, offer = next(iter(offers_for(here[group.key], variant).items()))
            yield Candidate(
                pool=group, offer_key=key, offer=offer, model_key=variant.model, quantization_key=variant.quantization,
                parallelism=variant.parallelism, speculation=variant.speculation, replica=replica,
                quality_loss_frac=max(self._losses(group, variant.model, variant.quantization)), boxes=variant.boxes,
                staffing_in_a_mix=in_a_mix, load_factors=factors, spot_allowed=in_time,
            )  # fmt: skip

    def _adapters_span_boxes(self, group: PoolSpec, variant: Variant) -> bool:
        if group.traffic.lora is None:
            return False
        self._reject(group, variant, "adapters over several boxes are not known to work", "1 box", f"{variant.boxes}")
        return True

    def _needs_slices(self, group: PoolSpec, variant: Variant) -> bool:
        """Whether the group cannot be served by whole experts on each GPU, or by copies of attention; if so, why."""
        if group.traffic.lora is not None:
            reason = "adapters need slices of all layers"
        elif variant.parallelism == "data" and any(w.reuses for w in group.seen):
            reason = "reuse of prompts is not known by rank"
        else:
            return False
        self._reject(group, variant, reason, TENSOR, variant.parallelism)
        return True

    def _staffing_in_a_mix(self, group: PoolSpec, replica: Replica, load_factor: float) -> Staffing | None:
        if not group.may_mix(self.case) or not replica.serves.any() or not replica.keeps_ttft(in_a_mix=True):
            return None
        return staffing_in_a_mix(self.case, replica, load_factor)

    def _reject(
        self,
        group: PoolSpec,
        candidate: Variant | str,
        reason: str,
        limit: str,
        value: str,
        member: int = 0,
        kind: RejectionKind = RejectionKind.UNABLE,
    ) -> None:
        workload, variant = group.members[member].name, candidate if isinstance(candidate, Variant) else None
        rejection = Rejection(workload, str(candidate), reason, limit, value, kind, variant)
        self.found[group.key].rejected.append(rejection)

    def _losses(self, group: PoolSpec, model: str, quantization: str) -> list[float]:
        """Quality loss of each member: that of the model it lists plus that of the quantization."""
        return [
            quality_of(self.case, w, model, quantization).loss_frac
            + min(c.quality_loss_frac for c in w.models if c.model == model)
            for w in group.members
        ]

    def _variant_is_possible(self, group: PoolSpec, model: str, quantization: str, gpu: str) -> bool:
        variant, scheme = Variant(model, quantization, gpu), self.case.quantizations[quantization]
        for k, loss in enumerate(self._losses(group, model, quantization)):
            w = group.members[k]
            accepted, basis = w.max_quality_loss_frac, quality_of(self.case, w, model, quantization)
            if loss > accepted + 1e-12:
                value = f"{loss:.1%} on {basis.benchmark or basis.asked}"
                if scheme.kv_loss is not None and basis.cache_assumed:
                    value += f", {scheme.kv_loss.loss_frac:.1%} of it assumed for the KV cache"
                self._reject(group, variant, "quality loss", f"{accepted:.1%}", value, k)
                return False
            if w.unmeasured_forbidden and not basis.as_asked:
                self._reject(
                    group, variant, "quality was not measured", f"{basis.asked}, same model family", basis.remark, k
                )
                return False
        native, stored = self.case.models[model].native_quantization, scheme.weights or quantization
        if native not in ("fp16", stored) and scheme.weight_bits > 0.9 * native_bits(self.case, native):
            self._reject(group, variant, f"published in {native}, which is no larger", native, quantization)
            return False
        lacked = scheme.lacked_by(self.case.gpus[gpu])
        if lacked:
            self._reject(group, variant, f"the GPU has no native {lacked}", lacked, "none")
            return False
        return self._engine_runs(group, variant)

    def _engine_runs(self, group: PoolSpec, variant: Variant) -> bool:
        why = self._against_the_engine(group, variant)
        if why is not None:
            self._reject(group, variant, *why)
        return why is None

    def _against_the_engine(self, group: PoolSpec, variant: Variant) -> Reason | None:
        support = support_of(self.case, variant)
        if support.verdict == "fails":
            return support.reason, self.case.engine_name, "known not to work"
        forbidden = self.case.limits.unproven_forbidden
        if support.verdict == "unproven" and forbidden:
            return f"unproven: {support.reason}", "unproven: forbidden", self.case.engine_name
        losses = (quality_of(self.case, w, variant.model, variant.quantization) for w in group.members)
        if support.verdict == "unproven" and forbidden is None and any(loss.borrowed for loss in losses):
            why = f"unproven, and its loss of quality is borrowed: {support.reason}"
            return why, "unproven: allowed", self.case.engine_name
        return None

    def _serves(self, group: PoolSpec, replica: Replica, variant: Variant) -> bool:
        """Whether it serves the whole group; else why not."""
        traffic = group.traffic
        if not replica.serves_all:
            self._reject(group, variant, *_too_slow(replica, int(np.argmin(replica.throughput.requests_per_s))))
            return False
        if group.deadline_h is None and not replica.keeps_ttft():
            ttft_s, per_token_s = replica.ttft_s(LEAST_LOAD), replica.e2e_per_token_s(LEAST_LOAD)
            whole = traffic.e2e_per_token
            if whole is not None and per_token_s is not None and per_token_s > whole.seconds:
                value = f"{per_token_s * 1e3:.1f} ms in a replica that is {LEAST_LOAD:.0%} busy"
                self._reject(group, variant, E2E_PER_TOKEN, f"{whole.seconds * 1e3:g} ms", value)
                return False
            value = f"{ttft_s * 1e3:.0f} ms in a replica that is {LEAST_LOAD:.0%} busy"
            if ttft_s <= traffic.ttft.seconds:
                value = (
                    f"bursts (c2 {traffic.arrival_scv:g}) break it in {MANY} replicas that are {LEAST_LOAD:.0%} busy"
                )
            self._reject(group, variant, "TTFT", f"{traffic.ttft.seconds * 1e3:.0f} ms", value)
            return False
        if group.shared:
            shares = np.bincount(traffic.member_of, replica.load_shares)
            largest, most = int(np.argmax(shares)), self.case.tenancy.max_share_frac
            if shares[largest] > most + 1e-9:
                figures, kind = (f"{most:.0%}", f"{shares[largest]:.0%}"), RejectionKind.TOO_MUCH_OF_A_POOL
                self._reject(group, variant, "one workload would be too much of the load", *figures, largest, kind)
                return False
        return True

    def _accept(self, group: PoolSpec) -> None:
        """Keep the non-dominated candidates and place each on every offer whose box it divides."""
        allowed, offers = [c for c in self.able[group.key] if not self._excluded(group, c)], self.offers[group.key]
        able = [part for c in allowed for part in self._in_time(group, c, allowed)]
        dominated = dominated_variants(self.case, able, offers.values())
        for k, v in enumerate(able):
            if k in dominated.by:
                reason, kind = "needs no fewer GPUs for any load than another variant", RejectionKind.DOMINATED
                self._reject(group, v.on_gpus, reason, dominated.by[k].name, "dominated", kind=kind)
                continue
            alone = v.replica.serves_all and k not in dominated.alone
            fitting = (
                (key, o)
                for key, o in offers_for(offers, v.on_gpus).items()
                if tiers_for(self.case, group, o) == v.replica.tiers
            )
            better = dominated.replaced_by.get(k, frozenset())
            placed = (replace(v, offer_key=key, offer=o, alone=alone, replaced_by=better) for key, o in fitting)
            self.found[group.key].accepted.extend(placed)

    def _in_time(self, group: PoolSpec, c: Candidate, all_of_them: list[Candidate]) -> Iterator[Candidate]:
        """A candidate, which in a mix leaves lengths that it would answer late to those that would not.

        The objective is for all requests where one deployment has them; a part that is routed apart keeps it by itself,
        unless nothing can.
        """
        held = np.any([other.replica.in_time for other in all_of_them], axis=0)
        late = c.replica.serves & ~c.replica.in_time & held
        if c.staffing_in_a_mix is None or not late.any():
            yield c
            return
        if c.replica.serves_all:
            yield replace(c, staffing_in_a_mix=None)
        some = c.replica.for_lengths(~late)
        in_a_mix = self._staffing_in_a_mix(group, some, min(c.load_factors))
        if in_a_mix is not None:
            yield replace(c, replica=some, staffing_in_a_mix=in_a_mix, some_lengths=True)

    def _excluded(self, group: PoolSpec, candidate: Candidate) -> bool:
        return any((name, candidate.name) in self.without for name in group.workloads)


def tiers_for(case: Case, group: PoolSpec, offer: Offer) -> tuple[KvTier, ...]:
    """Tiers of a box that any of a group may use."""
    options = dict.fromkeys(group.caching)
    found = {tier.name: tier for option in options for tier in tiers_of(case, offer, option)}
    return tuple(found[name] for name in KV_TIERS if name in found)


def ways_to_share(case: Case, model: str, gpus: int) -> tuple[Parallelism, ...]:
    """How so many GPUs may share a model: in slices, unless it has experts."""
    return case.limits.parallelism or (TENSOR,) if case.models[model].moe and gpus > 1 else (TENSOR,)


def native_bits(case: Case, quantization: str) -> float:
    """Bits of a model's own format, whether or not it is on the menu; 16 where nobody knows it."""
    known = case.quantizations.get(quantization) or shipped_catalog().quantizations.get(quantization)
    return known.weight_bits if known else 16.0


def _places(group: PoolSpec) -> str:
    w = group.members[0]
    return ", ".join([*(w.regions or ()), *(w.providers or ())]) or "the menu"


def _against_the_size(machine: Machine) -> Reason | None:
    n = machine.gpus
    whole = does_not_split(machine.model, n, machine.layout)
    if whole is not None:
        count, _, what = whole.partition(" ")
        return f"{what} do not split", count, str(n)
    if kv_room_bytes(machine.model, machine.gpu, n, machine.quantization, layout=machine.layout) <= 0:
        need = weight_bytes(machine.model, machine.quantization, machine.layout) / 1e9
        return TOO_LARGE, f"{machine.gpu.vram_gb * n:.0f} GB", f"{need:.0f} GB"
    return None


def _against_joining(offers: dict[str, Offer], variant: Variant) -> Reason:
    """Why no replica spans so many boxes of any of these offers."""
    alike = [o for o in offers.values() if o.gpu == variant.gpu and o.gpus == variant.gpus_of_a_box]
    links = [o.interconnect for o in alike if o.interconnect is not None]
    if not links:
        return "no fast interconnect between boxes is known", FAST_LINKS, "unknown"
    if not any(link.is_fast for link in links):
        return "no fast interconnect between boxes", FAST_LINKS, links[0].kind
    widest = max(link.domain_gpus or 0 for link in links)
    return "the interconnect reaches fewer GPUs", f"{widest}", f"{variant.gpus_per_replica}"


def _too_slow(replica: Replica, bucket: int) -> Reason:
    """Why a replica cannot serve requests of one length."""
    estimate, traffic = replica.throughput, replica.traffic
    b, why, longest = traffic.buckets[bucket], estimate.bound_by[bucket], replica.machine.longest_request
    longer = too_long_share(traffic.members[traffic.member_of[bucket]], longest)
    if why in (CONTEXT, KV_MEMORY) and longer:
        reason = "context too short" if why == CONTEXT else "no room for the KV cache"
        return reason, f"{longest:,} tokens", f"{percent(longer, 2)} of requests are longer"
    if why == TABLE:
        value = f"{b.input_tokens:.0f} in, {b.output_tokens:.0f} out"
        return "the measured table has no rate for such lengths", "the table", value
    if why == KV_MEMORY:
        return "no room for the KV cache", "one request", f"{b.input_tokens + b.output_tokens:.0f} tokens of context"
    if why == "E2E" and traffic.e2e is not None:
        return "E2E", f"{traffic.e2e.seconds:g} s", f"{estimate.e2e_s[bucket]:.1f} s with one request"
    whole = traffic.e2e_per_token
    if whole is not None and whole.seconds < estimate.tpot_s[bucket]:
        return E2E_PER_TOKEN, f"{whole.seconds * 1e3:g} ms", f"TPOT of {estimate.tpot_s[bucket] * 1e3:.1f} ms"
    return "TPOT", f"{traffic.tpot.seconds * 1e3:.0f} ms", f"{estimate.tpot_s[bucket] * 1e3:.0f} ms with one request"
