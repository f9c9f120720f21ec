"""What a placement puts to the ledger, and what becomes of it: limits, outcomes, queries taken together. Pure."""
