"""Reads JSON that another process, a person or a server wrote. All faults raise one kind of error.

A text may nest so deep that the parser, or a function that walks through the value, ends with a RecursionError. So JSON
that is read without a type is at most `DEPTH_MAX` deep; with a type the parser stops by itself.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

DEPTH_MAX = 64
"""How deep a value without a type may nest."""

_Kind = TypeVar("_Kind")
_Other = TypeVar("_Other")


def reader(kind: type[_Kind], **hooks: Any) -> Callable[[bytes | str | msgspec.Raw], _Kind]:
    """Return a function from JSON to a value of this type; it raises msgspec.DecodeError, and nothing else."""
    decode: Callable[[Any], _Kind] = msgspec.json.Decoder(kind, **hooks).decode

    def read(raw: bytes | str | msgspec.Raw) -> _Kind:
        try:
            return decode(raw)
        except RecursionError:
            raise msgspec.DecodeError("JSON is nested too deep") from None
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(f"JSON is not UTF-8: {error}") from None

    return read


_read_any = reader(object)
_reader: Callable[..., Callable[..., Any]] = cache(reader)


def read_json(raw: bytes | str) -> Any:
    """Return a value without a type, at most `DEPTH_MAX` deep.

    >>> read_json(b'{"a": [1]}')
    {'a': [1]}
    >>> read_json(b"[" * 65 + b"]" * 65)
    Traceback (most recent call last):
        ...
    msgspec.DecodeError: JSON is nested deeper than 64

    Raises msgspec.DecodeError for what is no such value.
    """
    level: list[Any] = [[found := _read_any(raw)]]
    for _ in range(DEPTH_MAX + 1):
        parts = (part for one in level for part in (one.values() if isinstance(one, dict) else one))
        if not (level := [part for part in parts if isinstance(part, dict | list)]):
            return found
    raise msgspec.DecodeError(f"JSON is nested deeper than {DEPTH_MAX}")


def read_as(raw: bytes | str | msgspec.Raw, kind: type[_Kind]) -> _Kind:
    """Return a value of this type. Raises msgspec.DecodeError for any other."""
    found: _Kind = _reader(kind)(raw)
    return found


def read_or(raw: bytes | None, kind: type[_Kind], otherwise: _Other) -> _Kind | _Other:
    """Return a value of this type, ``otherwise`` where there is none."""
    try:
        return read_as(raw or b"", kind)
    except msgspec.DecodeError:
        return otherwise


def by_name(flat: Sequence[bytes]) -> dict[str, bytes]:
    r"""Return the hash in an answer of Redis; U+FFFD stands for bytes of a field that are no text.

    >>> by_name([b"a", b"1", b"\xff", b"2"])
    {'a': b'1', '\ufffd': b'2'}
    """
    return {name.decode(errors="replace"): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def whole(stored: object) -> int | None:
    """Return the number in up to 18 digits; None for any other value: Python refuses to read thousands of digits.

    >>> whole(b"8"), whole(b"-5"), whole(b"9" * 5000), whole(None)
    (8, None, None, None)
    """
    return int(stored) if isinstance(stored, bytes) and stored.isdigit() and len(stored) < 19 else None


PARTITIONS_MAX = 100_000
"""More partitions than any broker gives a topic; a reader requests one table for each."""


def partition_count(stored: object) -> int | None:
    """Return the number of partitions; 0 where none is stored, None where the stored value is not a valid number.

    >>> partition_count(b"8"), partition_count(None), partition_count(b"-5"), partition_count(b"9" * 30)
    (8, 0, None, None)
    """
    count = 0 if stored is None else whole(stored)
    return None if count is None or count > PARTITIONS_MAX else count
