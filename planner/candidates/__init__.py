"""Which deployments can serve which pools, and why the others cannot."""
