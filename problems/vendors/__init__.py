"""Rows of the master about vendors: what it costs to have one, how many there may be, and what each must serve."""
