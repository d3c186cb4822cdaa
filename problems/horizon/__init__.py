"""Several quarters and scenarios: the instance, its master, and what is minimized over scenarios."""
