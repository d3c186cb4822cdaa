"""Everything a plan is made from, resolved and frozen."""
