"""A workload from a recording of a live fleet."""
