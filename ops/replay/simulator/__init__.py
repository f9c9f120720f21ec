"""The simulation, and the policies that place, move and evict instances in it."""
