"""The steps from the ledger's instances to those that are wanted. Pure."""
