"""The result: records of a plan, how to read them, and what changed between two."""
