"""The daemon that proposes moves: ``windward rebalancer``.

settings     its settings
daemon       the rounds, under a lease; `scorer.planning.balance` has the plan and the proposals
moves_queue  the lists in Redis and the fence
metrics      what it counts
"""
