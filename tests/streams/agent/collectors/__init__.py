"""Tests of the collectors, one file each."""
