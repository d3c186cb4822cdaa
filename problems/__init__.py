"""The optimization problem: its data, its recipes and its rows; no solver, no YAML."""
