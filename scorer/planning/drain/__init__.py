"""Plans that empty machines: chosen ones, or the cheapest; and evictions from over-committed machines. Pure."""
