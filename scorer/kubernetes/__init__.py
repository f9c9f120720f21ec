"""Windward inside Kubernetes: opt-in, imported by nothing else.

load_watcher         the load of all nodes for Trimaran's plugins
extender             scores nodes for kube-scheduler
evictor              carries out proposed moves by the Eviction API
pods                 follows them into the ledger
kubernetes_settings  the cluster and its API server
pods_api             lists and watches pods by the API server's HTTP
pods_body            a pod's body as an instance
pods_request         a pod as a request, the same for one that is bound and one that is to be placed
pods_ties            what ties a pod to its node, as fields of a request
nodes_body           a node's body as the facts of its machine
pods_difference      what a list or an event of pods changes in the ledger
"""
