"""LowNodeLoad of Koordinator's descheduler: machines above a threshold give to machines below one. Pure.

low_node_load    one round by the rules: start here
thresholds       when a machine of the pool is over, and when it is under
anomaly          how many rounds in a row make a machine a source
eviction_order   which instance of a machine goes first
"""
