"""Shell: reads a pod, and evicts it by the Eviction API, which keeps to PodDisruptionBudgets.

Reference: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
"""

import http.client

import msgspec

from scorer.kubernetes.api_calls import Answer, Calls, NoAnswer, pod_path
from scorer.kubernetes.evictor.rules import EvictedPod, read_evicted_pod
from scorer.kubernetes.pods_body import UNREADABLE

BUDGET_STATUS = (http.client.TOO_MANY_REQUESTS, http.client.INTERNAL_SERVER_ERROR)
"""A budget allows none now; two budgets match the pod."""
GONE_STATUS = (http.client.NOT_FOUND, http.client.CONFLICT)
"""There is no such pod; or another one has this name."""


class CannotAsk(Exception):
    """The API server cannot be reached, or refuses."""


class Evictions:
    """Evicts pods, by one API server."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def pod(self, namespace: str, name: str) -> EvictedPod | None:
        """Return a pod, None where there is none. Raises CannotAsk."""
        try:
            answer = self._calls.call("GET", pod_path(namespace, name))
            if answer.status == http.client.NOT_FOUND:
                return None
            if answer.status != http.client.OK:
                raise CannotAsk(answer.said)
            return read_evicted_pod(answer.body)
        except (NoAnswer, *UNREADABLE) as error:
            raise CannotAsk(str(error)) from None

    def evict(self, pod: EvictedPod, *, dry_run: bool) -> Answer:
        """Request the eviction of this pod, and of no other with its name. Raises NoAnswer."""
        about = pod.metadata
        options: dict[str, object] = {"preconditions": {"uid": about.uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": options,
            "metadata": {"name": about.name, "namespace": about.namespace},
        }  # fmt: skip
        return self._calls.post(pod_path(about.namespace, about.name, "/eviction"), msgspec.json.encode(body))
