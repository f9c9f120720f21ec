"""The methods that a scorer answers over Redis, and the loop that serves them."""
