"""Samples in, windows out.

agent/            reads a machine's load each second and publishes samples
bridge/           samples from the measurements of other agents
load_generator/   the samples of many machines, simulated or recorded
fold/             from samples to windows: slots, rings, moments, peaks. Pure
state/            the state of a partition, and how it becomes values in Redis and is resumed. Pure
batches           records from a broker, unpacked within a bound
worker/           the stream app: Faust, topics, the store

The store is in `worker` and not in `state`: a folder is either pure or reaches servers, as its line here shows.
"""
