"""The digest of a request: what tells two requests under one id apart."""

from __future__ import annotations

import hashlib

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.request import Request

_TTL_S = Request().ttl_s
_sorted = msgspec.json.Encoder(order="deterministic").encode


def request_digest(request: Request) -> str:
    """Return what tells two requests under one id apart; lifetime and how the answer is shown do not count.

    >>> request_digest(Request(cpu=1.0, top=3, ttl_s=9)) == request_digest(Request(cpu=1.0))
    True
    """
    return _digest(request, ttl_s=_TTL_S)


def request_digests(request: Request) -> str:
    """Return the digest and, after a space, that of release 0.1.0, where the lifetime counted and 0 was "not given"."""
    digest, zeros = request_digest(request), [name for name in RESOURCES if getattr(request, name) == 0.0]
    if not zeros and request.ttl_s == _TTL_S:
        return digest
    former = _digest(request, **dict.fromkeys(zeros))
    return digest if digest == former else f"{digest} {former}"


def _digest(request: Request, **changes: float | None) -> str:
    plain = msgspec.structs.replace(request, top=5, explain=False, dry_run=False, **changes)
    return hashlib.blake2b(_sorted(plain), digest_size=9).hexdigest()
