"""Commands about scorer and ledger."""
