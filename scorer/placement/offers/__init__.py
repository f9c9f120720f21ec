"""A placement at the ledger: limits, outcomes, and queries that are reserved together. Pure."""
