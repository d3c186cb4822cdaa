"""The plan of a horizon: its records, what is read off them, and how two differ."""
