"""Tests of `scorer.kubernetes.evictor`."""
