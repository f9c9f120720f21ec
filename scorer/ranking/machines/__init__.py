"""All machines as one decision sees them: rows that follow the ledger, patches of a what-if, columns."""
