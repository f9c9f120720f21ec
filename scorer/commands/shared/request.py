"""The flags of a request: one for the amount of each resource, and one for each other field.

A flag that is not given is None and sends nothing, so that the file of ``--query`` or the scorer's own default holds.
A flag that is given is sent whatever its value, and wins over the file.
"""

import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.settings import SettingsError, setting
from schemas.resources import UNITS
from schemas.rpc.request import Request
from scorer.settings import ClientSettings

_EXAMPLES = {"cores": "cores, such as 2 or 500m", "bytes": "bytes, such as 10G or 10Gi"}

BYTES_MEANT = 1_000_000
"""A number of bytes below this, without a unit, was probably meant in another unit."""

if TYPE_CHECKING:
    AmountSettings = ClientSettings
else:
    AmountSettings = dataclasses.make_dataclass(
        "AmountSettings",
        [(name, str | None, setting(None, _EXAMPLES.get(unit, unit))) for name, unit in UNITS.items()],
        bases=(ClientSettings,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": "The settings of a client, and one for the amount of each resource."},
    )


@dataclass(frozen=True, kw_only=True)
class RequestSettings(AmountSettings):
    """The request, as flags or as a file."""

    TITLE: ClassVar[str] = "the request"

    query: str | None = setting(None, "JSON file with the whole request (- reads stdin); flags win", metavar="FILE")
    limits: dict[str, str] | None = setting(None, "limits, such as cpu=4,memory=12G", metavar="RESOURCE=AMOUNT")
    expected: dict[str, str] | None = setting(None, "expected usage, where known", metavar="RESOURCE=AMOUNT")
    maxmemory: str | None = setting(None, "bytes a redis instance may hold")
    ports: tuple[int, ...] | None = setting(None, "ports it listens on")
    id: str | None = setting(None, "your id of the instance; repeating it repeats the answer")
    priority_class: str | None = setting(None, "prod, mid, batch or free", metavar="CLASS")
    labels: dict[str, str] | None = setting(None, "labels of the instance", metavar="KEY=VALUE")
    cluster: str | None = setting(None, "cluster it belongs to")
    role: str | None = setting(None, "role there, such as master")
    apart: bool = setting(False, "no two of its cluster on one machine: a rule, not a preference")
    apart_by: str = setting("", "the same by a label of machines, such as rack", metavar="LABEL")
    at_most: Annotated[int, Meta(ge=1)] | None = setting(None, "with --apart-by (else --apart): so many, not one")
    share: Annotated[float, Meta(gt=0, le=1)] | None = setting(
        None, "in place of --at-most: such a part of its cluster, up to 1"
    )
    skew: Annotated[int, Meta(ge=1)] | None = setting(
        None, "in place of --at-most: so many more than where its cluster has the fewest"
    )
    cluster_masters: int | None = setting(None, "masters the whole cluster has or will have", metavar="COUNT")
    kind: str | None = setting(None, "kind of instance")
    machine: str | None = setting(None, "the only machine it may go to")
    not_on: tuple[str, ...] | None = setting(None, "machines it may not go to", metavar="MACHINE")
    selector: str | None = setting(None, "labels a machine must have")
    profile: str | None = setting(None, "profile to rank by")
    window_s: int | None = setting(None, "window to rank by, such as 5m or 1h")
    top: Annotated[int, Meta(ge=1, le=1000)] | None = setting(
        None, f"machines the answer lists (default {Request().top})", metavar="COUNT"
    )

    def request(self) -> dict[str, Any]:
        """Return the request: the fields of the file, replaced by the flags that are given."""
        params = {} if self.query is None else read_json(self.query, "query")
        if not isinstance(params, dict):
            raise SettingsError(f"query: {self.query} holds no JSON object")
        names = [field.name for field in dataclasses.fields(self) if field.name in Request.__struct_fields__]
        check_memory(getattr(self, "memory", None))
        params |= {name: value for name in names if (value := getattr(self, name)) is not None}
        topologies = ["machine"] * self.apart + [self.apart_by] * bool(self.apart_by)
        if topologies and not params.get("cluster"):
            raise SettingsError("apart: from whom? give --cluster")
        limits = {"others": (self.at_most or 1) - 1, "share": self.share, "skew": self.skew}
        limit = {name: most for name, most in limits.items() if most}
        if limit and not topologies:
            raise SettingsError("at_most, share, skew: on what? give --apart or --apart-by LABEL")
        if topologies:
            whom = {"cluster": params["cluster"]}
            rules: list[dict[str, Any]] = [{"instances": whom, "topology": each} for each in topologies]
            rules[-1] |= limit
            params["anti_affinity"] = [*params.get("anti_affinity", ()), *rules]
        return params


def check_memory(given: str | None) -> None:
    """Refuse a number without a unit that is meant to have one: `--memory 10` is ten bytes. Raises SettingsError."""
    if given is not None and given.isascii() and given.isdecimal() and 0 < int(given) < BYTES_MEANT:
        raise SettingsError(f"memory: {given} is {given} bytes; did you mean {given}G or {given}M?")


def read_json(path: str, what: str) -> Any:
    """Return the JSON in a file (``-`` is standard input); raise SettingsError naming the setting."""
    try:
        return json.loads(sys.stdin.read() if path == "-" else Path(path).read_text())
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise SettingsError(f"{what}: {path} cannot be read as JSON: {error}") from None
