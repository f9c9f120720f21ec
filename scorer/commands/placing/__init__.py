"""Commands that place, rank, and show profiles."""
