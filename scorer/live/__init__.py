"""The running fleet, as it is read from Redis: window tables, usage by instance, facts, the ledger."""
