"""Tests of the ledger: records, scripts, columns."""
