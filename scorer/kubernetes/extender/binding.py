"""Shell: reserves a pod in the ledger, then binds it by the API server; what is not bound is released.

    GET the pod -> reserve its uid on the node, within limits -> POST the Binding, for this uid only
                                                                   refused  -> release
                                                                   no answer -> GET the pod: bound there, or an error

Where it stays unknown whether a pod was bound, its reservation is left: it ends by itself, and `windward pods` confirms
it when the pod is seen there. The same pod is tried again by the scheduler, so the ledger is asked as by no query: a
query would never reserve anew what has ended.
"""

from __future__ import annotations

import http.client
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec
import redis

from schemas.process.redis_url import in_words
from schemas.rpc.request import Request
from scorer.kubernetes.api_calls import Calls, NoAnswer, pod_path
from scorer.kubernetes.extender.protocol import ExtenderBindingArgs
from scorer.kubernetes.pods_api import ApiServer
from scorer.kubernetes.pods_body import UNREADABLE, Pod, read_pod
from scorer.kubernetes.pods_request import Reading, request_of
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import Outcome, UnknownFormat, Wanted
from scorer.ledger.store.scripts import Ledger
from scorer.wire import AWAY

log = logging.getLogger("windward.extender")

_REFUSED = range(400, 500)


class Refused(Exception):
    """The pod is not bound; the reason is one of `scorer.kubernetes.extender.metrics.REFUSED`."""

    def __init__(self, reason: str, said: str) -> None:
        super().__init__(said)
        self.reason = reason


class Binder:
    """Binds pods; each thread has connections of its own, to the ledger and to the API server."""

    def __init__(self, api: ApiServer, ledger: Callable[[], Ledger]) -> None:
        self._api, self._make_ledger = Calls(api), ledger
        self._own = threading.local()

    def request(self, args: ExtenderBindingArgs, how: Reading) -> Request | None:
        """Return what the pod asks for; None where it is bound to this node already. Raises Refused."""
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
        reserved = self._reserve(args, wanted)
        try:
            answer = self._api.post(pod_path(args.pod_namespace, args.pod_name, "/binding"), _binding(args))
        except NoAnswer as error:
            if self._pod(args).spec.node_name == args.node:
                return
            raise Refused("api", f"the API server has not answered: {error}") from None
        if answer.status < http.client.BAD_REQUEST:
            return
        if answer.status in _REFUSED:
            self._release(reserved)
        raise Refused("api", f"the binding was refused: {answer.said}")

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
            held = outcome.instance
            if held is not None and held.state == "reserved" and not _is_for(args, outcome):
                self._ledger.release(held.id, generation=held.generation)  # of an earlier try
                outcome = self._try(wanted)
        except (*AWAY, UnknownFormat, redis.ResponseError) as error:
            self._ledger.wire.close()
            raise Refused(
                "ledger", f"the ledger cannot be written: {type(error).__name__}: {in_words(error)}"
            ) from None
        if outcome.instance is None or not _is_for(args, outcome):
            where = f"it is on {outcome.instance.machine}" if outcome.instance else ", ".join(outcome.reasons)
            raise Refused("limits", f"the ledger refuses {args.node}: {where or outcome.kind}")
        return outcome.instance

    def _try(self, wanted: Wanted) -> Outcome:
        (outcome,) = self._ledger.reserve([wanted]).outcomes
        return outcome

    def let_go(self, hold: Instance) -> None:
        """Release what holds the node for this pod, so that its place is free."""
        self._release(hold)

    def _release(self, reserved: Instance) -> None:
        with suppress(*AWAY, UnknownFormat, redis.ResponseError):  # it ends by itself
            self._ledger.release(reserved.id, generation=reserved.generation)

    # ---- the API server

    def _pod(self, args: ExtenderBindingArgs) -> Pod:
        try:
            answer = self._api.call("GET", pod_path(args.pod_namespace, args.pod_name))
            pod = read_pod(answer.body) if answer.status == http.client.OK else None
        except (NoAnswer, *UNREADABLE) as error:
            raise Refused("api", f"the API server has not answered: {error}") from None
        if answer.status == http.client.NOT_FOUND or (pod is not None and pod.metadata.uid != args.pod_uid):
            raise Refused("pod", "it is gone")
        if pod is None:
            raise Refused("api", f"the pod cannot be read: {answer.said}")
        return pod


def _is_for(args: ExtenderBindingArgs, outcome: Outcome) -> bool:
    """Return whether the ledger has the pod on this node, for this request."""
    one = outcome.instance
    return one is not None and outcome.kind in ("placed", "known") and one.machine == args.node


def _binding(args: ExtenderBindingArgs) -> bytes:
    about = {"name": args.pod_name, "namespace": args.pod_namespace, "uid": args.pod_uid}
    target = {"apiVersion": "v1", "kind": "Node", "name": args.node}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target})
