"""A bill as a FOCUS export: every charge is put somewhere, and what was paid is held against what was planned."""
