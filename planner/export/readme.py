"""The README of an exported folder: what it covers, what it leaves to people, and what a gateway has to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planner.catalog.engine_support import parser_flags
from planner.catalog.terms import in_words
from planner.export.hosted import Hosted, HostedFleet
from planner.export.hours import blocks
from planner.export.promises import all_day_usd, checks, planned_usd
from planner.export.record import Export, Step
from planner.export.routing import CACHE, SHED, Route, cache_share, routes
from planner.export.weights import RATES
from planner.io.errors import listed
from planner.io.formatting import percent, span
from planner.plan.lengths import passed_on_requests, refused_requests
from planner.plan.operated import Operation
from planner.plan.plan import WorkloadPlan
from planner.reports.markdown import bullets, fenced, inline, table_markdown
from planner.reports.table import Column, Row, Table
from planner.reports.tables.operation import in_short, notes, promises, scale_order, settings

ROUTERS = {
    "least-requests": "sends each request to the replica with the fewest in flight (Envoy's LEAST_REQUEST, vLLM's "
    "router or llm-d; a Kubernetes Service alone picks one at random: plan with 'policy: {routing: random}' for that)",
    "prefix-aware": "weighs the share of a prompt that a replica holds against the requests that it has in flight "
    "(llm-d's, Dynamo's or vLLM's prefix-aware routing)",
    "round-robin": "sends requests to one replica after the other (a Kubernetes Service alone picks one at random)",
    "random": "sends a request to any replica",
}
CHECKPOINT = ("put the id", "the catalog does not know")
LATE_S = 5
"""a start that is later than planned by less is not worth a word"""
SETTLED = (*CHECKPOINT, "an instance of ", "a replica takes ", "while spot ")
"""how notes of a serve command begin that the files or other parts of the page have settled"""


def readme(fleet: HostedFleet, target: str, made: Export) -> str:
    """In Markdown; whatever users wrote is text in it."""
    plan = fleet.plan
    parts: list[list[str]] = [
        [f"# {inline(plan.name)}: {target}"],
        [_origin(fleet)],
        ["## What is here", "", *bullets(made.covers)],
        ["## Steps", "", *_steps(fleet, [*_namespace(fleet, made), *made.steps])],
        ["## What is left to you", "", *bullets([*_left_to_you(fleet, made), *made.left_to_you])],
        ["## Deployments", "", *table_markdown(_deployments(fleet))],
        ["## Replicas by the hour", "", *table_markdown(_hours(fleet))],
        ["## Where requests go", "", *table_markdown(_routes(fleet))],
        ["## Spot, priorities and shedding", "", *bullets(_priorities(fleet))],
        ["## What it costs", "", *bullets(_costs(fleet, made))],
        ["## Does it do what the plan says?", "", *_checks(fleet, made)],
    ]
    if made.reached_at is not None and not _over_boxes(fleet):
        parts.append(["## Behind the gateway target", "", *_addresses(fleet, made.reached_at)])
    if fleet.plan.operation is not None:
        parts.append(["## In operation, as simulated", "", *_operation(fleet, fleet.plan.operation)])
    if made.undo:
        parts.append(["## Roll back", "", *_steps(fleet, made.undo)])
    if too_long := [*_long_requests(fleet)]:
        parts.append(["## Requests that are too long", "", *bullets(too_long)])
    differs = [*made.cautions, *_notes(fleet)]
    if differs:
        parts.append(["## What to know", "", *bullets(differs)])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _origin(fleet: HostedFleet) -> str:
    plan, settings = fleet.plan, fleet.settings
    month = ""
    if fleet.view.months > 1:
        last = settings.month + 1 == fleet.view.months
        then = "plan again when it is over" if last else f"the next one is `--month {settings.month + 2}`"
        month = f" This is month {settings.month + 1} of {fleet.view.months}: {then}."
    return (
        f"Written by fleetplan {inline(plan.fleetplan_version)} from the plan with case `{plan.case_hash}`. Nothing "
        f"was applied: read it, then follow the steps. Hours are those of {inline(settings.time_zone)}.{month}"
    )


def _steps(fleet: HostedFleet, steps: Iterable[Step]) -> Iterator[str]:
    for k, step in enumerate(steps, start=1):
        yield f"{k}. {inline(step.what)}"
        if step.commands:
            commands = "\n".join(_placed(fleet, command) for command in step.commands)
            yield from ("", *(f"   {line}" for line in fenced(commands)), "")


def _namespace(fleet: HostedFleet, made: Export) -> Iterator[Step]:
    if fleet.settings.namespace and any("kubectl" in line for step in made.steps for line in step.commands):
        name = fleet.settings.namespace
        make = f"kubectl create namespace {name} --dry-run=client -o yaml | kubectl apply -f -"
        yield Step(f"Make the namespace {name} in each cluster.", (make,))


def _placed(fleet: HostedFleet, command: str) -> str:
    """A command in the namespace that was asked for."""
    place = f" -n {fleet.settings.namespace} " if fleet.settings.namespace else " "
    return re.sub(r"^(kubectl|helm) ", rf"\1{place}", command)


def _costs(fleet: HostedFleet, made: Export) -> Iterator[str]:
    yield (
        f"the plan: ${planned_usd(fleet):,.0f} for this month, including APIs and everything else "
        f"(${fleet.plan.total_usd_per_month:,.0f} a month on average)"
    )
    for line in fleet.plan.fleet:
        counts = [line.instances_by_slot[t] for t in fleet.slots]
        if max(counts):
            yield (
                f"{line.offer}, {in_words(line.purchase)}: {span(counts)} instances at ${line.usd_per_h:,.4g} an hour "
                f"each, ${line.cost_usd_per_month:,.0f} a month"
            )
    for w in fleet.plan.workloads:
        if w.api_cost_usd_per_month:
            yield f"{w.api} for {w.name}: ${w.api_cost_usd_per_month:,.0f} a month"
    more = all_day_usd(fleet)
    if not made.by_the_hour and more >= 1:
        yield (
            "these files do not follow the hours: running the replicas of the busiest hour all the time costs "
            f"${more:,.0f} a month more, unless you scale them as the table of hours says"
        )


def _operation(fleet: HostedFleet, o: Operation) -> Iterator[str]:
    yield from bullets([in_short(o), *notes(o)])
    yield from ("", *table_markdown(promises(o)), "", *table_markdown(settings(o)))
    order = scale_order(fleet.plan)
    yield from ("", *table_markdown(order), "", *bullets(order.notes))


def _checks(fleet: HostedFleet, made: Export) -> Iterator[str]:
    yield (
        "Queries for Prometheus, and what each must answer. Save the answers for these metrics (`query_range`, a step "
        "of a minute) into a folder, and `fleetplan check plan.json --live FOLDER` shows which hours departed from the "
        "plan, and why."
    )
    for c in (*made.checks, *checks(fleet, made.replicas_of)):
        yield from ("", f"{inline(c.of)}, {inline(c.what)}: {inline(c.holds)}", "", *fenced(c.query))


def _addresses(fleet: HostedFleet, reached_at: str) -> Iterator[str]:
    """What to write into LiteLLM's config, where this target has routes of its own."""
    place = reached_at.replace("NAMESPACE", fleet.settings.namespace or "NAMESPACE")
    yield (
        "Leave out the folders of its clusters and `picker/`. In `litellm/config.yaml`, give the entries whose "
        "`fleetplan_to` is one of these names the address behind it as `api_base`:"
    )
    yield from ("", *fenced("\n".join(f"{h.name}: {place.replace('{name}', h.name)}" for h in fleet.hosted)))


