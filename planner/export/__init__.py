"""A saved plan as files for what runs fleets: manifests and services, to be reviewed and applied by people."""
