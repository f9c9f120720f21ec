"""A workload from a recording of a live fleet.

recorded   reads a recording and makes the workload; `fleet`, `lives`, `usage` and `times` are its parts
missing    what the recording lacks, in words
"""
