"""Numbers that several messages have, with their bounds."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Epoch = Annotated[float, Meta(ge=0, le=1e11, description="seconds since 1970, UTC")]
Amount = Annotated[float, Meta(ge=0, le=1e16)]
Counter = Annotated[int, Meta(ge=0, le=2**32 - 1)]
