"""Serve a plan request by request: arrivals, routing, the engine's rules and what the users would have seen."""
