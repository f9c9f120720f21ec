"""The extender's metrics."""

from schemas.process.metrics import Table, counter, gauge, histogram

VERBS = ("prioritize", "filter", "bind")
ANSWERED = "answered"
NEUTRAL = ("other", "unready", "silent", "stale", "late", "refused", "failed")
"""Why an answer leaves all to the scheduler: another scheduler's pod; nothing was read yet; Redis is silent; data are
stale; no time was left; the pod or the question cannot be read; an error here."""
REFUSED = ("limits", "pod", "api", "ledger", "busy")
"""Why a pod was not bound: a limit of its node; it is gone, or bound; the API server; the ledger; too many at once, or
another try of the same pod is under way."""
_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.15, 0.2, 0.5, 1.0, 5.0)


class Metrics(Table):
    """Its metrics, in a registry of their own; every known label begins at 0."""

    PROCESS = "extender"

    answers = counter(
        "windward_extender_answers",
        "Answers, by verb and result: answered, or why neutral",
        verb=VERBS,
        result=(ANSWERED, *NEUTRAL),
    )
    seconds = histogram("windward_extender_seconds", "Time of an answer", _SECONDS, verb=VERBS)
    unknown = counter("windward_extender_unknown_nodes", "Nodes asked about that the fleet does not know")
    refused = counter("windward_extender_refused_binds", "Pods that were not bound, by reason", reason=REFUSED)
    steered = counter("windward_extender_steered", "Pods that got the node held for the replacement of an evicted one")
    pending = gauge("windward_extender_pending", "Pods that count, and are not in the ledger yet")
    up = gauge("windward_extender_up", "1 while windows and ledger are read")
