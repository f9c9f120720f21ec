"""A stream worker's data about itself, stored with each partition's state, for ``windward doctor``."""

from __future__ import annotations

import msgspec

from schemas.values.read_json import read_as


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """The field ``worker`` of the hash `schemas.names.Names.state`, JSON."""

    version: str
    name_taken: dict[str, tuple[str, float]] = {}
    """By machine whose name two live hosts use: the key of the one that is refused, record time of its last message."""

    clocks_off: dict[str, float] = {}
    """How far the clock of a machine is ahead of the broker's, s, where it is more than is corrected."""

    def encode(self) -> bytes:
        """Return the field's value."""
        return msgspec.json.encode(self)


def read_worker(raw: bytes | None) -> Worker | None:
    """Return the data of the worker of the last write; None when there is none that can be read.

    >>> read_worker(Worker(version="0.2.0").encode()).version, read_worker(None)
    ('0.2.0', None)
    """
    try:
        return read_as(raw or b"", Worker)
    except msgspec.DecodeError:
        return None
