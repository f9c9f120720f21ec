"""A stream worker's data about itself, stored with each partition's state, for ``windward doctor``."""

from __future__ import annotations

import msgspec


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """The field ``worker`` of the hash `schemas.names.Names.state`, JSON.

    An earlier release does not change the field: it is valid only if ``written_at`` equals that of the hash.
    """

    version: str
    written_at: float
    """Epoch s of the write, as in the field ``written_at`` of the hash."""
    name_taken: dict[str, tuple[str, float]] = {}
    """By machine whose name two live hosts use: the key of the one that is refused, record time of its last message."""

    def encode(self) -> bytes:
        """Return the field's value."""
        return msgspec.json.encode(self)


def read_worker(raw: bytes | None, written_at: bytes | None) -> Worker | None:
    """Return the data of the worker of the last write; None when its release wrote none.

    >>> said = Worker(version="0.2.0", written_at=7.5)
    >>> read_worker(said.encode(), b"7.5").version, read_worker(said.encode(), b"8.0"), read_worker(None, b"8.0")
    ('0.2.0', None, None)
    """
    try:
        found = msgspec.json.decode(raw or b"", type=Worker)
        return found if found.written_at == float(written_at or b"") else None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None
