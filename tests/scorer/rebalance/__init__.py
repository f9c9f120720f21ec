"""Tests of what should move, and why."""
