"""Windward's choice for kube-scheduler, as a scheduler extender; no command runs it yet.

protocol  the bodies that the scheduler sends and reads
answer    from a ranking to scores, and to the nodes that are kept
extender  what the verbs answer, without a server
pending   the pods that were scored and are not in the ledger yet
"""
