"""Changed cases planned again: waterfall, break-even, providers, what-if and the frontier of budgets."""
