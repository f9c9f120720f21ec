"""Tests of what follows pods."""
