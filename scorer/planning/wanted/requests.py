"""The wanted instances, read from decoded records of a file or a query. Pure."""

import json
from typing import Any

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
