"""The worlds of a replay: workloads of any size, made from a load trace or read from a file."""
