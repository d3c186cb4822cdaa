"""The search: branch and bound, warm starts, the frontier of budgets and the worker process."""
