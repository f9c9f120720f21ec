"""What a replay says: figures, ratios with intervals, tables."""