def _over_boxes(fleet: HostedFleet) -> bool:
    """Plans that the gateway target refuses."""
    return any(h.boxes > 1 for h in fleet.hosted)


def _left_to_you(fleet: HostedFleet, made: Export) -> Iterator[str]:
    over_boxes = _over_boxes(fleet)
    for h in fleet.hosted:
        yield from (f"{h.name}: {note}" for note in h.serve.notes if note.startswith(CHECKPOINT))
    yield _loading(fleet)
    yield (
        "secrets: a Hugging Face token for models that require one, the key that clients present to the engine "
        "(VLLM_API_KEY), and in the gateway that key and those of the APIs; the files refer to these secrets but "
        "contain none"
    )
    yield from _parsers(fleet)
    if not made.brings_gateway:
        written = "no target writes one" if over_boxes else "'fleetplan export --to gateway' writes one"
        yield (
            f"the gateway: it {ROUTERS[fleet.plan.case.limits.routing]}, routes by length and sheds as below; {written}"
            f"{' for replicas over several instances' if over_boxes else ''}"
        )
        if made.reached_at is not None and not over_boxes:
            yield "of that gateway, litellm/ and queue/ fit, and the pools do not: see behind the gateway target, below"
    if any(h.adapters for h in fleet.hosted):
        yield "adapters: a folder or volume called adapters, with one folder for each name after --lora-modules"


