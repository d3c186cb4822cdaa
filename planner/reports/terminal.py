"""The plan as text: the answer first, then the fleet, the workloads, the options and the assumptions."""

from __future__ import annotations

from collections.abc import Iterator

from planner.complaints import escaped
from planner.plan import OptionRecord, Plan, RejectionRecord, WorkloadPlan
from planner.reports.text import columns, percent, span, sparkline, tokens, usd, usd_small

OPTIONS_SHOWN = 5
REASONS_SHOWN = 8
PROVED = {
    "optimal": "proved optimal",
    "within-gap": "proved within {gap}",
    "feasible": "a verified plan, proved only within {gap}",
    "interrupted": "INTERRUPTED: a verified plan, not proved; the optimum may be {gap} lower",
}


def render(plan: Plan, seconds: float | None = None, verbose: bool = False) -> str:
    """The whole report; `seconds` is how long the planning took, where that is known."""
    sections = [
        _headline(plan, seconds),
        _fleet(plan),
        _workloads(plan),
        _hours(plan),
        _options(plan, verbose),
        _not_possible(plan, verbose),
        _assumptions(plan, verbose),
    ]
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section))) + "\n"


def _headline(plan: Plan, seconds: float | None) -> Iterator[str]:
    dates = sorted({line.price_date for line in plan.fleet if line.price_date})
    said = [f"{len(plan.workloads)} workload{'s' * (len(plan.workloads) != 1)}", f"{len(plan.slots)} slots"]
    said += [f"prices of {dates[0]}"] if dates else []
    proof = PROVED[plan.status].format(gap=percent(plan.gap_frac, 2))
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    yield f"{escaped(plan.name)}   {', '.join(said)}   {proof}{took}"
    b = plan.baseline
    saves = b.savings_usd_per_month
    verdict = f"saves {percent(b.savings_frac)}" if saves >= 0 else f"costs {percent(-b.savings_frac)} more"
    told = "nothing is cheaper than this API" if abs(saves) < 0.005 else f"{verdict} ({usd(abs(saves))} / month)"
    yield from columns(
        [
            (
                f"{usd(plan.cost_usd_per_month)} / month",
                f"{b.provider} {b.model} {usd(b.cost_usd_per_month)} / month",
                told,
            ),
            (
                f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens",
                f"{usd_small(b.usd_per_1m_tokens)} / 1M tokens",
                f"{tokens(plan.tokens_per_month)} tokens / month",
            ),
        ]
    )


def _fleet(plan: Plan) -> Iterator[str]:
    rows = [("fleet", "gpu", "buy", "instances", "$/h each", "$/month", "% of cost")]
    for line in plan.fleet:
        rows.append(
            (line.offer, f"{line.gpus_per_instance} x {line.gpu}", line.purchase, span(line.instances_by_slot),
             f"{line.usd_per_h:.2f}", f"{line.cost_usd_per_month:,.0f}",
             _share(line.cost_usd_per_month, plan))
        )  # fmt: skip
    for w in plan.workloads:
        if w.api:
            rows.append(
                (w.api, "-", f"api, {percent(w.api_share_frac)} of {w.name}", "-", "-",
                 f"{w.api_cost_usd_per_month:,.0f}", _share(w.api_cost_usd_per_month, plan))
            )  # fmt: skip
    engineers = plan.costs.engineers_usd_per_month
    if engineers:
        rows.append(("engineers", "-", "-", "-", "-", f"{engineers:,.0f}", _share(engineers, plan)))
    yield from columns(rows, right="defg")
    for c in plan.commitments:
        owed = f"{usd(c.beyond_horizon_usd)} more is owed after this quarter"
        yield f"  {c.instances} x {escaped(c.offer)} {c.term}: {owed}"
    if plan.costs.spot_usd_per_month:
        more = plan.spot_at_p95_usd_per_month - plan.cost_usd_per_month
        yield f"  if spot stays at the 95th percentile of its price, the plan costs {usd(more)} / month more"
    guesses = sorted({f.offer for f in plan.fleet if f.price_assumption})
    if guesses:
        yield f"  assumed prices, replace them with your own under 'prices:': {escaped(', '.join(guesses))}"


def _share(usd_per_month: float, plan: Plan) -> str:
    return percent(usd_per_month / plan.cost_usd_per_month) if plan.cost_usd_per_month else "-"


def _workloads(plan: Plan) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        (
            "workload",
            "deployment",
            "replicas",
            "spot",
            "api",
            "load",
            "TTFT",
            "TPOT when full",
            "$/month",
            "$/1M",
            "basis",
        )
    ]
    rows += [_workload_row(plan, w) for w in plan.workloads]
    yield from columns(rows, right="cdefghij")
    yield from _range(plan)


def _range(plan: Plan) -> Iterator[str]:
    """How far the cost moves if the throughput of each deployment is off by its own error."""
    hosted = [w.deployment for w in plan.workloads if w.deployment]
    if not hosted or plan.status == "interrupted":
        return
    errors = sorted({d.error_frac for d in hosted})
    off = percent(errors[0]) if len(errors) == 1 else f"{percent(errors[0])} to {percent(errors[-1])}"
    r = plan.if_throughput_is_off
    ends = [
        usd(x) if x is not None else "no plan inside the limits" for x in (r.low_usd_per_month, r.high_usd_per_month)
    ]
    yield f"  if replicas are {off} faster or slower (the error of these figures): {ends[0]} to {ends[1]} / month"


