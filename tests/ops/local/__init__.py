"""Tests of the local servers and processes."""
