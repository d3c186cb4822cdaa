"""From a solution of the optimizer to the plan that people read."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version

import numpy as np

from planner.baseline import api_usd_per_month, baseline_usd_per_month, tokens_per_request
from planner.candidates import Candidate, Candidates
from planner.case import Case, Workload
from planner.catalog import HourlyPrice, SpotPrice
from planner.lengths import must_hold
from planner.plan import (
    ApiFlow,
    Baseline,
    Commitment,
    CostRange,
    Costs,
    DeploymentRecord,
    FleetLine,
    OptionRecord,
    Plan,
    Proof,
    RejectionRecord,
    SlotRecord,
    WorkloadPlan,
)
from planner.ranges import cost_range
from planner.slots import MONTHS_OF_A_QUARTER, Slot, rates_rps, requests_per_month
from problems.fleet import HOURS_PER_MONTH, Fleet
from problems.recipes import MOST_STEPS, Recipe
from solvers.fleet_solver import FleetSolution, Options, Outcome
from solvers.incumbent import Incumbent, alone

COVERS = (
    "the cheapest among fleets with one deployment per workload and API overflow, each workload by itself, "
    "under the staffing rule, on the candidates listed"
)
TERM_MONTHS = {"reserved-1y": 12, "reserved-3y": 36}


def assemble_plan(
    case: Case, candidates: Candidates, fleet: Fleet, solution: FleetSolution, slots: tuple[Slot, ...], options: Options
) -> Plan:
    best = solution.best
    assert best is not None
    lines = tuple(_fleet_lines(case, fleet, best))
    workloads = tuple(_workload_plans(case, candidates, fleet, best, lines, slots))
    costs = _costs(case, lines, workloads)
    tokens = sum(w.tokens_per_month for w in workloads)
    cost = costs.total()
    bound = min(solution.bound_usd_per_month, cost)
    return Plan(
        name=case.name,
        status=solution.outcome.value,  # type: ignore[arg-type]
        cost_usd_per_month=cost,
        bound_usd_per_month=bound,
        gap_frac=max(0.0, (cost - bound) / cost) if cost else 0.0,
        usd_per_1m_tokens=1e6 * cost / tokens,
        tokens_per_month=tokens,
        costs=costs,
        baseline=_baseline(case, cost, tokens, slots),
        fleet=lines,
        workloads=workloads,
        commitments=tuple(_commitments(case, best)),
        spot_at_p95_usd_per_month=cost + sum(_extra_at_p95(case, line) for line in lines),
        if_throughput_is_off=(
            CostRange(mid_usd_per_month=cost)
            if solution.outcome is Outcome.INTERRUPTED
            else cost_range(case, candidates, fleet, best, slots, cost, options.time_limit_s)
        ),
        options=tuple(_options(case, candidates, fleet, best, slots)),
        rejected=tuple(RejectionRecord(**vars(r)) for r in candidates.rejected),
        slots=tuple(SlotRecord(label=s.label, **vars(s)) for s in slots),
        proof=Proof(
            covers=COVERS,
            solver=options.solver,
            rounds=solution.rounds,
            columns=solution.columns,
            servings_left_out=solution.servings_left_out,
            notes=(*solution.notes, *_coarse_steps(fleet)),
        ),
        assumptions=case.assumptions,
        case_hash=case.hash(),
        case=case,
        fleetplan_version=version("fleetplan"),
    )


def _coarse_steps(fleet: Fleet) -> tuple[str, ...]:
    if any(recipe.coarse_usd_per_h for recipe in fleet.recipes):
        return (f"where more than {MOST_STEPS} replicas are needed, API overflow is tried in steps of several",)
    return ()


def _fleet_lines(case: Case, fleet: Fleet, best: Incumbent) -> list[FleetLine]:
    lines = []
    for key, bought in sorted(best.purchases.items()):
        prices = case.offers[key].prices
        ways: list[tuple[str, np.ndarray, HourlyPrice | SpotPrice | None]] = [
            (term, np.full(len(fleet.slot_hours), n), prices.reserved()[term]) for term, n in bought.reserved.items()
        ]
        ways += [("on-demand", bought.on_demand, prices.on_demand), ("spot", bought.spot, prices.spot)]
        for purchase, instances, price in ways:
            if not instances.any() or price is None:
                continue
            usd_per_h = price.p50_usd_per_h if isinstance(price, SpotPrice) else price.usd_per_h
            lines.append(
                FleetLine(
                    offer=key,
                    gpu=case.offers[key].gpu,
                    gpus_per_instance=case.offers[key].gpus,
                    purchase=purchase,
                    instances_by_slot=tuple(int(n) for n in instances),
                    usd_per_h=usd_per_h,
                    cost_usd_per_month=float(instances @ fleet.weight) * usd_per_h,
                    price_source=price.source,
                    price_date=price.date,
                    price_assumption=price.assumption,
                )
            )
    return lines


def _workload_plans(
    case: Case,
    candidates: Candidates,
    fleet: Fleet,
    best: Incumbent,
    lines: tuple[FleetLine, ...],
    slots: tuple[Slot, ...],
) -> list[WorkloadPlan]:
    gpu_hours = {p.workloads[0]: float(fleet.weight @ p.gpus) for p in best.paths}
    hours_on: dict[str, float] = {}
    for path in best.paths:
        if path.offer is not None:
            hours_on[path.offer] = hours_on.get(path.offer, 0.0) + gpu_hours[path.workloads[0]]
    paid: dict[str, float] = {}
    for line in lines:
        paid[line.offer] = paid.get(line.offer, 0.0) + line.cost_usd_per_month
    plans = []
    for workload, path in zip(case.workloads, best.paths, strict=True):
        candidate = next((c for c in candidates.accepted[workload.name] if c.key == path.deployment), None)
        on_gpus = bool(gpu_hours[workload.name]) and path.offer is not None
        gpu_usd = paid[path.offer] * gpu_hours[workload.name] / hours_on[path.offer] if on_gpus and path.offer else 0.0
        plans.append(_workload_plan(fleet, workload, path, candidate if on_gpus else None, gpu_usd, slots))
    return plans


def _workload_plan(
    fleet: Fleet, workload: Workload, path: Recipe, candidate: Candidate | None, gpu_usd: float, slots: tuple[Slot, ...]
) -> WorkloadPlan:
    requests = requests_per_month(workload, slots)
    tokens = requests * tokens_per_request(workload)
    api_usd = float(fleet.weight @ path.api_usd_per_h)
    api_rps = path.api_rps
    api_requests = float(fleet.weight @ api_rps.sum(axis=1)) * 3600
    utilization, busiest = None, 0.0
    if candidate is not None:
        shares = np.array([b.share_frac for b in workload.buckets])
        kept = rates_rps(workload, slots)[:, None] * shares - api_rps
        load = kept @ candidate.seconds_per_request
        utilization = float(fleet.weight @ load / (fleet.weight @ path.replicas))
        busiest = float(np.divide(load, path.replicas, out=np.zeros_like(load), where=path.replicas > 0).max())
    return WorkloadPlan(
        name=workload.name,
        deployment=_deployment(workload, candidate, busiest) if candidate else None,
        quantization=candidate.quantization_key if candidate else None,
        api=path.api if api_requests else None,
        replicas_by_slot=tuple(int(n) for n in path.replicas),
        firm_replicas_by_slot=tuple(int(n) for n in path.firm_replicas),
        api_flows=tuple(
            ApiFlow(slot=int(t), requests_per_s=tuple(api_rps[t].tolist())) for t in np.flatnonzero(api_rps.any(axis=1))
        ),
        requests_per_month=requests,
        tokens_per_month=tokens,
        api_share_frac=api_requests / requests,
        utilization_frac=utilization,
        gpu_cost_usd_per_month=gpu_usd,
        api_cost_usd_per_month=api_usd,
        cost_usd_per_month=gpu_usd + api_usd,
        usd_per_1m_tokens=1e6 * (gpu_usd + api_usd) / tokens,
    )


def _deployment(workload: Workload, c: Candidate, busiest: float) -> DeploymentRecord:
    heaviest = int(np.argmax(c.load_shares))
    return DeploymentRecord(
        key=c.key,
        model=c.model_key,
        quantization=c.quantization_key,
        offer=c.offer_key,
        gpu=c.offer.gpu,
        gpus_per_replica=c.machine.gpus,
        seconds_per_request=tuple(c.seconds_per_request.tolist()),
        requests_in_flight=c.staffing.batch,
        ttft_ms=1e3 * c.replica.ttft_s(busiest),
        most_load_frac=c.replica.most_load,
        tpot_ms=1e3 * float(c.throughput.tpot_s.max()),
        e2e_ms=_slowest_answer_ms(workload, c),
        bound_by=c.throughput.bound_by[heaviest],
        quality_loss_frac=c.quality_loss_frac,
        basis=c.replica.basis,
        error_frac=c.replica.error_frac,
    )


def _slowest_answer_ms(workload: Workload, c: Candidate) -> float | None:
    if workload.e2e is None:
        return None
    return 1e3 * float(c.throughput.e2e_s[must_hold(workload.buckets, workload.e2e.percentile, outputs=True)].max())


def _costs(case: Case, lines: tuple[FleetLine, ...], workloads: tuple[WorkloadPlan, ...]) -> Costs:
    def paid(*purchases: str) -> float:
        return float(sum(line.cost_usd_per_month for line in lines if line.purchase in purchases))

    hosted = any(w.deployment is not None for w in workloads)
    return Costs(
        reserved_usd_per_month=paid(*TERM_MONTHS),
        on_demand_usd_per_month=paid("on-demand"),
        spot_usd_per_month=paid("spot"),
        api_usd_per_month=float(sum(w.api_cost_usd_per_month for w in workloads)),
        engineers_usd_per_month=case.engineers_usd_per_month if hosted else 0.0,
    )


def _baseline(case: Case, cost: float, tokens: float, slots: tuple[Slot, ...]) -> Baseline:
    api = case.apis[case.baseline]
    usd = baseline_usd_per_month(case, slots)
    return Baseline(
        provider=api.provider,
        model=api.model,
        cost_usd_per_month=usd,
        usd_per_1m_tokens=1e6 * usd / tokens,
        savings_usd_per_month=usd - cost,
        savings_frac=(usd - cost) / usd if usd else 0.0,
        source=api.source,
        date=api.date,
    )


def _commitments(case: Case, best: Incumbent) -> list[Commitment]:
    return [
        Commitment(
            offer=offer,
            term=term,
            instances=n,
            beyond_horizon_usd=n
            * case.offers[offer].prices.reserved()[term].usd_per_h
            * HOURS_PER_MONTH
            * (TERM_MONTHS[term] - MONTHS_OF_A_QUARTER),
        )
        for offer, bought in sorted(best.purchases.items())
        for term, n in bought.reserved.items()
    ]


def _extra_at_p95(case: Case, line: FleetLine) -> float:
    spot = case.offers[line.offer].prices.spot
    if line.purchase != "spot" or spot is None:
        return 0.0
    return line.cost_usd_per_month * (spot.p95_usd_per_h / spot.p50_usd_per_h - 1)


def _options(
    case: Case, candidates: Candidates, fleet: Fleet, best: Incumbent, slots: tuple[Slot, ...]
) -> list[OptionRecord]:
    """Every accepted way to serve each workload by itself, cheapest first; the chosen one is marked."""
    offers = {key: replace(offer, max_instances=None) for key, offer in fleet.offers.items()}
    bare = replace(fleet, team_usd_per_month=0.0, budget_usd_per_month=None, max_gpus={}, offers=offers)
    by_itself: dict[tuple[str, str | None], tuple[float, int, float]] = {}
    for recipe in fleet.recipes:
        done = alone(bare, recipe)
        if done and recipe.self_hosted and not done.paths[0].replicas.any():
            # The API alone would be cheaper; what this deployment costs is seen when it carries everything.
            done = alone(bare, recipe.only(recipe.api_usd_per_h == 0))
        if done and done.cost_usd_per_month < by_itself.get(recipe.key[:2], (np.inf,))[0]:
            path = done.paths[0]
            sent = float(fleet.weight @ path.api_rps.sum(axis=1) / (fleet.weight @ path.routing.rate_rps.sum(axis=1)))
            by_itself[recipe.key[:2]] = (done.cost_usd_per_month, int(path.replicas.max()), sent)
    chosen = {(p.pool, p.deployment if p.gpus.any() else f"api {p.api}") for p in best.paths}
    records = []
    for workload in case.workloads:
        entries: list[OptionRecord] = []
        for c in candidates.accepted[workload.name]:
            own_cost, peak, sent = by_itself.get((workload.name, c.key), (None, 0, 0.0))
            entries.append(
                OptionRecord(
                    workload=workload.name, option=c.key, model=c.model_key, quantization=c.quantization_key,
                    gpu=c.offer.gpu, gpus_per_replica=c.machine.gpus, offer=c.offer_key, cost_usd_per_month=own_cost,
                    peak_replicas=peak, api_share_frac=sent, chosen=(workload.name, c.key) in chosen,
                )
            )  # fmt: skip
        for api in sorted({r.api for r in fleet.recipes if r.pool == workload.name and not r.self_hosted and r.api}):
            api_usd = api_usd_per_month(case, workload, api, slots)
            entries.append(
                OptionRecord(workload=workload.name, option=f"api {api}", cost_usd_per_month=api_usd,
                             api_share_frac=1.0, chosen=(workload.name, f"api {api}") in chosen)
            )  # fmt: skip
        records += sorted(entries, key=lambda o: (o.cost_usd_per_month is None, o.cost_usd_per_month or 0.0, o.option))
    return records
