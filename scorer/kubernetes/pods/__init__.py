"""The pods of a cluster in the ledger: ``windward pods``.

settings  its settings, and how the API server is reached with them
watcher   lists and watches under a lease, and writes what changed to the ledger
"""
