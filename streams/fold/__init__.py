"""From samples to windows: slots, rings, moments, peaks, usage by instance. Pure."""
