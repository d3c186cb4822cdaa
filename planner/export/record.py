"""What a target makes of a fleet."""

from __future__ import annotations

from dataclasses import dataclass

from planner.export.promises import POD, Check

IN_JOB = 'job="{name}"'
"""the same where you name the job that scrapes them after the deployment"""


@dataclass(frozen=True)
class Step:
    """Something to do, in its order, with the commands that do it."""

    what: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Export:
    """Files by their path in the folder, and what its README says about them."""

    files: dict[str, str]
    covers: tuple[str, ...]
    steps: tuple[Step, ...]
    left_to_you: tuple[str, ...]
    """besides weights, secrets and the gateway, which every target leaves"""
    cautions: tuple[str, ...] = ()
    """where it differs from the plan"""
    undo: tuple[Step, ...] = ()
    """how to return to what ran before"""
    checks: tuple[Check, ...] = ()
    """of what it promises beside replicas and their speed"""
    replicas_of: str = POD
    """selects the replicas of a deployment in Prometheus, by its {name}"""
    by_the_hour: bool = True
    """whether its files follow the hours of the plan, or people must"""
    reached_at: str | None = None
    """address of a deployment by its {name}, where pools of the gateway target do not fit"""
    brings_gateway: bool = False
    """whether it has what routes, overflows and sheds"""


def undone_by_applying(clusters: list[str]) -> tuple[Step, ...]:
    """Manifests are undone by those of the last export, which a repository keeps."""
    again = tuple(line for c in clusters for line in (f"kubectl diff -f {c}/", f"kubectl apply -f {c}/"))
    return (
        Step("Apply the last good export from the repository where you keep these files.", again),
        Step("Or go back to the previous version of one deployment.", ("kubectl rollout undo deployment/NAME",)),
    )
