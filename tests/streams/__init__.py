"""Tests of the stream side."""
