"""``windward place``: choose a machine and reserve it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from schemas.request import InvalidRequest, read_request
from schemas.settings import SettingsError, load_settings, setting
from scorer.commands import asking
from scorer.settings import ClientSettings

_REQUEST = (
    "id", "cpu", "memory", "nic", "limits", "expected", "maxmemory", "ports", "priority_class", "labels", "cluster",
    "role", "cluster_masters", "kind", "machine", "selector", "profile", "window_s", "count", "top", "dry_run",
    "all_or_nothing", "machines_max", "machines_min",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RequestSettings(ClientSettings):
    """The request, as flags or as a file."""

    query: Path | None = setting(None, "JSON file with the whole request (- reads stdin); flags win", metavar="FILE")
    cpu: str = setting("", "cores, such as 2 or 500m")
    memory: str = setting("", "bytes, such as 10G or 10Gi")
    nic: str = setting("", "bytes/s")
    limits: dict[str, str] = setting({}, "limits, such as cpu=4,memory=12G", metavar="RESOURCE=AMOUNT")
    expected: dict[str, str] = setting({}, "expected usage, where known", metavar="RESOURCE=AMOUNT")
    maxmemory: str = setting("", "bytes a redis instance may hold")
    ports: tuple[int, ...] = setting((), "ports it listens on")
    id: str = setting("", "your id of the instance; repeating it repeats the answer")
    priority_class: str = setting("", "prod, mid, batch or free", metavar="CLASS")
    labels: dict[str, str] = setting({}, "labels of the instance", metavar="KEY=VALUE")
    cluster: str = setting("", "cluster it belongs to")
    role: str = setting("", "its role there, such as master")
    cluster_masters: int = setting(0, "masters the whole cluster has or will have", metavar="COUNT")
    kind: str = setting("", "kind of instance")
    machine: str = setting("", "the only machine it may go to")
    selector: str = setting("", "labels a machine must have")
    profile: str = setting("", "profile to rank by")
    window_s: int = setting(0, "window to rank by, in seconds", metavar="SECONDS")
    top: Annotated[int, Meta(ge=1, le=1000)] = setting(5, "machines the answer lists", metavar="COUNT")

    def request(self) -> dict[str, Any]:
        """Return the request's fields that were given."""
        params: dict[str, Any] = {}
        if self.query is not None:
            try:
                params = json.loads(sys.stdin.read() if str(self.query) == "-" else self.query.read_text())
            except (OSError, ValueError) as error:
                raise SettingsError(f"query: {self.query}: {error}") from None
            if not isinstance(params, dict):
                raise SettingsError(f"query: {self.query}: expected an object")
        for name in _REQUEST:
            if name not in self.__dataclass_fields__:
                continue
            value = getattr(self, name)
            if value and value != self.__dataclass_fields__[name].default:
                params[name] = value
        return params


@dataclass(frozen=True, kw_only=True)
class PlaceSettings(RequestSettings):
    """Choose a machine and reserve it; the reservation expires unless it is confirmed."""

    ttl_s: float | None = setting(None, "lifetime of the reservation (default 300)", metavar="SECONDS")
    count: Annotated[int, Meta(ge=1)] = setting(1, "identical instances")
    all_or_nothing: bool = setting(False, "reserve all of them or none")
    machines_max: int = setting(0, "at most so many different machines", metavar="COUNT")
    machines_min: int = setting(0, "at least so many different machines", metavar="COUNT")
    dry_run: bool = setting(False, "reserve nothing")


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Place, and say where and why."""
    settings = load_settings(PlaceSettings, "place", argv, environ)
    params = settings.request()
    if settings.ttl_s is not None:
        params["ttl_s"] = settings.ttl_s
    if "instances" not in params:
        try:
            read_request(params)
        except InvalidRequest as error:
            raise SettingsError(str(error)) from None
    code, answer = asking.ask(settings, "place", params, show)
    if answer is None:
        return code
    if answer["missing"]:
        return asking.NO_MACHINE
    over = [one for one in answer["placed"] if one["state"] in ("released", "expired")]
    if over:
        first = over[0]
        print(f"windward place: {first['id']!r} has ended ({first['state']}): take another id", file=sys.stderr)  # noqa: T201
        return asking.FAILED
    return asking.OK


def show(answer: dict[str, Any]) -> str:
    """Return the answer for people: what was placed, the best machines, why others were refused."""
    lines = []
    placed, tried = answer["placed"], "would be placed" if answer["dry_run"] else "placed"
    if answer["asked"] == 1 and placed:
        again = " (as before)" if answer["repeated"] else ""
        lines.append(f"{placed[0]['id']} {tried} on {placed[0]['machine']}: {placed[0]['state']}{again}")
    elif answer["asked"] == 1:
        lines.append("no machine fits")
    else:
        lines.append(f"{len(placed)} of {answer['asked']} instances {tried}")
        on: dict[str, list[str]] = {}
        for one in placed:
            on.setdefault(one["machine"], []).append(one["id"])
        lines += [
            f"  {machine}  {len(ids)}  {' '.join(ids[:6])}{' ...' if len(ids) > 6 else ''}"
            for machine, ids in on.items()
        ]
    if answer.get("candidates"):
        lines += ["", candidates(answer["candidates"]), ""]
    lines.append(answer["summary"])
    if answer["missing"] and answer["asked"] > 1:
        lines.append(f"{answer['missing']} missing: {answer['reason']}")
    if answer["conflicts"]:
        lines.append(f"{answer['conflicts']} candidates were lost to other scorers")
    lines += [f"note: {warning}" for warning in answer.get("warnings", ())]
    return "\n".join(lines)


def candidates(found: list[dict[str, Any]]) -> str:
    """Return the best machines as a table."""
    rows = []
    for one in found:
        cpu, memory = one["resources"]["cpu"], one["resources"]["memory"]
        rows.append(
            [
                one["machine"], asking.number(one["score"]), asking.number(one["risk"], 3),
                asking.number(cpu["mean"]), asking.number(cpu["std"]), asking.number(cpu["credit"]),
                asking.number(cpu["request"]), asking.number(cpu["allocatable"], 0), asking.size(memory["mean"]),
                asking.size(memory["std"]), asking.size(memory["credit"]), asking.size(memory["request"]),
                asking.size(memory["allocatable"]), asking.number(one["age_s"], 1),
            ]
        )  # fmt: skip
    headings = ["machine", "score", "risk", "cpu mean", "std", "credit", "request", "of"]
    return asking.table([*headings, "memory mean", "std", "credit", "request", "of", "age s"], rows)
