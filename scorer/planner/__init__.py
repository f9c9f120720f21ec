"""The planner: long queries in a process of their own, and rounds of rebalancing.

It has the scorer's loop (`scorer.rpc.loop`), on lists of its own onto which scorers move such queries. It has a replica
of windows and ledger of its own. It answers one query after the other, in plain code that may take seconds.
"""
