"""Windward's placement for kube-scheduler, as a scheduler extender: ``windward extender``.

settings  its settings
protocol  the bodies that the scheduler sends and reads
answer    from a ranking to scores, and to the nodes that are kept
extender  by which profile nodes are ranked, what is reserved
assumed   the pods that were scored and are not in the ledger yet
fleet     keeps windows and ledger current on a thread of its own
binding   reserves in the ledger, then binds
verbs     the verbs in time: a late, stale or failed answer is a neutral one
server    the verbs over HTTP, beside the usual pages
metrics   what it counts
"""
