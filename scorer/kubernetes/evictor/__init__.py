"""`windward evictor`: carries out proposed moves of pods by evicting them, and steers their replacements to the target.

rules       which pods may be evicted, and how many at a time
evictor     takes proposals, holds the target, evicts, sees the replacement
proposals   the list of proposed moves
eviction    the call of the Eviction API
"""
