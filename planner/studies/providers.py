"""What the requests of a plan would cost at several API providers: the baseline, those that the user compares with,
and those that sell the open model which serves a workload, or may serve one that the plan buys from an API."""

from __future__ import annotations

from planner.plan.plan import Plan
from planner.plan.sellers import SAME_MODEL, able, bill_of, by_cost, known, requests_of, sellers
from planner.plan.study_records import ProviderBill


def providers(plan: Plan) -> tuple[ProviderBill, ...]:
    """The baseline, then what the user names, then who sells the same models, each group by rising bill."""
    case = plan.case
    asked = requests_of(plan)
    everyone = tuple(w.name for w in case.workloads)
    bills = [bill_of(case.apis[case.baseline], "baseline", everyone, asked)]
    compared = [name for name in case.compare_with or () if name != case.baseline]
    bills += sorted((bill_of(case.apis[name], "compared", everyone, asked) for name in compared), key=by_cost)
    taken = {case.baseline, *compared}
    runs = {w.name: set(w.models) or {c.model for c in asked[w.name][0].models} for w in plan.workloads}
    sold = ((name, able(case, name, runs)) for name in sellers() if name not in taken)
    same = (bill_of(known(name), SAME_MODEL, workloads, asked) for name, workloads in sold if workloads)
    return (*bills, *sorted(same, key=by_cost))
