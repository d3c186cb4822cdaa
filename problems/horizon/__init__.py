"""Several quarters and scenarios: the instance, its master, the bound, and what is minimized over scenarios."""
