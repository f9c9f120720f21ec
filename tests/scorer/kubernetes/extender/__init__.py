"""Tests of `scorer.kubernetes.extender`."""
