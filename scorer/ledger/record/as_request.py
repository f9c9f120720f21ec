"""The request of a placed instance, to place it again."""

import hashlib

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.rules import as_fields


def as_request(instance: Instance, machine: str = "") -> Request:
    """Return the request of an instance, for one machine ("": any).

    Selector, affinity, anti-affinity, tolerations and preferences are those of its first request, or of a later update.
    """
    fields = {name: getattr(instance, name) for name in IN_BOTH}
    fields |= {name: amount for name, amount in zip(RESOURCES, instance.amounts, strict=True) if amount is not None}
    for name in ("limits", "expected"):
        declared = zip(RESOURCES, getattr(instance, name), strict=False)
        fields[name] = {resource: amount for resource, amount in declared if amount >= 0}
    return Request(**fields, **as_fields(instance.rules), machine=machine)


IN_BOTH = sorted(
    {*Request.__struct_fields__} & {*Instance.__struct_fields__} - {*RESOURCES, "limits", "expected", "machine"}
)
"""The fields that a request and its instance share."""


_ANY = Request()
_sorted = msgspec.json.Encoder(order="deterministic").encode


def request_digest(request: Request) -> str:
    """Return a digest that is equal for equal requests under one id; lifetime and output options are ignored.

    >>> request_digest(Request(cpu=1.0, top=3, ttl_s=9)) == request_digest(Request(cpu=1.0))
    True
    """
    plain = msgspec.structs.replace(request, top=_ANY.top, explain=False, dry_run=False, ttl_s=_ANY.ttl_s)
    return hashlib.blake2b(_sorted(plain), digest_size=9).hexdigest()
