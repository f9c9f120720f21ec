"""Code that several commands share: calling a scorer, reading a fleet, output."""
