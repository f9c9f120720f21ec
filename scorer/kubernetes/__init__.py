"""Windward inside Kubernetes: opt-in, imported by nothing else.

pods_api           lists and watches pods by the API server's HTTP
pods_body          a pod's body as an instance
pods_difference    what a list or an event of pods changes in the ledger

No command runs them yet: what writes the differences to the ledger, with a lease and the pods' true start, is missing.
"""
