"""Tables of bills: what was paid, and a plan as a budget in the rows of a bill."""
