"""The account of a plan: every figure that follows from its case and from what was decided."""
