"""The daemon that proposes moves: ``windward rebalancer``.

settings     its settings
proposals    what becomes of the open proposals, and what is proposed (pure)
moves_queue  the lists in Redis and the fence
daemon       the rounds, under a lease
metrics      what it counts
"""
