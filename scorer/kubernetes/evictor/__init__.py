"""`windward evictor`: carries out proposed moves of pods by evicting them, and steers their replacements to the target.

rules       which pods may be evicted, and how many at a time
evictor     takes proposals off their list, holds the target, evicts, sees the replacement
"""
