"""What a valid demand file says."""

from __future__ import annotations

from planner.case.case import Case
from planner.case.horizon import requests_per_month, slots_of
from planner.io.errors import escaped
from planner.reports.tables.text import Report


def validation_report(case: Case) -> Report:
    """What a valid file says, so that a reader can see whether it was understood."""
    slots = slots_of(case)
    count = len(case.workloads)
    size = f"{count} workload{'s' * (count != 1)}, {len(case.offers)} instance offers, baseline {case.baseline}"
    lines = [f"{case.name}: valid. {size}"]
    lines += [
        f"  {w.name}: {requests_per_month(w, slots):,.0f} requests a month, "
        f"models {', '.join(m.model for m in w.models)}, {len(w.buckets)} length buckets"
        for w in case.workloads
    ]
    lines += [f"  assumed {a.key}: {a.value} ({a.why})" for a in case.assumptions]
    data = {
        "ok": True,
        "name": case.name,
        "workloads": [{"name": w.name, "requests_per_month": requests_per_month(w, slots)} for w in case.workloads],
        "offers": list(case.offers),
        "assumptions": [a.model_dump() for a in case.assumptions],
        "case_hash": case.hash(),
    }
    return Report("".join(f"{escaped(line)}\n" for line in lines), data)
