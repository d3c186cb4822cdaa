"""A case becomes a fleet problem, its solution a plan; changed cases are solved again."""