def _workload_row(plan: Plan, w: WorkloadPlan) -> tuple[str, ...]:
    d, api = w.deployment, percent(w.api_share_frac) if w.api_share_frac else "-"
    money = (f"{w.cost_usd_per_month:,.0f}", f"{w.usd_per_1m_tokens:.3f}")
    if d is None:
        return (w.name, w.api or "-", "-", "-", api, "-", "-", "-", *money, "list price")
    objectives = next(x for x in plan.case.workloads if x.name == w.name)
    spot = max(a - b for a, b in zip(w.replicas_by_slot, w.firm_replicas_by_slot, strict=True))
    return (
        w.name,
        f"{d.model} {d.quantization}  {d.gpus_per_replica} x {d.gpu}",
        span(w.replicas_by_slot),
        f"0-{spot}" if spot else "-",
        api,
        percent(w.utilization_frac or 0.0),
        f"{d.ttft_ms / 1e3:.2f} of {objectives.ttft.seconds:g} s",
        f"{d.tpot_ms:.0f} of {objectives.tpot.seconds * 1e3:.0f} ms" if d.tpot_ms else "as measured",
        *money,
        d.basis,
    )


def _hours(plan: Plan) -> Iterator[str]:
    """Replicas by hour, for the first month."""
    hosted = [w for w in plan.workloads if w.deployment]
    if not hosted:
        return
    rows: list[tuple[str, ...]] = [("replicas by hour", "weekday 0h-23h", "", "weekend 0h-23h", "")]
    for w in hosted:
        cells = [w.name]
        for day in ("weekday", "weekend"):
            at = [k for k, s in enumerate(plan.slots) if s.day == day and s.month == 0]
            counts = [w.replicas_by_slot[k] for k in at]
            cells += [sparkline([*counts], top=max(w.replicas_by_slot)), f"peak {max(counts)}"]
        rows.append(tuple(cells))
    yield from columns(rows)


def _options(plan: Plan, verbose: bool) -> Iterator[str]:
    for w in plan.workloads:
        mine = [o for o in plan.options if o.workload == w.name]
        shown = [o for k, o in enumerate(mine) if verbose or k < OPTIONS_SHOWN or o.chosen or o.offer is None]
        rows: list[tuple[str, ...]] = [(f"options for {w.name}", "gpu", "peak replicas", "api", "$/month", "")]
        rows += [_option_row(o) for o in shown]
        yield from columns(rows, right="cde")
        if len(mine) > len(shown):
            yield f"  ... and {len(mine) - len(shown)} dearer ones (--verbose, or 'options' in the JSON)"


def _option_row(o: OptionRecord) -> tuple[str, ...]:
    money = f"{o.cost_usd_per_month:,.0f}" if o.cost_usd_per_month is not None else "not possible"
    tick = "✓" if o.chosen else " "
    api = percent(o.api_share_frac) if o.api_share_frac else "-"
    if o.offer is None:
        return (f"{tick} {o.option}", "-", "-", "100%", money, "")
    return (
        f"{tick} {o.model} {o.quantization}",
        f"{o.gpus_per_replica} x {o.gpu}",
        str(o.peak_replicas),
        api,
        money,
        o.offer,
    )


def _not_possible(plan: Plan, verbose: bool) -> Iterator[str]:
    if not plan.rejected:
        return
    yield "  not used, and why"
    for w in plan.workloads:
        grouped: dict[str, list[str]] = {}
        for r in plan.rejected:
            if r.workload == w.name:
                reason, name = _told(r)
                grouped.setdefault(reason, []).append(name)
        for k, (reason, names) in enumerate(grouped.items()):
            if not verbose and k >= REASONS_SHOWN:
                yield f"    {escaped(w.name)}: ... and {len(grouped) - k} more reasons (--verbose)"
                break
            shown = names if verbose else names[:2]
            more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
            yield f"    {escaped(w.name)}: {escaped(reason)}: {escaped(', '.join(shown))}{more}"


def _told(r: RejectionRecord) -> tuple[str, str]:
    """The reason and the candidate with its figure; beaten ones name their better."""
    if r.value == "beaten":
        return r.reason, f"{r.candidate} (than {r.limit})"
    return f"{r.reason} (limit {r.limit})", f"{r.candidate} ({r.value})"


def _assumptions(plan: Plan, verbose: bool) -> Iterator[str]:
    rows = [("assumed, since the demand file does not say", "", "")]
    rows += [(key, value, why) for (key, value, why) in _grouped_assumptions(plan)]
    yield from columns(rows)
    yield f"  proved: {plan.proof.covers}"
    yield from (f"  note: {escaped(note)}" for note in plan.proof.notes)


def _grouped_assumptions(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """What is assumed alike for several workloads is said once."""
    names = [w.name for w in plan.workloads]
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for a in plan.assumptions:
        owner = next((n for n in names if a.key.startswith(f"workloads.{n}.")), None)
        key = a.key.removeprefix(f"workloads.{owner}.") if owner else a.key
        grouped.setdefault((key, a.value, a.why), []).extend([owner] if owner else [])
    for (key, value, why), owners in grouped.items():
        if not owners:
            yield key, value, why
        elif len(owners) == len(names) > 1:
            yield f"{key} (all workloads)", value, why
        else:
            yield f"{key} ({', '.join(owners)})", value, why
