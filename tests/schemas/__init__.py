"""Tests of what crosses a process boundary."""
