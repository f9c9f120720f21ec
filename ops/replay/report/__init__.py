"""The results of a replay: figures, ratios with intervals, tables."""
