"""`windward demo`: the stack at work."""
