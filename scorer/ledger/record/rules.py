"""The rules of a request on where its instance may go, kept in the record: a later move must uphold them.

A record has ``rules`` only where the request had any, so that the others cost nothing:

    "rules":{"selector":"disk=ssd","tolerations":[{"key":"gpu","value":null,"effect":null}]}

Unlike in a request, unknown fields are ignored in a record: a newer release may have written it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.rpc.request import Affinity, Preference, Request, Toleration


class KeptAffinity(Affinity, frozen=True, forbid_unknown_fields=False):
    """An affinity as a record has it."""


class KeptPreference(Preference, frozen=True, forbid_unknown_fields=False):
    """A preference as a record has it."""


class KeptToleration(Toleration, frozen=True, forbid_unknown_fields=False):
    """A toleration as a record has it."""


class Rules(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The machines that a request accepts or prefers."""

    selector: str = ""
    prefer: tuple[KeptPreference, ...] = ()
    affinity: tuple[KeptAffinity, ...] = ()
    anti_affinity: tuple[KeptAffinity, ...] = ()
    tolerations: tuple[KeptToleration, ...] = ()


RULES = Rules.__struct_fields__
"""The fields of a request that are rules."""


def rules_of(request: Request) -> Rules | None:
    """Return the rules of a request; None where it has none.

    >>> rules_of(Request(cpu=1.0)), rules_of(Request(selector="disk=ssd"))
    (None, Rules(selector='disk=ssd', prefer=(), affinity=(), anti_affinity=(), tolerations=()))
    """
    if not (request.selector or request.tolerations or request.anti_affinity or request.affinity or request.prefer):
        return None
    return msgspec.convert({name: getattr(request, name) for name in RULES}, Rules, from_attributes=True)


def as_fields(rules: Rules | None) -> Mapping[str, Any]:
    return {} if rules is None else {name: getattr(rules, name) for name in RULES}
