"""How many more instances of a kind, or of a mix, fit. Pure."""
