"""Which instances should move, and why. Pure: values in, a plan out.

pool             the machines and instances that are balanced, as columns
thresholds       when a machine is over, and when it is under
anomaly          how many rounds in a row make a machine a source
eviction_order   which instance of a machine goes first
low_node_load    all of it together, by the rules of Koordinator's descheduler
"""
