"""Tests of Windward inside Kubernetes."""
