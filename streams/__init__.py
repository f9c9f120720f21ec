"""Samples in, windows out: the agent and the fleet that publish, the fold, the stream app and its store."""
