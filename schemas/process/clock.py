"""When a process says that its clock is off."""

CLOCK_OFF_S = 1.0
"""A clock that is further from that of the server, or of the broker, is said to be off."""
