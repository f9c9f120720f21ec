"""Reading the parameters of a query: JSON in, a method's Struct out. Pure."""

from typing import Any

import msgspec

from schemas.rpc.envelope import Query
from schemas.rpc.request import InvalidRequest, with_seconds
from schemas.values.errors import field_error

_decode_object = msgspec.json.Decoder().decode


def read_object(query: Query) -> dict[str, Any]:
    """Return the parameters of a query as decoded JSON; raise InvalidRequest unless they are an object."""
    try:
        params = _decode_object(query.params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
