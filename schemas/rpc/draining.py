"""How machines are emptied: what a drain is told, and what operators' rules keep of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.rpc.request import Name


class Draining(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a machine is being emptied: as by ``drain``, again until it is empty or no longer cordoned."""

    ttl_s: Annotated[float, Meta(gt=0, le=86_400, description="how long each move may take")]
    profile: Name = ""
    same: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()
    force: bool = False
