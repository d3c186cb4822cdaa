"""The master problem: pick one recipe per workload and buy the instances that they need.

    min   sum_g,term reserved[g,term] x 730 h x price
        + sum_g,t hours[t] (on_demand[g,t] x price + spot[g,t] x price), and as much for the time they take to start
        + sum_r,t,s hours[t] x (other_cost + energy + penalty)[r,t,s] x serve[r,t,s]  +  team x its cost
        + sum_x vendor[x] x its cost
        + sum_a signed[a] x 730 h x price  -  sum_a,i,t hours[t] x covered[a,i,t] x what it costs without

under the families listed in FAMILIES, one function each. Money is USD per month, averaged over the months of
the horizon; penalties of what is shed weigh in the objective alone.

The instance is in problems/fleet_problem.py, recipes in problems/recipes/, columns in problems/fleet_variables.py, rows
about whole boxes, which tighten the LP, in problems/valid_inequalities.py. What a recipe costs at dual prices is in
problems/pricing.py. solvers/ generates columns (pricing/), separates cuts (cuts/) and branches (search/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from problems.allowance_rows import (
    allowances_begin_with_the_fewest,
    allowances_cover_what_is_signed,
    no_more_is_covered_than_used,
)
from problems.api_limit_rows import no_api_is_asked_for_more_than_it_takes
from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables, define_variables
from problems.model import Model, Row, build_model
from problems.recipes.vendors import Vendor
from problems.valid_inequalities import boxes_are_rounded_up, own_boxes_are_whole, used_offers_are_charged


def every_workload_is_served(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Each workload is covered by exactly one of the recipes picked.

    sum_{r covers w} pick[r] = 1        for all workloads w        [-]
    """
    for w in fleet.workloads:
        yield Row(("served", w), [(v.pick[r], 1.0) for r in fleet.recipes_of[w]], "==", 1.0)


