"""Tests of what plans are carried out with."""
