"""The file of ``windward plan``: the instances that are wanted. Pure.

JSON lines, a JSON list, or an object whose ``instances`` is that list; each instance has an ``id`` and the fields of a
request (`schemas.rpc.request`):

    {"id": "db-1", "cpu": 2, "memory": "10G", "machine": "m7"}
    {"id": "web", "cpu": "500m", "memory": "2G", "count": 3, "selector": "zone in (zone-1, zone-2)"}

``machine``: where it has to be; without it, it stays where it is, or goes to the best machine. ``count``: so many, with
the ids ``web-1``, ``web-2``, ... A field beside ``instances`` is the default of each of them. An amount that is not
given is not requested. Fields of one call of `place` (`NOT_HERE`) are refused.
"""

import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from schemas.rpc.request import Request
from scorer.planning.wanted.requests import SPLIT, InvalidWanted, WantedRequests

BYTES_MAX = 64 * 2**20
"""Size limit of the file. Reading stops there, and after `BATCH_MAX` instances."""


def read_text(file: IO[bytes]) -> str:
    """Return the text of a file; raises InvalidWanted where it is too long, or not UTF-8."""
    raw = file.read(BYTES_MAX + 1)
    if len(raw) > BYTES_MAX:
        raise InvalidWanted(f"more than {BYTES_MAX // 2**20} MiB; {SPLIT}")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidWanted(f"byte {error.start + 1} is no UTF-8") from None


def read_wanted(text: str) -> list[Request]:
    """Return the instances that are wanted, each with an id of its own.

    >>> [one.id for one in read_wanted('{"id": "a", "cpu": 2, "count": 2}')]
    ['a-1', 'a-2']

    Raises InvalidWanted.
    """
    found = WantedRequests()
    for where, record in _records(text):
        found.add(where, record)
    return found.all


def _records(text: str) -> Iterable[tuple[str, Any]]:
    """Return each record with its place in the file."""
    begin = text.lstrip()[:1]
    if not begin:
        raise InvalidWanted("it is empty; [] says that no instance is wanted")
    if begin in ("[", "{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            if begin == "[":
                raise InvalidWanted(f"not JSON: {error}") from None
        else:
            return _listed(value)
    return _lines(text)


def _lines(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the record of each line; a line is parsed when it is needed."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidWanted(f"line {number}: not JSON: {error}") from None
            yield f"line {number}", record


def _listed(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and "instances" not in value:
        return [("line 1", value)]
    shared: dict[str, Any] = {}
    if isinstance(value, dict):
        shared = {name: given for name, given in value.items() if name != "instances"}
        value = value["instances"]
    if not isinstance(value, list):
        raise InvalidWanted("instances: expected a list")
    if "id" in shared:
        raise InvalidWanted("id: does not go together with instances")
    return [(f"entry {number}", shared | one if isinstance(one, dict) else one) for number, one in enumerate(value, 1)]
