"""`fleetplan catalog` and its verbs."""
