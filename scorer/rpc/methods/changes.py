"""The record that an update wants of an instance: what is given changes, the rest stays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.parameters import Update
from schemas.rpc.request import CHANGEABLE_FIELDS, InvalidRequest, Quantity, Request, check_rules, read_amount
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.rules import RULES, as_fields, rules_of
from scorer.ledger.record.units import too_large
from scorer.ranking.formulas.selectors import check_selectors

SIZES = (*RESOURCES, "maxmemory", "limits", "expected", *RULES)
"""The parameters that may go together with a move: where it goes the instance has them from then on."""


def changed(old: Instance, asked: Update) -> Instance:
    """Return the record as it is asked for, on the machine where it is.

    Raises InvalidRequest naming the field.
    """
    amounts = tuple(
        old.amounts[position] if getattr(asked, name) is None else read_amount(name, getattr(asked, name))
        for position, name in enumerate(RESOURCES)
    )
    given: dict[str, Any] = {"amounts": amounts}
    if asked.maxmemory is not None:
        given["maxmemory"] = read_amount("maxmemory", asked.maxmemory)
    for name in CHANGEABLE_FIELDS:
        if getattr(asked, name) is not None:
            given[name] = getattr(asked, name)
    for name in ("limits", "expected"):
        if (by_name := getattr(asked, name)) is not None:
            given[name] = _by_resource(name, by_name)
    if rules := {name: value for name in RULES if (value := getattr(asked, name)) is not None}:
        request = Request(**{**as_fields(old.rules), **rules})
        check_rules(request)
        check_selectors(request)
        given["rules"] = rules_of(request)
    if given.get("role", old.role) != old.role:
        given["swap"] = ()
    new = msgspec.structs.replace(old, **given)
    if large := too_large(new.amounts, new.maxmemory):
        raise InvalidRequest(large)
    return new


def _by_resource(name: str, given: Mapping[str, Quantity]) -> tuple[float, ...]:
    for resource in given:
        if resource not in RESOURCES:
            raise InvalidRequest(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
    amounts = tuple(read_amount(f"{name}.{r}", given[r]) if r in given else -1.0 for r in RESOURCES)
    return amounts if given else ()
