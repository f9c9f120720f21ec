"""The threads of a scorer beside its queries: snapshot, expiry, checks of the ledger, learning, heartbeats."""
