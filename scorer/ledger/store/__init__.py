"""The ledger in Redis: the scripts that change it, reading it, following its log, checking it."""
