"""What a target makes of a fleet."""

from __future__ import annotations

from dataclasses import dataclass


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
