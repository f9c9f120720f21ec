"""Tests of the filters, one file each."""
