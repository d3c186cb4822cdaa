"""Solve fleet problems and prove how good the plans are."""
