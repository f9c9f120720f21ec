"""Filters and scores over all machines at once, the profiles that combine them, and the answer in words."""
