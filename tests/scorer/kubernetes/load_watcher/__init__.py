"""Tests of the load watcher."""
