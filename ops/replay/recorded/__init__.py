"""A workload from a recording of a live fleet.

recorded   reads a recording and makes the workload; says in words what the recording lacks
lives      the lives of its instances, by the ledger's records; usage: what they used by minute, gaps filled in
"""
