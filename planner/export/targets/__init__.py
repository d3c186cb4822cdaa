"""One file for each target, called after it: `export`, from a HostedFleet to an Export.

A target that cannot bring weights in every way lists those that it can as `WEIGHTS_FROM`.
"""
