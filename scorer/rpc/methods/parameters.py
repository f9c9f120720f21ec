"""Reading the parameters of a query: JSON in, a method's Struct out; the errors that a caller sees. Pure."""

from typing import Any

import msgspec

from schemas.rpc.envelope import Code, Error, Query
from schemas.rpc.request import InvalidRequest, with_seconds
from schemas.values.errors import field_error
from schemas.values.read_json import reader

_decode_object = reader(object)


def read_object(query: Query) -> dict[str, Any]:
    """Return the parameters of a query as decoded JSON; raise InvalidRequest unless they are an object."""
    try:
        params = _decode_object(query.params)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"params: {error}") from None
    if not isinstance(params, dict):
        raise InvalidRequest(f"params: expected an object, got {type(params).__name__}")
    return params


def read_params(kind: type[Any], params: dict[str, Any]) -> Any:
    """Return the parameters of a method as its Struct; raise InvalidRequest naming the field."""
    try:
        return msgspec.convert(with_seconds(params), kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(field_error(error, given=params, kind=kind)) from None


class CallError(Exception):
    """A call that cannot be done; it becomes the error in the answer."""

    def __init__(self, code: Code, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.error = Error(code=code, message=message, retryable=retryable)


class ForPlanners(Exception):
    """A query that takes too long for a scorer: a planner answers it."""
