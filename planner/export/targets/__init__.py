"""One file for each target, called after it: `export`, from a HostedFleet to an Export."""
