"""The first screen of a plan: what it costs and per what, what to sign, what could move it, and what the same costs
elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.errors import ended_at_a_word
from planner.io.formatting import counted, percent, span, tokens, usd, usd_small
from planner.plan.plan import Plan
from planner.plan.quality_notes import size_beside, smaller_apis
from planner.plan.token_costs import token_costs
from planner.reports import phrases
from planner.reports.document import Figures, Group, Hero, Lines, Mark, Sentence, TablePart, capital
from planner.reports.markup import Html, bar, el
from planner.reports.table import RICH
from planner.reports.tables.answers import elsewhere, to_sign, what_moves_it, whole_terms_usd

KINDS_SAID = 4
BINDS_LIMIT = 120
"""characters; the table of limits has all"""


def answer(plan: Plan) -> Hero:
    """What it costs and where the money goes; beside it what to sign, what may move it, and who else sells it."""
    from planner.reports.charts.money import by_workload

    signing = f"What to sign: {usd(whole_terms_usd(plan))} over the terms"
    nothing = "Nothing to sign: all of it is paid as it is used"
    demand, others = (TablePart(make(plan)) for make in (what_moves_it, elsewhere))
    return Hero(
        usd(plan.cost_usd_per_month),
        " / month",
        (
            Lines((_per_what(plan), tuple(_to_run(plan)), _verdict(plan)), tone="prose"),
            Lines(tuple(_remarks(plan)), tone="remark"),
            Lines(tuple(smaller_apis(plan)), tone="warning"),
            Figures((lambda: _trust(plan),), beside=False),
        ),
        beside=(
            Group((TablePart(to_sign(plan)),), signing if plan.commitments else nothing, key="to-sign"),
            Group((demand, Lines((_demand_note(plan),), tone="small")), "What could move it", key="moves"),
            Group(
                (others, Lines(tuple(_elsewhere_notes(plan)), tone="small")),
                "What the same costs elsewhere",
                key="elsewhere",
            ),
        ),
        below=(Figures((lambda: by_workload(plan, brief=True),), beside=False),),
        formats=RICH,
    )


def _per_what(plan: Plan) -> Sentence:
    costs = token_costs(plan)
    read, written = tokens(costs.input_tokens_per_month), tokens(costs.output_tokens_per_month)
    if costs.usd_per_1m_input is not None and costs.usd_per_1m_output is not None:
        split = f"in {usd_small(costs.usd_per_1m_input)} ({read}), out {usd_small(costs.usd_per_1m_output)} ({written})"
    else:
        split = f"{read} tokens in, {written} out a month"
    answered = sum(w.requests_per_month - w.shed_requests_per_month for w in plan.workloads)
    each = f" · {usd_small(1e3 * plan.cost_usd_per_month / answered)} / 1,000 requests" if answered else ""
    return Mark(f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens{each}"), " ", Mark(split, "small")


def _to_run(plan: Plan) -> Iterator[str | Mark]:
    """The fleet in a sentence."""
    gpus: dict[str, list[int]] = {}
    for line in plan.fleet:
        counts = gpus.setdefault(line.gpu, [0] * len(plan.slots))
        gpus[line.gpu] = [n + k * line.gpus_per_instance for n, k in zip(counts, line.instances_by_slot, strict=True)]
    ranked = sorted(gpus, key=lambda g: (-max(gpus[g]), g))
    apis = sorted({w.api for w in plan.workloads if w.api})
    if not ranked:
        yield f"Buy all of it from {', '.join(apis) or 'nobody'}."
        return
    hardware = ", ".join(f"{span(gpus[g])} x {g}" for g in ranked[:KINDS_SAID])
    more = f" and {counted(len(ranked) - KINDS_SAID, 'other kind')} of GPU" if len(ranked) > KINDS_SAID else ""
    yield from ("Run ", Mark(hardware), more)
    if apis:
        requests = sum(w.requests_per_month for w in plan.workloads)
        share = sum(w.api_share_frac * w.requests_per_month for w in plan.workloads) / requests
        of_cost = percent(plan.costs.api_usd_per_month / plan.cost_usd_per_month)
        yield f", and buy {percent(share)} of the requests ({of_cost} of the cost) from {', '.join(apis)}"
    yield "."


def _verdict(plan: Plan) -> Sentence:
    b = plan.baseline
    size = size_beside(plan, f"{b.provider}/{b.model}", tuple(w.name for w in plan.workloads))
    smaller = f" (a smaller model: {size})" if "asked" in size else ""
    saves, api = b.savings_usd_per_month, f"{phrases.baseline_name(plan)}{smaller}"
    if abs(saves) < phrases.NOTHING_USD:
        return "Nothing is cheaper than ", Mark(api), "."
    if saves > 0 and phrases.no_api_is_allowed(plan):
        less = f"Costs {usd(saves)} / month ({percent(b.savings_frac)}) less"
        return Mark(less), f" than {api}, which no workload may use."
    if saves > 0:
        return Mark(f"Saves {usd(saves)} / month ({percent(b.savings_frac)})", "good"), f" against {api}."
    return Mark(f"Costs {usd(-saves)} / month ({percent(-b.savings_frac)}) more", "bad"), f" than {api}."


def _remarks(plan: Plan) -> Iterator[str]:
    costs = "has cost and penalty below" if plan.penalty_usd_per_month else "costs less than"
    how = "optimal" if plan.status == "optimal" else f"within {percent(plan.gap_frac, 2)}"
    if phrases.bounded(plan) or not plan.cost_usd_per_month:
        yield f"Proved {how}: no fleet that the proof covers {costs} {usd(plan.bound_usd_per_month)}"
    else:
        yield "Checked, but the time was too short to prove how near it is to the optimum"
    if break_even := _break_even(plan):
        yield break_even
    reached = [line for line in phrases.limits_reached(plan) if not line.startswith("min_replicas")]
    if reached:
        more = f"; and {len(reached) - 1} more" if len(reached) > 1 else ""
        yield f"Limit reached: {ended_at_a_word(reached[0].replace('_', ' '), BINDS_LIMIT)}{more}"
    yield from phrases.first_notes(plan)
    if (refused := phrases.refused_sentence(plan)) and not phrases.refuses_much(plan):
        yield refused


def _break_even(plan: Plan) -> str:
    study = plan.studies.break_even if plan.studies else None
    if study is None or not study.points:
        return ""
    from planner.reports.charts.break_even import always_cheaper

    if not study.crossings:
        detail = "cheaper at every" if always_cheaper(study) else "not cheaper at any"
        return f"Break-even: none; own GPUs are {detail} volume looked at."
    volumes = [tokens(c.tokens_per_month) for c in study.crossings]
    team = f"engineers {usd(study.engineers_usd_per_month)}" if study.engineers_usd_per_month else "without engineers"
    more = f", again at {', '.join(volumes[1:])}" if len(volumes) > 1 else ""
    return f"Break-even: {volumes[0]} tokens a month{more}; {team}."


def _demand_note(plan: Plan) -> str:
    kept = "commitments stay as signed; " if plan.commitments else ""
    missing = phrases.left_out(plan)
    more = f". {capital(missing)}" if missing else ""
    return f"If demand differs, {kept}replicas, hours and API bills follow it{more}"


def _elsewhere_notes(plan: Plan) -> Iterator[str]:
    """What the bills leave out, and how a plan may use a cheaper one."""
    bills = plan.studies.providers if plan.studies else ()
    if plan.costs.engineers_usd_per_month and any(b.role == "same model" for b in bills):
        yield "Bills of some workloads stand beside their own cost, engineers aside"
    if next(phrases.cheaper_providers(plan), None):
        yield "A plan may buy from an API that menu.apis names"
    barred = [w.name for w in plan.case.workloads if not w.api_allowed]
    if barred and any(set(b.workloads) & set(barred) for b in bills):
        yield f"No API may serve {phrases.alike(barred)} (api: forbidden): their bills only compare"


def _trust(plan: Plan) -> Html:
    """How far the throughput behind the plan is backed, by the GPU-hours kept busy."""
    from planner.reports.charts.colours import BASES

    hours: dict[str, float] = {}
    for d in (d for p in plan.pools for d in p.deployments):
        busy = sum(s.hours_per_month * x for s, x in zip(plan.slots, d.load_by_slot, strict=True))
        hours[d.deployment.basis] = hours.get(d.deployment.basis, 0.0) + busy * d.deployment.gpus_per_replica
    total = sum(hours.values())
    if not total:
        return Html("")
    pieces, shares, start = [], [], 0.0
    for basis in [*(b for b in BASES if b in hours), *sorted(set(hours) - set(BASES))]:
        share = hours[basis] / total
        pieces.append((f"b{BASES.get(basis, 7)}", start, share))
        shares.append(f"{percent(share)} {basis}")
        start += share
    text = f"Throughput behind it: {', '.join(shares)}; mean error {phrases.throughput_error(plan)}"
    return el("div", el("p", text), bar(pieces, text + ", by GPU-hours kept busy"), class_="trust", id="trust")
