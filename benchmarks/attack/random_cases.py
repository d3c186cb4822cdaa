"""Random demand files, planned in several ways that must agree; every plan is worked out again by hand."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml
from arithmetic import MILLIONTH, Books
from demand_files import Demand, is_limited, random_demand, reordered, widened
from tally import Attack, Row, environment, fleetplan, tell

import planner
from solvers.backends.clock import ask_to_stop

CASES, LONGEST_S = 300, 5
GAPS = (0.0, 0.001)
GROUP = "random"
CHECKS = {
    "codes": "CBC and HiGHS: same exit code, and each one's bound is at most the other's cost",
    "bound": "bound at most the cost, and the gap asked for is reached (else it is said)",
    "money": "the cost, summed up again by hand from the saved JSON",
    "gpus": "GPUs in use are bought, firm ones not as spot, in every slot",
    "served": "every request is somewhere, on replicas with room for it",
    "wishes": "volumes, regions, ways to buy, quotas and budget as the demand file says",
    "checker": "fleetplan's own checker agrees",
    "options": "no more expensive than the cheapest options of its own table, where nothing is limited",
    "order": "the order of workloads and menu entries does not matter",
    "wider": "one more GPU, quantization or way to buy on the menu costs no more",
    "bytes": "the same file gives the same bytes, also in another process with another hash seed",
}


@dataclass(frozen=True)
class Planned:
    """The exit code that the command would end with, and the plan."""

    code: int
    plan: dict[str, Any] | None
    text: str = ""

    @property
    def objective(self) -> float:
        assert self.plan is not None
        return float(self.plan["cost_usd_per_month"] + self.plan["penalty_usd_per_month"])

    @property
    def bound(self) -> float:
        assert self.plan is not None
        return float(self.plan["bound_usd_per_month"])


@dataclass(frozen=True)
class Finding:
    check: str
    failures: tuple[str, ...]
    value: float = -1.0
    worst: str = ""


def attack_random_cases(attack: Attack) -> list[Row]:
    rows = {key: Row(GROUP, what) for key, what in CHECKS.items()}
    seeds = [1000 * attack.seed + k for k in range(attack.times(CASES))]
    late = 0
    with ProcessPoolExecutor(attack.jobs) as pool:
        for done, found in enumerate(pool.map(_attacked, seeds, [str(attack.place("cases"))] * len(seeds)), 1):
            for finding in found:
                rows[finding.check].add(finding.failures)
                rows[finding.check].measure(finding.value, finding.worst)
                late += finding.check == "bound" and ": interrupted" in finding.worst
            if done % 20 == 0:
                tell(f"{GROUP}: {done} of {len(seeds)}, {sum(len(r.failures) for r in rows.values())} failures")
    rows["bound"].worst += f"; {late} plans were interrupted after {LONGEST_S} s, and checked as they were"
    return list(rows.values())


def _attacked(seed: int, folder: str) -> list[Finding]:
    rng = Random(seed)
    demand, gap, place = _valid_demand(rng), rng.choice(GAPS), f"seed {seed}"
    file = Path(folder) / f"demand-{seed}.yaml"
    file.write_text(yaml.safe_dump(demand, sort_keys=False), encoding="utf-8")
    first, second = planned(demand, "cbc", gap), planned(demand, "highs", gap)
    found = [_agree("codes", place, first, second)]
    for solver, one in (("CBC", first), ("HiGHS", second)):
        if one.plan is not None:
            found += list(_checked(f"{place} with {solver}", one, demand, gap))
    how = ("order", "wider", "bytes")[seed % 3]
    if how == "bytes":
        again = planned(demand, "cbc", gap)
        same = first.code == again.code and (first.plan is None or first.text == again.text)
        same |= 130 in (first.code, again.code)
        found.append(Finding("bytes", () if same else (f"{place}: planned again, it differs",)))
        if seed % 4 == 0:
            found.append(_same_bytes(place, file, first, gap))
    elif how == "order":
        found.append(_agree("order", place, first, planned(reordered(demand, rng), "cbc", gap)))
    else:
        found.append(_costs_no_more(place, first, planned(widened(demand, rng), "cbc", gap)))
    return found


def _valid_demand(rng: Random) -> Demand:
    """Not every GPU is rented in every region."""
    while True:
        demand = random_demand(rng)
        try:
            planner.case_from_text(yaml.safe_dump(demand))
        except planner.InputError:
            continue
        return demand


def planned(demand: Demand, solver: Any, gap: float) -> Planned:
    """Plan in this process, as the command would; interrupted like a user does where it takes too long."""
    from planner.explanations.relaxations import Infeasible
    from planner.io.errors import InputError, OutOfTime

    signal.signal(signal.SIGALRM, ask_to_stop)
    signal.alarm(LONGEST_S)
    try:
        case = planner.case_from_text(yaml.safe_dump(demand, sort_keys=False))
        plan = planner.plan_fleet(case, planner.Options(solver=solver, gap_frac=gap))
    except InputError as error:
        return Planned(2, None, str(error))
    except Infeasible as error:
        return Planned(3, None, str(error))
    except OutOfTime as error:
        return Planned(4, None, str(error))
    except KeyboardInterrupt:
        return Planned(130, None, "interrupted without a plan")
    except Exception as error:  # what the command would call a defect
        return Planned(1, None, f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
    text = plan.to_json()
    return Planned(130 if plan.interrupted else 0, json.loads(text), text)


def _checked(place: str, one: Planned, demand: Demand, gap: float) -> Iterator[Finding]:
    plan, books = one.plan, Books(one.plan or {})
    assert plan is not None
    proved = plan["status"] in ("optimal", "within-gap")
    bad = [] if one.bound <= one.objective * (1 + 1e-9) else [f"{place}: bound {one.bound} above {one.objective}"]
    if proved and plan["gap_frac"] > gap + 3e-6:
        bad.append(f"{place}: called {plan['status']} with a gap of {plan['gap_frac']}")
    yield Finding("bound", tuple(bad), plan["gap_frac"], f"{place}: {plan['status']}, gap {plan['gap_frac']:.2%}")
    cost, by_hand = plan["cost_usd_per_month"], books.cost_usd_per_month()
    off = abs(cost - by_hand) / max(cost, 1e-9)
    bad = [f"{place}: says {cost}, by hand {by_hand}"] if off > MILLIONTH else []
    yield Finding("money", tuple(bad), off, f"{place}: off by {off:.0e} of ${cost:,.0f}")
    checks: dict[str, Callable[[], Iterator[str]]] = {
        "gpus": books.missing_gpus,
        "served": books.lost_requests,
        "wishes": lambda: books.broken_wishes(demand),
        "checker": lambda: iter(planner.check_plan(plan)),
    }
    for name, check in checks.items():
        yield Finding(name, tuple(f"{place}: {problem}" for problem in list(check())[:3]))
    if not is_limited(demand) and one.code == 0:
        yield _within_its_options(place, one, gap)


def _agree(check: str, place: str, a: Planned, b: Planned) -> Finding:
    """Same outcome, and neither proves more than the other costs."""
    if a.plan is None or b.plan is None:
        same = (a.code == b.code and a.code in (2, 3, 4)) or (130 in (a.code, b.code) and 1 not in (a.code, b.code))
        return Finding(
            check, () if same else (f"{place}: exit {a.code} and {b.code}: {a.text[-150:]} | {b.text[-150:]}",)
        )
    apart = max(a.bound - b.objective, b.bound - a.objective) / max(a.objective, 1e-9)
    bad = (
        (f"{place}: costs {a.objective} and {b.objective}, bounds {a.bound} and {b.bound}",)
        if apart > MILLIONTH
        else ()
    )
    differ = abs(a.objective - b.objective) / max(a.objective, 1e-9)
    return Finding(check, bad, differ, f"{place}: costs differ by {differ:.3%}, within the gaps")


def _costs_no_more(place: str, narrow: Planned, wide: Planned) -> Finding:
    if narrow.plan is None:
        bad = [f"{place}: exit {wide.code}: {wide.text[-200:]}"] if wide.code in (1, 2) else []
        return Finding("wider", tuple(bad))
    if wide.plan is None:
        return Finding(
            "wider",
            () if wide.code == 130 else (f"{place}: no plan with a wider menu: exit {wide.code}: {wide.text[-150:]}",),
        )
    over = (wide.bound - narrow.objective) / max(narrow.objective, 1e-9)
    bad = (
        [f"{place}: {narrow.objective} became {wide.objective}, proved at least {wide.bound}"]
        if over > MILLIONTH
        else []
    )
    more = (wide.objective - narrow.objective) / max(narrow.objective, 1e-9)
    return Finding("wider", tuple(bad), more, f"{place}: {more:+.3%}, within the gap")


def _within_its_options(place: str, one: Planned, gap: float) -> Finding:
    plan = one.plan
    assert plan is not None
    pools = {p["key"]: p for p in plan["pools"]}
    total, hosted = 0.0, False
    for w in plan["workloads"]:
        special = (
            len(pools[w["pool"]]["workloads"]) > 1
            or len(pools[w["pool"]]["deployments"]) > 1
            or w["moves"]
            or w["shed_flows"]
        )
        options = [
            o
            for o in plan["options"]
            if o["workload"] == w["name"]
            and o["cost_usd_per_month"] is not None
            and not o["shared_with"]
            and not (o["chosen"] and special)
        ]
        if not options:
            return Finding("options", ())
        best = min(options, key=lambda o: o["cost_usd_per_month"])
        total += best["cost_usd_per_month"]
        hosted |= best["gpu"] is not None
    total += plan["case"].get("engineers_usd_per_month", 0.0) if hosted else 0.0
    over = one.objective / max(total, 1e-9) - 1
    bad = (f"{place}: ${one.objective:,.2f}, its options come to ${total:,.2f}",) if over > gap + MILLIONTH else ()
    return Finding("options", bad, over, f"{place}: {over:+.3%} of its options")


def _same_bytes(place: str, file: Path, first: Planned, gap: float) -> Finding:
    """Through the real command."""
    if first.code == 130:
        return Finding("bytes", (), 0.0, f"{place}: not proved in {LONGEST_S} s, not compared")
    out = file.with_suffix(".json")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=file.parent) as cwd:
        ran = fleetplan(
            "plan",
            file,
            "--out",
            out,
            "--gap",
            f"{gap:.1%}",
            "-q",
            cwd=cwd,
            env=environment(PYTHONHASHSEED=str(os.getpid() % 999 + 1)),
        )
    bad = ran.diagnostics([first.code])
    if first.code == 0 and not bad:
        theirs, ours = json.loads(out.read_text(encoding="utf-8")), json.loads(first.text)
        theirs["name"], theirs["case"]["name"], theirs["case_hash"] = (
            ours["name"],
            ours["case"]["name"],
            ours["case_hash"],
        )
        if theirs != ours:
            bad = [f"differs in {[key for key in ours if ours[key] != theirs[key]]}"]
    return Finding("bytes", tuple(f"{place}: {problem}" for problem in bad), time.monotonic() - started, "")
