"""`windward top`: the fleet in a terminal."""
