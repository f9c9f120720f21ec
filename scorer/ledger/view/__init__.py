"""The ledger as columns, with an overlay for proposed changes. Pure."""
