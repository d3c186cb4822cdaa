"""Column generation: the restricted master, pricing, the dual bound and reduced-cost fixing."""
