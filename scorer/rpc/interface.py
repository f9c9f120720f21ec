"""What the loop asks of the object that answers the queries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from schemas.rpc import Query
from scorer.placement.steps import Steps
from scorer.wire import Command


class Service(Protocol):
    """What answers the queries."""

    @property
    def methods(self) -> Collection[str]:
        """The methods there are."""

    def reads(self) -> Sequence[Command]:
        """Return commands to be sent with the taking of a query, after it; their answers go to `accept`."""

    def accept(self, answers: Sequence[Any]) -> None:
        """Take the answers of `reads`, before any of the taken queries is answered."""

    def taken(self, queries: Sequence[Query]) -> None:
        """Note the queries that were taken together, before the first of them is answered."""

    def known(self, query: Query) -> bool:
        """Return whether the answer to a query that was taken is there: the one before it goes in the same write."""

    def steps(self, query: Query) -> Steps[bytes]:
        """Return the result as JSON, in steps; raise CallError or InvalidRequest."""

    def writes(self) -> Sequence[Command]:
        """Return commands to be sent with the answer; what they return is ignored."""

    def prepare(self) -> None:
        """Make ready for the next query; no query waits now."""

    def lost(self) -> None:
        """The connection was lost: what was read may be from another life of the server."""
