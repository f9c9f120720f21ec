"""Tests of the scores, one file each."""
