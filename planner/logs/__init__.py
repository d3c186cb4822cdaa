"""Request logs, traces and metrics: read once, in one way, and made into demand."""
