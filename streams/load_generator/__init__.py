"""The load generator: publishes the samples of many machines from one process, simulated or recorded."""
