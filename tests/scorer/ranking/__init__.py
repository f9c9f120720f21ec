"""Tests of filters, scores, profiles and ranking."""
