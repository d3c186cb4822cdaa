"""Plans: construction, rounding, diving, local search, relax-and-fix and rolling windows."""
