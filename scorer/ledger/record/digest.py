"""The digest of a request: what tells two requests under one id apart."""

from __future__ import annotations

import hashlib

import msgspec

from schemas.rpc.request import Request

_ANY = Request()
_sorted = msgspec.json.Encoder(order="deterministic").encode


def request_digest(request: Request) -> str:
    """Return what tells two requests under one id apart; lifetime and how the answer is shown do not count.

    >>> request_digest(Request(cpu=1.0, top=3, ttl_s=9)) == request_digest(Request(cpu=1.0))
    True
    """
    plain = msgspec.structs.replace(request, top=_ANY.top, explain=False, dry_run=False, ttl_s=_ANY.ttl_s)
    return hashlib.blake2b(_sorted(plain), digest_size=9).hexdigest()
