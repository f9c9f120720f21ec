"""Tests of the methods that a scorer answers."""