def _loading(fleet: HostedFleet) -> str:
    """How long weights take from where they come, against what the plan counts on."""
    way, planned = fleet.settings.weights, fleet.plan.case.start.weights_gb_per_s
    counted_s = span([max(1, round(h.planned_weights_s)) for h in fleet.hosted])
    taken_s = span([max(1, round(h.weights_s)) for h in fleet.hosted])
    plan = f"the plan counts on loading the weights in {counted_s} s ({planned:g} GB/s)"
    if way.kind not in RATES:
        return f"loading: {plan}, but no measurement of this way is known: time a start of your own"
    late = max(h.weights_s - h.planned_weights_s for h in fleet.hosted)
    rate = f"with {way.kind} a fresh node has them after {taken_s} s ({way.gb_per_s(planned):g} GB/s; "
    effect = (
        f"; probes and schedules allow for it, but the replacement of a lost replica is ready {late:.0f} s later than "
        "planned"
    )
    return f"loading: {plan}; {rate}{RATES[way.kind].source}){effect if late >= LATE_S else ''}"


def _parsers(fleet: HostedFleet) -> Iterator[str]:
    """Flags for clients that call tools, by model."""
    models = {h.plan.deployment.model: h for h in fleet.hosted}
    for name in models:
        flags = parser_flags(fleet.plan.case.models[name])
        if flags:
            yield f"agents: if clients of {name} call tools or read its reasoning separately, add {' '.join(flags)}"
        else:
            yield (
                f"agents: no source says which parsers {name} needs; if its clients call tools, look up "
                "--enable-auto-tool-choice, --tool-call-parser and --reasoning-parser in vLLM's documentation"
            )


def _notes(fleet: HostedFleet) -> Iterator[str]:
    """What the plan's own commands remark, but for what the files have settled."""
    by_note: dict[str, list[str]] = {}
    for h in fleet.hosted:
        for note in h.serve.notes:
            if not note.startswith(SETTLED):
                by_note.setdefault(note, []).append(h.name)
    yield from (f"{listed(names, 'and')}: {note}" for note, names in by_note.items())


def _deployments(fleet: HostedFleet) -> Table:
    columns = (
        Column("name", "name"), Column("workloads", "serves"), Column("deployment", "as planned"),
        Column("gpus", "GPUs per replica", "count"), Column("in_flight", "requests in flight", "count"),
        Column("starts", "ready after [s]", "count"),
    )  # fmt: skip
    rows: list[Row] = [
        (h.name, ", ".join(h.pool.workloads), h.plan.deployment.key, h.gpus, h.in_flight, round(h.start_s))
        for h in fleet.hosted
    ]
    notes = (
        "requests in flight: per replica in the busiest hour; ready after: from ordering an instance, as planned, with "
        "weights loaded in this way",
    )
    return Table("deployments", "deployments", columns, tuple(rows), notes)


def _hours(fleet: HostedFleet) -> Table:
    columns = (
        Column("name", "name"), Column("day", "day"), Column("hours", "hours"),
        Column("firm", "firm", "count"), Column("spot", "spot", "count"),
    )  # fmt: skip
    notes = ("firm: on reserved or on-demand instances",)
    return Table("hours", "replicas", columns, tuple(row for h in fleet.hosted for row in _hours_of(h)), notes)


def _hours_of(h: Hosted) -> Iterator[Row]:
    """Hours in which both counts stay as they are: of pairs, written as one number."""
    many = 1 + max(n for counts in h.firm.values() for n in counts)
    both = {day: tuple(f + many * s for f, s in zip(h.firm[day], h.spot[day], strict=True)) for day in h.firm}
    for block in blocks(both):
        spot, firm = divmod(block.replicas, many)
        yield h.name, block.day, f"{block.start_h:02d}-{block.end_h:02d}", firm, spot


def _routes(fleet: HostedFleet) -> Table:
    columns = (
        Column("workload", "workload"), Column("input", "tokens of the prompt"),
        Column("share", "of its requests", "percent"), Column("to", "goes to"),
    )  # fmt: skip
    every = routes(fleet)
    rows: list[Row] = [(r.workload, _range(r), r.share_frac, _shares(r.to)) for r in every]
    all_of_them = "" if _over_boxes(fleet) else ", and the gateway target writes them all"
    notes = [f"shares are for the whole month; each hour has its own{all_of_them}"]
    if told_apart := sorted({r.workload for r in every if r.by_answer}):
        notes.append(
            f"{listed(told_apart, 'and')}: the plan also distinguishes requests by the length of the answer, which a "
            "gateway does not know; these shares give the replicas no more than the planned load, and the API about as "
            "many tokens as planned"
        )
    return Table("routes", "routes", columns, tuple(rows), tuple(notes))


