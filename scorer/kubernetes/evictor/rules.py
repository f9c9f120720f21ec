"""Which pods may be evicted, and when. Pure.

A pod is evicted when a controller makes another one that can run elsewhere, and nothing is lost with its node. The
annotation ``cluster-autoscaler.kubernetes.io/safe-to-evict`` counts as it does for cluster-autoscaler: "false" keeps a
pod, "true" gives one up although it has local storage. ``windward.io/movable: "false"`` keeps a pod, too.
"""

from collections import deque
from collections.abc import Collection

from scorer.kubernetes.pods_body import Pod
from scorer.kubernetes.pods_ties import why_it_stays

DECLINED = (
    "gone", "elsewhere", "ending", "bare", "node", "namespace", "system", "kept", "local", "unreadable", "room",
    "budget", "refused",
)  # fmt: skip
"""Why a proposal is declined: there is no such pod; it is on another node; it is being deleted; nothing would make it
again; it belongs to its node; its namespace or its priority class is left alone; an annotation keeps it; it has local
storage; it cannot be an instance; the target has no room; a disruption budget; the API server or the scorer."""
WAITS = ("hour", "at_once", "kind", "backoff")
"""Why a proposal waits, the first two whatever its kind: so many were evicted in an hour; so many are not replaced
yet; one of its kind is not; an eviction of its kind was refused a moment ago."""


def why_not(pod: Pod | None, uid: str, source: str, namespaces: Collection[str]) -> str:
    """Return why a pod is not evicted, one of `DECLINED`; "" where it may be. ``namespaces``: pods in these stay."""
    if pod is None:
        return "gone"
    about = pod.metadata
    reasons = {
        "gone": about.uid != uid,
        "elsewhere": pod.spec.node_name != source,
        "ending": about.deletion_timestamp is not None,
        "namespace": about.namespace in namespaces,
    }
    return next((reason for reason, holds in reasons.items() if holds), "") or why_it_stays(pod)


class Rates:
    """The limits of evictions: in an hour, at a time, and one of a kind at a time."""

    def __init__(self, hour_max: int, at_once: int) -> None:
        self._hour_max, self._at_once = hour_max, at_once
        self._began: deque[float] = deque()
        self._open: set[str] = set()
        self._backoff: dict[str, float] = {}

    def why_wait(self, kind: str, now_s: float) -> str:
        """Return why no eviction of a kind may begin now, one of `WAITS`; "" where one may."""
        while self._began and self._began[0] <= now_s - 3600:
            self._began.popleft()
        if len(self._began) >= self._hour_max:
            return "hour"
        if len(self._open) >= self._at_once:
            return "at_once"
        if kind in self._open:
            return "kind"
        if self._backoff.get(kind, now_s) > now_s:
            return "backoff"
        self._backoff.pop(kind, None)
        return ""

    def begin(self, kind: str, now_s: float) -> None:
        self._began.append(now_s)
        self._open.add(kind)

    def end(self, kind: str) -> None:
        """Record that the evicted pod was replaced, or that its hold has ended."""
        self._open.discard(kind)

    def refuse(self, kind: str, until_s: float) -> None:
        """Start no eviction of a kind until then."""
        self._backoff[kind] = until_s
