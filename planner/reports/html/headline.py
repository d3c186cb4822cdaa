"""The first screen: what to sign, what it costs and per what, what could move it, and what the same costs elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.errors import ended_at_a_word
from planner.io.formatting import counted, percent, span, tokens, usd, usd_small
from planner.plan.plan import Plan
from planner.plan.quality_notes import size_beside, smaller_apis
from planner.plan.token_costs import token_costs
from planner.reports.charts.break_even import always_cheaper
from planner.reports.charts.colours import BASES
from planner.reports.charts.money import by_workload
from planner.reports.html.page import hero
from planner.reports.markup import Html, bar, el, join, name, panel
from planner.reports.phrases import (
    NOTHING_USD,
    alike,
    baseline_name,
    bounded,
    cheaper_providers,
    first_notes,
    held_sentence,
    left_out,
    limits_reached,
    no_api_is_allowed,
    refused_sentence,
    refuses_much,
    sheds_much,
    throughput_error,
)
from planner.reports.tables.answers import elsewhere, to_sign, what_moves_it
from planner.reports.tables.html import table_html

KINDS_SAID = 4
BINDS_LIMIT = 120
"""characters; the table of limits has all"""


def notices(plan: Plan) -> Iterator[Html]:
    """What nobody may overlook."""
    if plan.status == "interrupted":
        near = f"proved within {percent(plan.gap_frac, 2)} only" if bounded(plan) else "not proved near to the optimum"
        yield _notice(f"The search was interrupted: this plan is checked, but {near}.")
    if held := held_sentence(plan):
        yield _notice(f"{held[0].upper()}{held[1:]}.")
    shed = [w for w in plan.workloads if w.shed_requests_per_month]
    if sheds_much(plan):
        parts = [
            join(
                [f"{percent(w.shed_share_frac)} of ", name(w.name), f" ({tokens(w.shed_requests_per_month)} requests)"]
            )
            for w in shed
        ]
        listed = join(p if k == 0 else join([", ", p]) for k, p in enumerate(parts))
        penalty = f"; a penalty of {usd(plan.penalty_usd_per_month)} / month, not part of the cost."
        yield _notice(el("b", "Shed every month: "), listed, penalty, " Figures are for the rest.")
    if refuses_much(plan):
        yield _notice(_as_sentence(refused_sentence(plan)))


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _notice(*words: str) -> Html:
    return el("p", *words, class_="notice", role="note")


def answer(plan: Plan) -> Html:
    """What it costs and where the money goes; beside it what to sign, what may move it, and who else sells it."""
    lines = (el("p", _per_what(plan)), el("p", *_to_run(plan)), el("p", _verdict(plan)), *_remarks(plan), _trust(plan))
    signing = panel("to-sign", _to_sign_title(plan), table_html(to_sign(plan)))
    moves = panel("moves", "What could move it", table_html(what_moves_it(plan)), _demand_note(plan))
    others = panel("elsewhere", "What the same costs elsewhere", table_html(elsewhere(plan)), _elsewhere_note(plan))
    return hero(
        usd(plan.cost_usd_per_month), " / month", lines, join([signing, moves, others]), by_workload(plan, brief=True)
    )


def _to_sign_title(plan: Plan) -> str:
    if not plan.commitments:
        return "Nothing to sign: all of it is paid as it is used"
    whole = next(row[3] for row in to_sign(plan).rows if row[0] == "in all")
    assert isinstance(whole, float)
    return f"What to sign: {usd(whole)} over the terms"


def _per_what(plan: Plan) -> Html:
    costs = token_costs(plan)
    read, written = tokens(costs.input_tokens_per_month), tokens(costs.output_tokens_per_month)
    if costs.usd_per_1m_input is not None and costs.usd_per_1m_output is not None:
        split = f"in {usd_small(costs.usd_per_1m_input)} ({read}), out {usd_small(costs.usd_per_1m_output)} ({written})"
    else:
        split = f"{read} tokens in, {written} out a month"
    answered = sum(w.requests_per_month - w.shed_requests_per_month for w in plan.workloads)
    each = f" · {usd_small(1e3 * plan.cost_usd_per_month / answered)} / 1,000 requests" if answered else ""
    per_tokens = el("b", f"{usd_small(plan.usd_per_1m_tokens)} / 1M tokens")
    return join([per_tokens, el("b", each), el("span", split, class_="said")])


def _to_run(plan: Plan) -> Iterator[str]:
    """The fleet in a sentence."""
    gpus: dict[str, list[int]] = {}
    for line in plan.fleet:
        counts = gpus.setdefault(line.gpu, [0] * len(plan.slots))
        gpus[line.gpu] = [n + k * line.gpus_per_instance for n, k in zip(counts, line.instances_by_slot, strict=True)]
    ranked = sorted(gpus, key=lambda g: (-max(gpus[g]), g))
    apis = sorted({w.api for w in plan.workloads if w.api})
    if not ranked:
        yield join(["Buy all of it from ", ", ".join(apis) or "nobody", "."])
        return
    hardware = ", ".join(f"{span(gpus[g])} x {g}" for g in ranked[:KINDS_SAID])
    more = f" and {counted(len(ranked) - KINDS_SAID, 'other kind')} of GPU" if len(ranked) > KINDS_SAID else ""
    yield join(["Run ", el("b", hardware), more])
    if apis:
        requests = sum(w.requests_per_month for w in plan.workloads)
        share = sum(w.api_share_frac * w.requests_per_month for w in plan.workloads) / requests
        of_cost = percent(plan.costs.api_usd_per_month / plan.cost_usd_per_month)
        yield f", and buy {percent(share)} of the requests ({of_cost} of the cost) from {', '.join(apis)}"
    yield "."


def _verdict(plan: Plan) -> Html:
    b = plan.baseline
    size = size_beside(plan, f"{b.provider}/{b.model}", tuple(w.name for w in plan.workloads))
    smaller = f" (a smaller model: {size})" if "asked" in size else ""
    saves, api = b.savings_usd_per_month, f"{baseline_name(plan)}{smaller}"
    if abs(saves) < NOTHING_USD:
        return join(["Nothing is cheaper than ", el("b", api), "."])
    if saves > 0 and no_api_is_allowed(plan):
        less = f"Costs {usd(saves)} / month ({percent(b.savings_frac)}) less"
        return join([el("b", less), f" than {api}, which no workload may use."])
    if saves > 0:
        saving = f"Saves {usd(saves)} / month ({percent(b.savings_frac)})"
        return join([el("b", saving, class_="good"), f" against {api}."])
    more = f"Costs {usd(-saves)} / month ({percent(-b.savings_frac)}) more"
    return join([el("b", more, class_="bad"), f" than {api}."])


def _remarks(plan: Plan) -> Iterator[Html]:
    costs = "has cost and penalty below" if plan.penalty_usd_per_month else "costs less than"
    how = "optimal" if plan.status == "optimal" else f"within {percent(plan.gap_frac, 2)}"
    said = [f"Proved {how}: no fleet that the proof covers {costs} {usd(plan.bound_usd_per_month)}."]
    if not bounded(plan) and plan.cost_usd_per_month:
        said = ["Checked, but the time was too short to prove how near it is to the optimum."]
    if break_even := _break_even(plan):
        said.append(break_even)
    reached = [line for line in limits_reached(plan) if not line.startswith("min_replicas")]
    if reached:
        more = f"; and {len(reached) - 1} more" if len(reached) > 1 else ""
        said.append(f"Limit reached: {ended_at_a_word(reached[0].replace('_', ' '), BINDS_LIMIT)}{more}.")
    said += [_as_sentence(note) for note in first_notes(plan)]
    if (refused := refused_sentence(plan)) and not refuses_much(plan):
        said.append(_as_sentence(refused))
    yield from (el("p", line, class_="remark") for line in said)
    yield from (el("p", f"{line[0].upper()}{line[1:]}.", class_="remark warn") for line in smaller_apis(plan))


def _break_even(plan: Plan) -> str:
    study = plan.studies.break_even if plan.studies else None
    if study is None or not study.points:
        return ""
    if not study.crossings:
        detail = "cheaper at every" if always_cheaper(study) else "not cheaper at any"
        return f"Break-even: none; own GPUs are {detail} volume looked at."
    volumes = [tokens(c.tokens_per_month) for c in study.crossings]
    team = f"engineers {usd(study.engineers_usd_per_month)}" if study.engineers_usd_per_month else "without engineers"
    more = f", again at {', '.join(volumes[1:])}" if len(volumes) > 1 else ""
    return f"Break-even: {volumes[0]} tokens a month{more}; {team}."


def _demand_note(plan: Plan) -> Html:
    kept = "commitments stay as signed; " if plan.commitments else ""
    missing = left_out(plan)
    more = f" {missing[0].upper()}{missing[1:]}." if missing else ""
    return el("p", f"If demand differs, {kept}replicas, hours and API bills follow it.{more}", class_="said")


def _elsewhere_note(plan: Plan) -> Html:
    """What the bills leave out, and how a plan may use a cheaper one."""
    bills = plan.studies.providers if plan.studies else ()
    said = []
    if plan.costs.engineers_usd_per_month and any(b.role == "same model" for b in bills):
        said.append("Bills of some workloads stand beside their own cost, engineers aside.")
    if next(cheaper_providers(plan), None):
        said.append("A plan may buy from an API that menu.apis names.")
    barred = [w.name for w in plan.case.workloads if not w.api_allowed]
    if barred and any(set(b.workloads) & set(barred) for b in bills):
        said.append(f"No API may serve {alike(barred)} (api: forbidden): their bills only compare.")
    return el("p", " ".join(said), class_="said") if said else Html("")


def _trust(plan: Plan) -> Html:
    """How far the throughput behind the plan is backed, by the GPU-hours kept busy."""
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
    text = f"Throughput behind it: {', '.join(shares)}; mean error {throughput_error(plan)}"
    return el("div", el("p", text), bar(pieces, text + ", by GPU-hours kept busy"), class_="trust", id="trust")
