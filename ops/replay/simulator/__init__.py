"""The simulation, and what places, moves and evicts in it."""
