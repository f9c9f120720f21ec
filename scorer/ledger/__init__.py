"""The ledger: instances, the scripts that change them, and the scorer's current copy as columns."""
