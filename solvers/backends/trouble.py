"""What a machine may lack; nobody has to take it for a defect of fleetplan."""

from __future__ import annotations


class MachineTrouble(RuntimeError):
    """This machine lacks what a solve needs, as room for files; the message is a sentence for the user."""


class SolverMissing(MachineTrouble):
    """The solver asked for cannot be run on this machine."""
