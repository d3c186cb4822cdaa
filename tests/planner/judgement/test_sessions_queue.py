"""Many replicas that hold few sessions at once: whether a plan says that turns may wait there."""

from __future__ import annotations

from types import SimpleNamespace as Of
from typing import Any, cast

from planner.judgement.service import sessions_queue
from planner.plan.plan import Plan
from tests.support.rows import for_each


def plan(
    routing: str = "prefix-aware",
    in_flight: float = 2.1,
    sessions: Any = "some",
    kept: bool | None = None,
    replicas: int = 42,
) -> Plan:
    deployments = [Of(deployment=Of(staffing_in_flight=x), replicas_by_slot=(2, replicas)) for x in (in_flight, 23.0)]
    made = Of(
        case=Of(workloads=[Of(name="agent", sessions=sessions)], limits=Of(routing=routing)),
        verified=None if kept is None else Of(kept=kept),
        workloads=[Of(name="agent", cost_usd_per_month=28_637.0)],
        pools=[Of(workloads=["agent"], deployments=deployments), Of(workloads=["agent"], deployments=[])],
    )
    return cast(Plan, made)


def test_many_replicas_of_two_turns_are_a_concern() -> None:
    (concern,) = sessions_queue(plan())
    assert (concern.key, concern.usd_per_month) == ("sessions-queue", 28_637.0)
    assert "2.1 turns at once" in concern.sentence
    assert list(sessions_queue(plan(kept=False)))


@for_each(
    "other",
    [{"in_flight": 4.0}, {"replicas": 30}, {"routing": "least-requests"}, {"sessions": None}, {"kept": True}],
)
def test_others_are_none(other: dict[str, Any]) -> None:
    assert not list(sessions_queue(plan(**other)))
