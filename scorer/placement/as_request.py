"""The request that a placed instance stands for, when it is to be placed again."""

from __future__ import annotations

from schemas.request import Request
from schemas.resources import RESOURCES
from scorer.ledger.instance import Instance


def as_request(instance: Instance, machine: str = "") -> Request:
    """Return the request of an instance, for one machine ("": any).

    What only its first request said is not in the ledger: selector, affinity, tolerations, preferences.
    """
    fields = {name: getattr(instance, name) for name in IN_BOTH}
    fields |= {name: amount for name, amount in zip(RESOURCES, instance.amounts, strict=True) if amount is not None}
    for name in ("limits", "expected"):
        declared = zip(RESOURCES, getattr(instance, name), strict=False)
        fields[name] = {resource: amount for resource, amount in declared if amount >= 0}
    return Request(**fields, machine=machine)


IN_BOTH = sorted(
    {*Request.__struct_fields__} & {*Instance.__struct_fields__} - {*RESOURCES, "limits", "expected", "machine"}
)
"""What a request and its instance say alike."""
