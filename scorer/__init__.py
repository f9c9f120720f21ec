"""Windows in, placements out: snapshot, filters, scores, profiles, ranking, the ledger and the RPC."""
