"""The learned figures: what an instance of a kind turned out to use. Where they will come in; nothing learns yet.

An instance's own ``expected`` wins over the learned figure of its kind, that over request * factor (`scorer.credits`).
The figure is written into the request before it is ranked and into the ledger with it, so that newcomer and placed
instance agree, whatever is learned later; it is not part of what tells two requests under one id apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from schemas.request import Request


class Learned(Protocol):
    """What is known of the kinds of instances."""

    def __call__(self, kind: str) -> Mapping[str, float]:
        """Return the expected usage by resource name, in base units; a resource nothing is known of is left out."""


def nothing(kind: str) -> Mapping[str, float]:
    """Know of no kind."""
    return {}


def complete(request: Request, learned: Learned) -> Request:
    """Return the request with the learned figures of its kind where it has no figures of its own.

    >>> complete(Request(kind="cache", cpu=4, expected={"nic": 1e6}), lambda kind: {"cpu": 0.3, "nic": 5e6}).expected
    {'cpu': 0.3, 'nic': 1000000.0}
    """
    figures = learned(request.kind) if request.kind else {}
    return msgspec.structs.replace(request, expected={**figures, **request.expected}) if figures else request