def every_slot_has_one_serving(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """A recipe that is picked serves each slot in one of its ways.

    sum_s serve[r,t,s] - pick[r] = 0        for all recipes r, slots t with a choice        [-]
    """
    by_slot: dict[tuple[int, int], list[int]] = {}
    for (r, i), column in v.serve.items():
        by_slot.setdefault((r, int(fleet.recipes[r].slot[i])), []).append(column)
    for (r, t), columns in by_slot.items():
        yield Row(("one-serving", r, t), [(c, 1.0) for c in columns] + [(v.pick[r], -1.0)], "==", 0.0)


def gpus_in_use_are_bought(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Every GPU in use stands in an instance that is paid for.

    box[g] (reserved + on_demand + spot)[g,t] - sum_r,s gpus[r,t,s] serve[r,t,s] >= 0    for all g, t    [GPU]

    Where boxes are rounded up afterwards, half a box is added to what is used: it prices the rounding to come.
    """
    for g in sorted(fleet.recipes_on):
        box = float(fleet.offers[g].box)
        use = _gpus_by_slot(fleet, v, g, "in-use")
        for t in range(len(fleet.slot_hours)):
            bought = [(c, box) for c in v.bought(fleet, g, t)]
            charge = [(v.charged[g], -box / 2)] if use[t] and g in v.charged else []
            yield Row(("in-use", g, t), bought + [(c, -n) for c, n in use[t].items()] + charge, ">=", 0.0)


def firm_gpus_are_not_spot(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """GPUs that must survive a reclaim of the offer's spot market stand in reserved or on-demand instances.

    box[g] (reserved + on_demand)[g,t] - sum_r,s firm_gpus[r,t,s] serve[r,t,s] >= 0    for g with spot, t    [GPU]
    """
    for g in sorted(fleet.recipes_on):
        if fleet.offers[g].spot_usd_per_h is None:
            continue
        box = float(fleet.offers[g].box)
        use = _gpus_by_slot(fleet, v, g, "firm")
        for t in range(len(fleet.slot_hours)):
            if use[t]:
                firm = [(c, box) for c in v.firm(fleet, g, t)]
                yield Row(("firm", g, t), firm + [(c, -n) for c, n in use[t].items()], ">=", 0.0)


def replicas_fit_into_boxes(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """A replica stands in one box, and where sizes do not divide the box some of its GPUs stay empty.

    most[g,n] bought[g,t] - sum_r,s (gpus in replicas of n or more)[r,t,s] serve[r,t,s] >= 0
        for g and sizes n of which a box cannot be full (problems/packing.py), t    [GPU]

    and the same for firm GPUs and instances that are not spot.
    """
    for g in sorted(fleet.most_of_a_box.keys() & fleet.recipes_on.keys()):
        kinds = ("in-use",) if fleet.offers[g].spot_usd_per_h is None else ("in-use", "firm")
        for kind, (size, most) in product(kinds, sorted(fleet.most_of_a_box[g].items())):
            use = _gpus_by_slot(fleet, v, g, kind, size)
            for t in range(len(fleet.slot_hours)):
                if use[t]:
                    bought = v.bought(fleet, g, t) if kind == "in-use" else v.firm(fleet, g, t)
                    terms = [(c, float(most)) for c in bought] + [(c, -n) for c, n in use[t].items()]
                    yield Row(("fits", kind, g, size, t), terms, ">=", 0.0)


def instances_are_started_in_time(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """An instance bought by the hour that was not there the hour before is bought for the time it takes to start.

    bought[g,t] - bought[g,before t] - started[g,t] <= 0  for on-demand and spot, all g that start late, t  [instance]
    """
    for (way, g, t), started in v.started.items():
        columns = v.on_demand if way == "on-demand" else v.spot
        before = int(fleet.slot_before[t]) if fleet.slot_before is not None else t
        if before != t:
            terms = [(columns[g, t], 1.0), (columns[g, before], -1.0), (started, -1.0)]
            yield Row(("started", way, g, t), terms, "<=", 0.0)


def deferred_work_is_done(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Work of a recipe that is picked is done where it comes, by the API, or waits.

    sum_t,s room[r,t,s] serve[r,t,s] + sent[r,n] + waits[r,n] - waits[r,before n] - work[r,n] pick[r] >= 0
        for all recipes r of work that may wait, stretches n of slots t (problems/recipes/waiting_line.py)    [work]
    """
    for r, recipe in enumerate(fleet.recipes):
        if recipe.deferral is None:
            continue
        line = recipe.deferral.line
        room = recipe.uses[0].load * fleet.slot_hours[recipe.slot] / line.unit
        terms: list[dict[int, float]] = [{} for _ in line.stretches]
        for i in np.flatnonzero(room).tolist():
            row, column = terms[line.stretch_of[recipe.slot[i]]], v.serving(r, i)
            row[column] = row.get(column, 0.0) + float(room[i])
        for n, row in enumerate(terms):
            if line.work[n]:
                row[v.pick[r]] = row.get(v.pick[r], 0.0) - float(line.work[n])
            others = ((v.sent, n, 1.0), (v.waits, n, 1.0), (v.waits, int(line.before[n]), -1.0))
            of_line = [(columns[r, k], sign) for columns, k, sign in others if (r, k) in columns]
            if row or of_line:
                yield Row(("work-done", r, n), [*row.items(), *of_line], ">=", 0.0)


def deferred_work_is_in_time(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """No work waits longer than it may.

    may_wait[r,n] pick[r] - waits[r,n] >= 0    for all such recipes r, stretches n at whose end work may wait    [work]
    """
    for (r, n), waits in v.waits.items():
        yield Row(("in-time", r, n), [(v.pick[r], float(fleet.line_of(r).may_wait[n])), (waits, -1.0)], ">=", 0.0)


def deferred_work_takes_whole_lots(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """What must be done in some hours is done by whole servings there: of any, all the work at most.

    sum_{t in hours,s} part[r,s] serve[r,t,s] - pick[r] >= 0
        for all such recipes r without an API, hours in a row and measures of the part that a serving does    [-]
    """
    for r, recipe in enumerate(fleet.recipes):
        if recipe.deferral is None or not recipe.deferral.runs:
            continue
        room = recipe.uses[0].load * fleet.slot_hours[recipe.slot] / recipe.deferral.line.unit
        for n, (servings, parts) in enumerate(recipe.deferral.done_in_runs(room, recipe.slot)):
            row = {v.pick[r]: -1.0}
            for i, part in zip(servings.tolist(), parts.tolist(), strict=True):
                column = v.serving(r, i)
                row[column] = row.get(column, 0.0) + part
            yield Row(("lots", r, n), [*row.items()], ">=", 0.0)


def instance_quota_is_kept(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """No more instances of an offer at any time than may be had.

    (reserved + on_demand + spot)[g,t] <= max_instances[g]        for all g with a limit, t        [instance]
    """
    for g in sorted(fleet.recipes_on):
        limit = fleet.offers[g].max_instances
        if limit is not None:
            for t in range(len(fleet.slot_hours)):
                terms = [(c, 1.0) for c in v.bought(fleet, g, t)]
                if terms:  # else nothing is there, and nothing is for sale
                    yield Row(("instance-quota", g, t), terms, "<=", float(limit))


def gpu_quota_is_kept(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """No more GPUs of a type at any time than allowed, over all offers.

    sum_{g of type k} box[g] (reserved + on_demand + spot)[g,t] <= max_gpus[k]        for all k, t        [GPU]
    """
    for gpu, limit in sorted(fleet.max_gpus.items()):
        offers = [g for g in sorted(fleet.recipes_on) if fleet.offers[g].gpu == gpu]
        idle = sum(o.box * o.on_hand for g, o in fleet.offers.items() if o.gpu == gpu and g not in fleet.recipes_on)
        for t in range(len(fleet.slot_hours)) if offers else ():
            terms = [(c, float(fleet.offers[g].box)) for g in offers for c in v.bought(fleet, g, t)]
            if terms:
                yield Row(("gpu-quota", gpu, t), terms, "<=", float(limit - idle))


def power_is_kept(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """No more is drawn at any time than may be, every GPU in use counted at its most.

    sum_g (box_kw[g] (reserved + on_demand + spot)[g,t] + gpu_kw[g] sum_r,s gpus[r,t,s] serve[r,t,s]) <= most
        for all t, where there is such a limit        [kW]

    Instances that are there anyway, and that no recipe uses, take their part of the limit.
    """
    limit = fleet.power
    if limit is None:
        return
    rows: list[dict[int, float]] = [{} for _ in fleet.slot_hours]
    for g in sorted(fleet.recipes_on):
        use = _gpus_by_slot(fleet, v, g, "in-use")
        for t, row in enumerate(rows):
            terms = [(c, limit.box_kw[g]) for c in v.bought(fleet, g, t)]
            terms += [(c, n * limit.gpu_kw[g]) for c, n in use[t].items()]
            for column, kw in terms:
                row[column] = row.get(column, 0.0) + kw
    idle = sum(o.on_hand * limit.box_kw[g] for g, o in fleet.offers.items() if o.on_hand and g not in fleet.recipes_on)
    for t, row in enumerate(rows):
        if row:
            yield Row(("power", t), [*row.items()], "<=", limit.most_kw - idle)


def few_gpu_types_are_used(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """No more kinds of GPU than the team is ready to operate.

    sum_{r uses k, covers w} pick[r] - gpu_type[k] <= 0  for all kinds k, workloads w;  sum_k gpu_type[k] <= N  [-]
    """
    if fleet.max_gpu_types is None or not v.gpu_type:
        return
    for w in fleet.workloads:
        using: dict[str, list[tuple[int, float]]] = {}
        for r in fleet.recipes_of[w]:
            for gpu in fleet.gpus_of(fleet.recipes[r]):
                using.setdefault(gpu, []).append((v.pick[r], 1.0))
        for gpu in sorted(using):
            yield Row(("gpu-type", w, gpu), [*using[gpu], (v.gpu_type[gpu], -1.0)], "<=", 0.0)
    terms = [(c, 1.0) for c in v.gpu_type.values()]
    yield Row(("gpu-types",), terms, "<=", float(fleet.max_gpu_types))


def the_budget_is_kept(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """What a month costs stays within the budget.

    sum of all costs of month m <= budget        for all months m, where there is a budget        [USD/month]

    Both sides count as much as the month does.
    """
    if fleet.budget_usd_per_month is None:
        return
    for month in range(fleet.months):
        if terms := _costs_of_month(fleet, v, month):
            counts = float(fleet.weight_of_month[month])
            yield Row(("budget", month), terms, "<=", fleet.budget_usd_per_month * counts)


def the_budget_of_all_months_is_kept(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """What all months cost together stays within their budget.

    sum of all costs / months <= budget on average        for a fleet with such a budget        [USD/month]
    """
    if fleet.budget_usd_on_average is None:
        return
    total: dict[int, float] = {}
    for month in range(fleet.months):
        for c, usd in _costs_of_month(fleet, v, month):
            total[c] = total.get(c, 0.0) + usd / fleet.months
    if total:
        yield Row(("spend",), list(total.items()), "<=", fleet.budget_usd_on_average)


def _costs_of_month(fleet: FleetProblem, v: Variables, month: int) -> list[tuple[int, float]]:
    """Everything that a month costs, as much as the month counts."""
    counts = float(fleet.weight_of_month[month])
    terms = [(c, v.columns[c].cost * counts) for c in v.reserved.values()]
    for paid_by_slot in (v.on_demand, v.spot):
        terms += [
            (c, v.columns[c].cost * fleet.months) for (_, t), c in paid_by_slot.items() if fleet.slot_month[t] == month
        ]
    terms += [
        (c, v.columns[c].cost * fleet.months) for (_, _, t), c in v.started.items() if fleet.slot_month[t] == month
    ]
    for (r, n), c in v.sent.items():
        if fleet.slot_month[fleet.line_of(r).first_slot[n]] == month:
            terms.append((c, v.columns[c].cost * fleet.months))
    terms += _other_cost_of_month(fleet, v, month)
    if v.team is not None:
        terms.append((v.team, fleet.team_usd_per_month * counts))
    terms += [(c, v.columns[c].cost * counts) for c in v.vendor.values()]
    terms += [(c, v.columns[c].cost * counts) for signed in v.signed.values() for c, _ in signed]
    terms += [(c, v.columns[c].cost * fleet.months) for (*_, t), c in v.covered.items() if fleet.slot_month[t] == month]
    return [(c, usd) for c, usd in terms if usd]


def one_team_if_anything_is_self_hosted(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Whatever runs on GPUs needs the engineering team, once for all workloads.

    sum_{r self-hosted, covers w} pick[r] - team <= 0        for all workloads w        [-]
    """
    if v.team is None:
        return
    for w in fleet.workloads:
        hosted = [(v.pick[r], 1.0) for r in fleet.recipes_of[w] if fleet.recipes[r].self_hosted]
        if hosted:
            yield Row(("team", w), [*hosted, (v.team, -1.0)], "<=", 0.0)


def vendors_in_use_are_paid(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Whatever is picked of a vendor takes an account, a contract and somebody who knows it, once for all workloads.

    sum_{r buys of x, covers w} pick[r] - vendor[x] <= 0        for all vendors x, workloads w        [-]

    One row for each workload, not one for all of them: what is picked in parts costs as large a part of the vendor.
    """
    for w in fleet.workloads if v.vendor else ():
        buying: dict[Vendor, list[tuple[int, float]]] = {}
        for r in fleet.recipes_of[w]:
            for vendor in fleet.vendors_of(fleet.recipes[r]):
                buying.setdefault(vendor, []).append((v.pick[r], 1.0))
        for vendor in sorted(buying):
            yield Row(("vendor", w, *vendor), [*buying[vendor], (v.vendor[vendor], -1.0)], "<=", 0.0)


def few_vendors_are_used(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """No more providers, regions or APIs than the policy allows.

    sum_{x of kind k} vendor[x] <= at_most[k]        for all kinds k with a limit        [-]
    """
    for kind, most in sorted(fleet.vendors.at_most.items()):
        terms = [(column, 1.0) for (k, _), column in v.vendor.items() if k == kind]
        if terms:
            yield Row(("vendors", kind), terms, "<=", float(most))


FAMILIES: tuple[Callable[[FleetProblem, Variables], Iterator[Row]], ...] = (
    every_workload_is_served,
    every_slot_has_one_serving,
    deferred_work_is_done,
    deferred_work_is_in_time,
    deferred_work_takes_whole_lots,
    gpus_in_use_are_bought,
    firm_gpus_are_not_spot,
    replicas_fit_into_boxes,
    own_boxes_are_whole,
    boxes_are_rounded_up,
    used_offers_are_charged,
    instances_are_started_in_time,
    instance_quota_is_kept,
    gpu_quota_is_kept,
    power_is_kept,
    few_gpu_types_are_used,
    the_budget_is_kept,
    the_budget_of_all_months_is_kept,
    one_team_if_anything_is_self_hosted,
    vendors_in_use_are_paid,
    few_vendors_are_used,
    no_api_is_asked_for_more_than_it_takes,
    allowances_cover_what_is_signed,
    allowances_begin_with_the_fewest,
    no_more_is_covered_than_used,
)


def master(fleet: FleetProblem) -> tuple[Model, Variables]:
    """The whole mixed-integer program of a fleet."""
    v = define_variables(fleet)
    return build_model(v.columns, (row for family in FAMILIES for row in family(fleet, v))), v


def _gpus_by_slot(fleet: FleetProblem, v: Variables, g: str, kind: str, size: int = 1) -> list[dict[int, float]]:
    """GPUs that each column uses of an offer, or the firm ones, in replicas of so many or more, slot by slot."""
    use: list[dict[int, float]] = [{} for _ in fleet.slot_hours]
    for r in fleet.recipes_on[g]:
        recipe = fleet.recipes[r]
        gpus = recipe.in_large_replicas(kind, g, size)
        for i in np.flatnonzero(gpus).tolist():
            use[recipe.slot[i]][v.serving(r, i)] = float(gpus[i])
    return use


def _other_cost_of_month(fleet: FleetProblem, v: Variables, month: int) -> list[tuple[int, float]]:
    cost: dict[int, float] = {}
    for r, recipe in enumerate(fleet.recipes):
        hourly = recipe.usd_per_h + fleet.energy_usd_per_h(recipe)
        usd = fleet.slot_hours[recipe.slot] * hourly * (fleet.slot_month[recipe.slot] == month)
        for i in np.flatnonzero(usd).tolist():
            column = v.serving(r, i)
            cost[column] = cost.get(column, 0.0) + float(usd[i])
    return list(cost.items())
