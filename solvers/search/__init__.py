"""The search: branch and bound, warm starts, the frontier of budgets, horizons and worker processes."""
