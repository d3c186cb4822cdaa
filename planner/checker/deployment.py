"""What one replica is and does: allowed by the case, inside its objectives, and as fast as the plan says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.case import Case, Workload
from planner.checker.facts import REL, differs, is_not, key_of, replica_of
from planner.performance.throughput import Throughput
from planner.plan import DeploymentRecord


def deployment_holds(case: Case, w: Workload, d: DeploymentRecord) -> Iterator[str]:
    yield from _it_is_allowed(case, w, d)
    yield from is_not("the key of its deployment", d.key, key_of(d))
    yield from is_not("the GPU of its offer", d.gpu, case.offers[d.offer].gpu)
    replica = replica_of(case, w, d)
    estimate = replica.throughput
    if not estimate.requests_per_s.all():
        yield "a replica cannot hold memory and TPOT for every request length"
        return
    yield from differs("most_load_frac", d.most_load_frac, replica.most_load)
    yield from _it_is_as_fast(w, estimate, d)
    yield from is_not("the basis of its throughput", d.basis, replica.basis)
    yield from differs("error_frac", d.error_frac, replica.error_frac)


def _it_is_allowed(case: Case, w: Workload, d: DeploymentRecord) -> Iterator[str]:
    model, scheme, offer = case.models[d.model], case.quantizations[d.quantization], case.offers[d.offer]
    choice = next((m for m in w.models if m.model == d.model), None)
    if choice is None:
        yield f"{d.model} is not one of its models"
        return
    loss = choice.quality_loss_frac + _loss_by_quantization(case, d)
    yield from differs("quality_loss_frac", d.quality_loss_frac, loss)
    if loss > w.max_quality_loss_frac + 1e-12:
        yield f"quality loss {loss:.2%} exceeds {w.max_quality_loss_frac:.2%}"
    if scheme.needs != "none" and scheme.needs not in case.gpus[offer.gpu].dense_tflops:
        yield f"{offer.gpu} has no native {scheme.needs}"
    if offer.gpus % d.gpus_per_replica:
        yield f"replicas of {d.gpus_per_replica} GPUs do not pack into boxes of {offer.gpus}"
    if d.gpus_per_replica > case.limits.max_gpus_per_replica:
        yield f"replicas of {d.gpus_per_replica} GPUs, {case.limits.max_gpus_per_replica} allowed"
    if model.query_heads % d.gpus_per_replica:
        yield f"{model.query_heads} attention heads do not split over {d.gpus_per_replica} GPUs"
    longest = max(b.input_tokens + b.output_tokens for b in w.buckets)
    if longest > model.max_context_tokens:
        yield f"requests of {longest:.0f} tokens exceed the context of {model.max_context_tokens}"


def _loss_by_quantization(case: Case, d: DeploymentRecord) -> float:
    """That of the largest size class the model reaches; the worst if it reaches none; none in its native format."""
    model, scheme = case.models[d.model], case.quantizations[d.quantization]
    if model.native_quantization == d.quantization:
        return 0.0
    reached = {q.min_parameters_b: q.loss_frac for q in scheme.quality_loss if q.min_parameters_b <= model.parameters_b}
    return reached[max(reached)] if reached else max(q.loss_frac for q in scheme.quality_loss)


def _it_keeps_e2e(w: Workload, estimate: Throughput, d: DeploymentRecord) -> Iterator[str]:
    """The same for the longest answers; a plan without this objective says nothing of it."""
    if w.e2e is None:
        if d.e2e_ms is not None:
            yield "an end-to-end latency is given though there is no objective for it"
        return
    seconds = [
        float(e2e)
        for b, e2e in zip(w.buckets, estimate.e2e_s, strict=True)
        if sum(o.share_frac for o in w.buckets if o.output_tokens < b.output_tokens) < w.e2e.percentile - 1e-9
    ]
    if max(seconds) > w.e2e.seconds * (1 + REL):
        yield f"E2E {max(seconds):.3f} s exceeds {w.e2e.seconds} s"
    yield from differs("e2e_ms", d.e2e_ms or 0.0, 1e3 * max(seconds))


def _it_is_as_fast(w: Workload, estimate: Throughput, d: DeploymentRecord) -> Iterator[str]:
    if not np.allclose(1 / estimate.requests_per_s, d.seconds_per_request, rtol=REL, atol=0):
        yield "a replica is not as fast as the plan says"
    load = [b.share_frac / float(rate) for b, rate in zip(w.buckets, estimate.requests_per_s, strict=True)]
    batch = sum(x * float(n) for x, n in zip(load, estimate.in_flight, strict=True)) / sum(load)
    yield from differs("requests_in_flight", d.requests_in_flight, batch)
    yield from differs("tpot_ms", d.tpot_ms, 1e3 * float(estimate.tpot_s.max()))
    yield from _it_keeps_e2e(w, estimate, d)
    yield from is_not("what binds a replica", d.bound_by, estimate.bound_by[load.index(max(load))])
