"""The agent: one process a machine, reading its load every second and publishing moments; no numpy, no Faust."""
