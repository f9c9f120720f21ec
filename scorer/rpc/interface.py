"""The interface of the object that answers the queries, as the loop calls it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from schemas.rpc.envelope import Query
from scorer.placement.choosing.steps import Steps
from scorer.wire import Command


class Service(Protocol):
    """Answers the queries."""

    @property
    def methods(self) -> Collection[str]:
        """The methods there are."""

    def reads(self) -> Sequence[Command]:
        """Return commands to be sent after the command that takes a query; their answers go to `accept`."""

    def accept(self, answers: Sequence[Any]) -> None:
        """Take the answers of `reads`, before any of the taken queries is answered."""

    def taken(self, queries: Sequence[Query]) -> None:
        """Note the queries that were taken together, before the first of them is answered."""

    def known(self, query: Query) -> bool:
        """Return whether the answer to a query is already there: then it is sent in one write with the one before."""

    def steps(self, query: Query) -> Steps[bytes]:
        """Return the result as JSON, in steps; raise CallError or InvalidRequest."""

    def writes(self) -> Sequence[Command]:
        """Return commands to be sent with the answer; what they return is ignored."""

    def prepare(self) -> None:
        """Prepare for the next query; called while no query waits."""

    def lost(self) -> None:
        """Note that the connection was lost: the server may have restarted with other data than was read."""
