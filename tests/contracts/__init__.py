"""Suites over everything that is registered."""
