"""The RPC envelope: JSON on Redis lists, usable with ``redis-cli`` alone.

LPUSH windward:v1:queries '{"v":1,"id":"q1","method":"rank","deadline":1790000000,"params":{"cpu":2}}'
BLPOP windward:v1:reply:q1 5
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

VERSION = 1
REPLY_TTL_S = 60
"""How long an answer is kept for its caller; a long one is kept shorter (`reply_ttl_s`)."""
REPLY_BYTES = 65_536
"""The longest answer that is kept so long."""
DEADLINE_S = 60.0
"""How long a query without a deadline is valid after a scorer first takes it."""
DEADLINE_MAX_S = 3600.0
"""The longest time for which any query is valid."""

Code = Literal[
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "ABORTED",
    "FAILED_PRECONDITION",
    "PERMISSION_DENIED",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "INTERNAL",
]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """One call. ``id`` is the caller's; the answer comes on the reply list of that id."""

    v: int = VERSION
    id: Annotated[str, Meta(min_length=1, max_length=128)]
    method: str
    deadline: Annotated[float, Meta(ge=0, description="epoch seconds, at most an hour ahead; 0: a minute")] = 0.0
    params: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call failed; ``code`` is gRPC's name. "No machine fits" is an answer, not an error."""

    code: Code
    message: str
    retryable: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer: ``result`` when ``ok``, else ``error``."""

    v: int = VERSION
    id: str
    ok: bool
    result: msgspec.Raw | None = None
    error: Error | None = None


def reply_ttl_s(size: int) -> int:
    """Return how long an answer of so many bytes is kept: 60 s up to 64 KiB, then in inverse proportion to its length.

    So unread answers occupy at most 4 MB for each answer a second; where answers are longer than 2 MB, twice the bytes
    of a second. A caller reads its answer at once; the minimum of 2 s allows for a broken connection.

    >>> reply_ttl_s(1_000), reply_ttl_s(131_072), reply_ttl_s(50_000_000)
    (60, 30, 2)
    """
    return max(2, REPLY_TTL_S * REPLY_BYTES // max(size, REPLY_BYTES))
