"""The pods of a cluster in the ledger: ``windward pods``."""
