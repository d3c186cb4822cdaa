"""Valid inequalities: their separation and their pool."""
