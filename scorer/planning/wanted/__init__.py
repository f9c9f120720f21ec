"""The steps from the ledger's instances to the wanted ones. Pure."""
