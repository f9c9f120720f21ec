"""One instance's record in the ledger, its rules, limits and transitions. Pure."""
