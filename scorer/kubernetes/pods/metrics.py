"""The metrics of `windward pods`."""

from schemas.process.metrics import Table, counter, gauge

CHANGES = ("confirmed", "corrected", "released")
LISTS = ("done", "failed")


class Metrics(Table):
    """Its metrics, in a registry of their own; every known label begins at 0."""

    PROCESS = "pods"

    changes = counter("windward_pods_changes", "Instances written to the ledger, by change", change=CHANGES)
    lists = counter("windward_pods_lists", "Lists of all pods, by result", result=LISTS)
    list_s = gauge("windward_pods_list_seconds", "How long the last list took, until it was written")
    refused = gauge("windward_pods_refused", "Running pods that cannot be in the ledger")
    leads = gauge("windward_pods_leads", "1 while this process holds the lease")
    up = gauge("windward_pods_up", "1 while it watches, or waits for the lease")
    heard = gauge(
        "windward_pods_heard_timestamp_seconds", "When the API server said something last to the one that leads"
    )
    nodes = gauge("windward_pods_nodes", "Nodes whose facts are in Redis")
    nodes_refused = gauge("windward_pods_nodes_refused", "Nodes whose facts cannot be read")
    nodes_failed = counter("windward_pods_nodes_failures", "Tries to write nodes' facts that failed")
