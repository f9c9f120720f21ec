"""The answer of ``place``, with methods that act on its reservations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.rpc.results import ConfirmResult, Line, PlaceResult, ReleaseResult
from schemas.values.mapping import Result
from scorer.client.call import WindwardError


class _Held(Result, kw_only=True, dict=True):
    """A result with reservations, and the client for further calls on them."""

    def _of(self, scorer: Any) -> None:
        for one in (self, *self["placed"]):
            one.__dict__["scorer"] = scorer

    def _own(self, method: str, timeout_s: float | None, more: Mapping[str, object]) -> Any:
        """Call the client's method for this reservation only: with its id and, where known, its generation."""
        own: str | None = self["id"]
        if own is None:
            raise WindwardError("FAILED_PRECONDITION", "the answer has no single reservation; `placed` has all of them")
        generation = {"generation": self["generation"]} if self["generation"] else {}  # 0: of a dry run
        return getattr(self.__dict__["scorer"], method)(own, timeout_s=timeout_s, **generation, **more)


class _HeldHere(_Held, kw_only=True, dict=True):
    """`Client`'s methods for one reservation; they never act on a later one of the same id."""

    def confirm(self, *, timeout_s: float | None = None, **more: object) -> ConfirmResult:
        """Report that the instance runs; FAILED_PRECONDITION when the reservation has ended."""
        return self._own("confirm", timeout_s, more)  # type: ignore[no-any-return]

    def release(self, *, timeout_s: float | None = None, **more: object) -> ReleaseResult:
        """End the instance, or give the reservation back."""
        return self._own("release", timeout_s, more)  # type: ignore[no-any-return]


class _HeldThere(_Held, kw_only=True, dict=True):
    """The calls of `_HeldHere`, awaited."""

    async def confirm(self, *, timeout_s: float | None = None, **more: object) -> ConfirmResult:
        """As `Placement.confirm`."""
        return await self._own("confirm", timeout_s, more)  # type: ignore[no-any-return]

    async def release(self, *, timeout_s: float | None = None, **more: object) -> ReleaseResult:
        """As `Placement.release`."""
        return await self._own("release", timeout_s, more)  # type: ignore[no-any-return]


class Placed(Line, _HeldHere, kw_only=True, dict=True):
    """One placed instance, with methods that act on its reservation."""


class AsyncPlaced(Line, _HeldThere, kw_only=True, dict=True):
    """The same of an `AsyncClient`."""


class Placement(PlaceResult, _HeldHere, kw_only=True, dict=True):
    """The answer of ``place``, with methods for a single reservation; ``placed`` has one entry for each instance."""

    placed: list[Placed] = []  # type: ignore[assignment]


class AsyncPlacement(PlaceResult, _HeldThere, kw_only=True, dict=True):
    """The answer of an `AsyncClient`: its methods are awaited."""

    placed: list[AsyncPlaced] = []  # type: ignore[assignment]
