"""The wanted instances, read from the records of a query, or from the file of ``windward plan``. Pure.

The file has JSON lines, a JSON list, or an object whose ``instances`` is that list; each instance has an ``id`` and
the fields of a request (`schemas.rpc.request`):

    {"id": "db-1", "cpu": 2, "memory": "10G", "machine": "m7"}
    {"id": "web", "cpu": "500m", "memory": "2G", "count": 3, "selector": "zone in (zone-1, zone-2)"}

``machine``: where it has to be; without it, it stays where it is, or goes to the best machine. ``count``: so many, with
the ids ``web-1``, ``web-2``, ... A field beside ``instances`` is the default of each of them. An amount that is not
given is not requested. Fields of one call of `place` (`NOT_HERE`) are refused.
"""

import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from schemas.messages.sample import Rejected, check_machine_id
from schemas.rpc.parameters import BATCH_MAX, ID_LENGTH_MAX
from schemas.rpc.request import InvalidRequest, Request, read_request
from schemas.values.errors import shortened
from scorer.placement.choosing.plan import expand

NOT_HERE = (
    "first_id", "profile", "window_s", "top", "explain", "dry_run", "all_or_nothing", "machines_max", "machines_min",
)  # fmt: skip
"""Fields that say how one call is answered."""
SPLIT = "split it, each part with labels of its own for --prune-labels"


class InvalidWanted(ValueError):
    """Instances that cannot be read; the message names the record and the field."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class WantedRequests:
    """The requests read so far, each with an id of its own."""

    def __init__(self) -> None:
        self._found: dict[str, Request] = {}

    def add(self, where: str, record: Any) -> None:
        """Add the instances of a record; raises InvalidWanted naming its place ``where``."""
        try:
            requests = _requests(record)
        except (InvalidRequest, Rejected) as error:
            raise InvalidWanted(f"{where}: {error}") from None
        for request in requests:
            if request.id in self._found:
                raise InvalidWanted(f"{where}: id {request.id!r} is listed twice")
            self._found[request.id] = request
        if len(self._found) > BATCH_MAX:
            raise InvalidWanted(f"{where}: more than {BATCH_MAX} instances; {SPLIT}")

    @property
    def all(self) -> list[Request]:
        return list(self._found.values())


def _requests(record: Any) -> list[Request]:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequest("a text in it is not valid Unicode: it holds half of a surrogate pair") from None
    request = read_request(record)
    if not request.id:
        raise InvalidRequest("id is required")
    plain = Request()
    for name in NOT_HERE:
        if getattr(request, name) != getattr(plain, name):
            raise InvalidRequest(f"{name}: says how one call is answered, and is not allowed in this file")
    if request.machine:
        check_machine_id(request.machine)
    requests = expand(request)
    for one in requests:
        if not one.id.isprintable():
            raise InvalidRequest(f"id: {one.id!r} holds characters that cannot be printed")
        if len(one.id) > ID_LENGTH_MAX:
            raise InvalidRequest(f"id: more than {ID_LENGTH_MAX} characters")
    return requests


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
