"""The search for the cheapest commitments over a horizon."""
