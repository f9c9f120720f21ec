"""How to empty machines: one, the cheapest, or of instances whose class no longer fits. Pure."""
