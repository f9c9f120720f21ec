"""Tests of queries against the fleet: where instances go."""
