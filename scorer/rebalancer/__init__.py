"""The daemon that proposes moves: ``windward rebalancer``.

settings     its settings
proposals    the outcomes of the open proposals, and new ones (pure)
moves_queue  the lists in Redis and the fence
daemon       the rounds, under a lease
metrics      what it counts
"""
