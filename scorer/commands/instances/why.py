"""``windward why NAME``: why an instance is where it is, from the log of decisions; how a machine stands now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from schemas.names import Names
from schemas.process.settings import load_settings, setting
from schemas.process.tables import Screen
from schemas.resources import RESOURCES
from schemas.values.read_json import read_as
from scorer.client import InstancesResult, PlaceResult, RankResult, UpdateResult, WindwardError
from scorer.commands.placing import place
from scorer.commands.placing.ranked import candidates, explained_only, in_words, ranking
from scorer.commands.shared import ask
from scorer.commands.shared.show import ago, amounts_in_words, time_of
from scorer.settings import ClientSettings

if TYPE_CHECKING:
    import redis

_PAGE = 500
_SAID = ("query", "scorer", "method")
_NO_RULES = ("id", "first_id", "count", "top", "explain", "ttl_s", "profile")
"""Parameters of `place` that are no rules and that do not change which machines fit."""


@dataclass(frozen=True, kw_only=True)
class WhySettings(ClientSettings):
    """Say why an instance is where it is: the answer that placed or moved it, with its terms at that time.

    For a machine, say its verdict now for the newest request, its place, and what it lacks to the best.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward why db-1", "windward why sim-00022")

    id: tuple[str, ...] = setting((), "id of the instance, or name of the machine", positional=True)


SETTINGS = WhySettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(WhySettings, "why", argv, environ), "why", _why)


def _why(settings: WhySettings) -> int:
    instance_id = ask.one_id(settings.id, "why")
    with ask.server(settings) as server:
        found = find_decision(server, settings.names, instance_id)
    if found is None:
        return _why_machine(settings, instance_id)
    ask.tell(settings, found | {"now": _now(settings, instance_id)}, show)
    return ask.OK


def _why_machine(settings: WhySettings, machine: str) -> int:
    """Print the present verdict on a machine, for the request of the newest decision."""
    with ask.server(settings) as server:
        newest: Any = server.xrevrange(settings.names.decisions, count=1)
    entry = newest[0][1] if newest else {b"answer": b"{}"}
    decision, params = _object_in(entry, b"answer"), _object_in(entry, b"params")
    amounts = {name: amount for name, amount in (decision.get("request") or {}).items() if amount}
    some = params.pop("instances", None)
    params |= some[0] if isinstance(some, list) and some and isinstance(some[0], dict) else {}
    whole = entry.get(b"method") == b"place" and params
    request = params if whole else amounts | {"profile": decision.get("profile", "")}
    answer = ask.read(settings, RankResult, "rank", request | {"explain": True})
    try:
        found = explained_only(answer, machine)
    except KeyError as error:
        message = f"no decision about {machine!r} is kept, and no machine has this name{error.args[0]}"
        raise WindwardError("NOT_FOUND", message) from None
    asked = amounts_in_words([amounts.get(name) for name in RESOURCES])
    rules = ", ".join(name for name in request if name not in (*RESOURCES, *_NO_RULES)) or "no rules"
    newest_id = entry.get(b"ids", b"").decode(errors="replace").partition("\n")[0]
    about = f"the newest request ({newest_id})" if newest else "an empty request"
    head = (
        f"{machine} now, for {about}: {asked}; {rules if whole or not newest else 'its rules are not kept'}; "
        f"profile {answer.profile}; for another: windward rank --explain {machine} --cpu ..."
    )
    ask.tell(settings, found, lambda answer, screen: f"{head}\n\n{ranking(answer, screen)}")
    return ask.OK


def _now(settings: WhySettings, instance_id: str) -> dict[str, Any]:
    """Return an instance's present state, machine, move and time of its end; empty without an answer from a scorer."""
    try:
        answer = ask.read(settings, InstancesResult, "instances", {"id": instance_id})
    except WindwardError:
        return {}
    shown = ("state", "machine", "moving", "ended_at")
    return {each: answer.instances[0][each] for each in shown} if answer.instances else {}


def _object_in(entry: dict[bytes, bytes], name: bytes) -> dict[str, Any]:
    """Return a part of an entry. Raises WindwardError for one that cannot be read."""
    try:
        return read_as(entry.get(name, b"{}"), dict[str, Any])
    except msgspec.DecodeError as error:
        raise WindwardError("FAILED_PRECONDITION", f"the decision cannot be read: {error}") from None


def find_decision(server: redis.Redis, names: Names, instance_id: str) -> dict[str, Any] | None:
    """Return the newest decision that placed, moved or refused an instance, None when none is kept."""
    wanted, last = instance_id.encode(), "+"
    while True:
        page: Any = server.xrevrange(names.decisions, max=last, count=_PAGE)
        if not page:
            return None
        for stamp, entry in page:
            if wanted in entry.get(b"ids", b"").split(b"\n"):
                said = {name: entry.get(name.encode(), b"").decode(errors="replace") for name in _SAID}
                answer = _object_in(entry, b"answer")
                return {"id": instance_id, "at": int(stamp.split(b"-")[0]) / 1000, **said, "answer": answer}
        last = f"({page[-1][0].decode()}"


def show(found: dict[str, Any], screen: Screen | None = None) -> str:
    when = f"{time_of(found['at'])} ({ago(found['at'], time.time())})"
    head = f"{found['method']} by {found['scorer']} at {when}, query {found['query']}"
    if (now := found.get("now")) and now["state"] != "reserved":
        since = f", {ago(now['ended_at'], time.time())}" if now["ended_at"] else f" on {now['machine']}"
        target = (found["answer"].get("moving") or {}).get("to", now["machine"])
        given_up = "" if now["moving"] or target == now["machine"] else f"its move to {target} was given up, "
        head = f"{found['id']} is {now['state']}{since}; {given_up}the decision was:\n{head}"
    answer = decided(found["method"], found["answer"])
    if isinstance(answer, PlaceResult):
        own = [one for one in answer.placed if one.id == found["id"]]
        if answer.asked > 1 and own:
            head += f"\none of {answer.asked} in this request"
            near = [one for one in answer.candidates if one.machine == own[0].machine]
            answer = msgspec.structs.replace(answer, asked=1, placed=own, candidates=near)
        return f"{head}\n{place.show(answer, screen)}"
    words = "\n".join(["", *in_words(answer, screen), ""])
    return f"{head}\n{move_words(answer)}\n\n{candidates(answer, screen)}\n{words}\n{answer.summary}"


def decided(method: str, answer: Any) -> PlaceResult | UpdateResult:
    """Return the answer of a decision in the log."""
    kind: type[PlaceResult] | type[UpdateResult] = PlaceResult if method == "place" else UpdateResult
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise WindwardError("FAILED_PRECONDITION", f"the decision cannot be read: {error}") from None


def move_words(answer: UpdateResult) -> str:
    if answer.moving:
        return f"{answer.id} moves from {answer.machine} to {answer.moving.to}"
    return f"{answer.id} moved from {answer.moved_from} to {answer.machine}"
