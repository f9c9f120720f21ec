"""The ledger as columns, with an overlay for what is not placed yet. Pure."""
