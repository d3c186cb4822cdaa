"""Ways to serve a pool, slot by slot: on one deployment, on pairs and mixes, now or later."""