def _range(r: Route) -> str:
    if r.up_to is None:
        return f"more than {r.more_than:,}" if r.more_than else "any"
    return f"{r.more_than + 1:,} to {r.up_to:,}" if r.more_than else f"up to {r.up_to:,}"


def _shares(to: dict[str, float]) -> str:
    if len(to) == 1:
        return next(iter(to))
    return ", ".join(f"{percent(share)} {name}" for name, share in to.items())


def _priorities(fleet: HostedFleet) -> Iterable[str]:
    lines = []
    planned = {w.name: w for w in fleet.plan.workloads}
    on_spot = {name: h for h in fleet.hosted if any(part.spot for part in h.parts) for name in h.pool.workloads}
    for w in fleet.plan.case.workloads:
        if cached := _cached(fleet, w.name):
            lines.append(
                f"{w.name}: {percent(cached)} of its requests are answered by {CACHE}, before they reach the replicas"
            )
        if w.name in on_spot and not w.critical_share_frac:
            lines.append(
                f"{w.name}: none of its requests is critical: while spot replicas are reclaimed the gateway may shed "
                "all that the firm ones do not carry"
            )
        elif w.name in on_spot:
            lines.append(
                f"{w.name}: {percent(w.critical_share_frac)} of its requests are critical. Mark them with a higher "
                "priority; while spot replicas are reclaimed the gateway must shed the others at once, since the firm "
                "replicas can carry only the critical ones"
            )
        if w.shed_usd_per_request is not None:
            share = _share_to(fleet, w.name, SHED)
            lines.append(
                f"{w.name}: may be shed, at a penalty of ${w.shed_usd_per_request:.4g} a request: shed what costs "
                f"least first; the plan sheds {percent(share) if share else 'none'} of it"
            )
        if api_share := _share_to(fleet, w.name, planned[w.name].api):
            lines.append(
                f"{w.name}: {percent(api_share)} of its requests go to {planned[w.name].api}"
                f"{_api_hours(fleet, planned[w.name])}"
            )
        if w.deadline_h is not None:
            lines.append(f"{w.name}: may wait {w.deadline_h:g} h: queue it, and let other requests go first")
    return lines or ["nothing runs on spot, nothing is shed and nothing waits: requests need no priorities"]


def _long_requests(fleet: HostedFleet) -> Iterator[str]:
    """What a gateway does with requests that are too long; a fleet as a whole admits no others."""
    for r in refused_requests(fleet.plan):
        yield (
            f"{r.workload}: refuse requests of more than {r.tokens:,} tokens (prompt plus answer): "
            f"{percent(r.share_frac, 2)} of all requests, about {r.requests_per_month:,.0f} a month; nothing is "
            "planned for them"
        )
    for r in passed_on_requests(fleet.plan):
        where = f"send them to {r.to}" if r.to else "shed them"
        yield (
            f"{r.workload}: requests of more than {r.tokens:,} tokens, {percent(r.share_frac, 2)} of them, are longer "
            f"than its deployments accept: {where}"
        )


def _share_to(fleet: HostedFleet, workload: str, destination: str | None) -> float:
    """Share of a workload's requests of the month that take one way."""
    mine = (route for route in routes(fleet) if route.workload == workload)
    there = sum(route.share_frac * route.to.get(destination or "", 0.0) for route in mine)
    return there * (1 - _cached(fleet, workload))


def _cached(fleet: HostedFleet, workload: str) -> float:
    return next(cache_share(s) for s in fleet.view.served if s.w.name == workload)


def _api_hours(fleet: HostedFleet, planned: WorkloadPlan) -> str:
    """The hours in which an API takes what the replicas cannot; nothing where it takes all."""
    if planned.api_share_frac + planned.cache_share_frac >= 1 - 1e-9:
        return ""
    used = {flow.slot for flow in planned.api_flows if any(flow.requests_per_s)}
    by_day: dict[str, tuple[int, ...]] = {}
    for t in fleet.slots:
        by_day[fleet.plan.slots[t].day] = (*by_day.get(fleet.plan.slots[t].day, ()), int(t in used))
    hours = [f"{b.day} {b.start_h:02d}-{b.end_h:02d}" for b in blocks(by_day) if b.replicas]
    return f", those that the replicas cannot take in these hours: {', '.join(hours)}" if hours else ""
