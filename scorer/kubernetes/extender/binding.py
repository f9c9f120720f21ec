"""Shell: reserves a pod in the ledger, then binds it by the API server, or releases it.

    GET the pod -> reserve its uid on the node, within limits -> POST the Binding, for this uid only
                        else GET the pod: bound there -> done
                                          bound elsewhere -> release, and reserve it where it is, whatever the limits
                                          gone, or the binding was refused -> release
                                          else it stays unknown: an error

Several may try the same pod at once: after the scheduler's timeout, at a change of leaders, by two threads. A POST that
is under way binds the pod where its reservation is, so that reservation holds: another try is refused, and only who has
reserved releases, by generation. Where it stays unknown whether a pod was bound, the reservation is left until no POST
can be under way (`UNDER_WAY_S`): then another try may release it, if the pod is still not bound. It ends by itself, and
`windward pods` confirms it when the pod is seen there.

A process that is suspended between its reservation and its POST does not send it (`SEND_S`). The remaining risk is a
suspension within the sending itself, for longer than `UNDER_WAY_S`.

The pod is reserved without the id of a query: the scheduler tries a pod again, and such an id would forbid a second
reservation.
"""

import http.client
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
import redis

from schemas.process.redis_url import in_words
from schemas.rpc.request import Request
from scorer.kubernetes.extender.protocol import ExtenderBindingArgs
from scorer.kubernetes.pods_api import ANSWER_S, ApiError, ApiServer, pod_path
from scorer.kubernetes.pods_body import Pod
from scorer.kubernetes.pods_request import Reading, request_of
from scorer.ledger.record.instance import CLUSTER, Instance, own_id
from scorer.ledger.record.transition import Candidate, Outcome, UnknownFormat, Wanted
from scorer.ledger.store.scripts import Ledger
from scorer.wire import AWAY

log = logging.getLogger("windward.extender")

SEND_S = 2.0
"""How long after it began to reserve a binder may send its POST."""
UNDER_WAY_S = 20.0
"""How long after its reservation a binding may still be done: `SEND_S`; to connect, for TLS, and the API server's
deadline, `ANSWER_S` each; 7 s that a write of etcd may take after its caller has given up; 2 s more."""
_REFUSED = frozenset(range(400, 500)) - {http.client.REQUEST_TIMEOUT}


TRIED = "another try to bind it is under way"


class Refused(Exception):
    """The pod is not bound; the reason is one of `scorer.kubernetes.extender.fleet.REFUSED`."""

    def __init__(self, reason: str, said: str) -> None:
        super().__init__(said)
        self.reason = reason


class Binder:
    """Binds pods; each thread has connections of its own, to the ledger and to the API server."""

    def __init__(
        self, api: ApiServer, ledger: Callable[[], Ledger], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._make_ledger, self._clock = api, ledger, clock
        self._own = threading.local()

    def request(self, args: ExtenderBindingArgs, how: Reading) -> Request | None:
        """Return the pod's request; None where it is bound to this node already. Raises Refused."""
        pod = self._pod(args)
        if pod.spec.node_name == args.node:
            return None
        if pod.spec.node_name:
            raise Refused("pod", f"it is bound to {pod.spec.node_name}")
        try:
            return request_of(pod, args.pod_uid, how)
        except ValueError as error:
            raise Refused("pod", f"it cannot be an instance: {error}") from None

    def bind(self, args: ExtenderBindingArgs, wanted: Wanted) -> None:
        """Reserve, then bind. Raises Refused."""
        began_s = self._clock()
        reserved = self._reserve(args, wanted)
        if self._clock() - began_s > SEND_S:
            self.release(reserved)
            raise Refused("ledger", "the ledger took too long")
        path = pod_path(args.pod_namespace, args.pod_name, f"/binding?timeout={ANSWER_S:.0f}s")
        about = {"name": args.pod_name, "namespace": args.pod_namespace, "uid": args.pod_uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": args.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}
        try:
            answer = self._api.post(path, msgspec.json.encode(body))
            if answer.status < http.client.BAD_REQUEST:
                return
            refused, why = answer.status in _REFUSED, f"the binding was refused: {answer.said}"
        except ApiError as error:
            refused, why = False, f"the API server has not answered: {error}"
        try:
            node = self._pod(args).spec.node_name
        except Refused as unread:
            if unread.reason == "pod":
                self.release(reserved)
            raise
        if node == args.node:
            return
        if node or refused:
            self.release(reserved)
        if node:  # whatever the limits
            with suppress(*AWAY, UnknownFormat, redis.ResponseError):  # `windward pods` confirms it
                self._try(wanted._replace(candidates=[Candidate(node, -1)]))
            why = f"it is bound to {node}"
        raise Refused("api", why)

    # ---- the ledger

    @property
    def _ledger(self) -> Ledger:
        if not hasattr(self._own, "ledger"):
            self._own.ledger = self._make_ledger()
        ledger: Ledger = self._own.ledger
        return ledger

    def _reserve(self, args: ExtenderBindingArgs, wanted: Wanted) -> Instance:
        try:
            outcome = self._try(wanted)
            if outcome.instance is not None and outcome.kind != "placed":
                self._end_old(args, outcome.instance)
                outcome = self._try(wanted)
        except (*AWAY, UnknownFormat, redis.ResponseError) as error:
            said = f"the ledger cannot be written: {type(error).__name__}: {in_words(error)}"
            raise Refused("ledger", said) from None
        if outcome.instance is None:
            raise Refused("limits", f"the ledger refuses {args.node}: {', '.join(outcome.reasons) or outcome.kind}")
        if outcome.kind != "placed":
            raise Refused("busy", TRIED)
        return outcome.instance

    def _end_old(self, args: ExtenderBindingArgs, held: Instance) -> None:
        """Release the reservation of another try, if that can no longer bind the pod. Raises Refused."""
        if held.state != "reserved":
            raise Refused("pod", f"the ledger has it on {held.machine}")
        if self._ledger.server_time_s() < held.reserved_at + UNDER_WAY_S:
            raise Refused("busy", TRIED)
        if node := self._pod(args).spec.node_name:
            raise Refused("pod", f"it is bound to {node}")
        self._ledger.release(held.id, generation=held.generation)

    def _try(self, wanted: Wanted) -> Outcome:
        """Reserve once; if an instance that is no pod has the uid as its id, under the pod's own id."""
        (outcome,) = self._ledger.reserve([wanted]).outcomes
        there, pod = outcome.instance, wanted.instance
        if there is not None and there.labels.get(CLUSTER) != pod.labels.get(CLUSTER):
            own = msgspec.structs.replace(pod, id=own_id(pod.id))
            (outcome,) = self._ledger.reserve([wanted._replace(instance=own)]).outcomes
        return outcome

    def release(self, reserved: Instance) -> None:
        """Release a reservation for the pod, so that its amounts are free."""
        with suppress(*AWAY, UnknownFormat, redis.ResponseError):  # it ends by itself
            self._ledger.release(reserved.id, generation=reserved.generation)

    # ---- the API server

    def _pod(self, args: ExtenderBindingArgs) -> Pod:
        try:
            pod = self._api.pod(args.pod_namespace, args.pod_name)
        except ApiError as error:
            raise Refused("api", f"the API server has not answered: {error}") from None
        if pod is None or pod.metadata.uid != args.pod_uid:
            raise Refused("pod", "it is gone")
        return pod
