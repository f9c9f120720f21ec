"""Windward's placement for kube-scheduler, as a scheduler extender: ``windward extender``."""
