"""Programs that exported folders bring along; they run beside the fleet and import nothing of fleetplan."""
