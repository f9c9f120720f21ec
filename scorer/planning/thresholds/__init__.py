"""LowNodeLoad of Koordinator's descheduler: machines above a threshold give to machines below one. Pure.

low_node_load    one round by the rules: start here
thresholds       when a machine of the pool is over, and when it is under; which of its instances goes first
anomaly          how many rounds in a row make a machine a source
"""
