"""Windward inside Kubernetes: opt-in, imported by nothing else."""
