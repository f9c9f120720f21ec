"""``windward why ID``: why an instance is where it is, from the log of decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.names import Names
from schemas.settings import load_settings, setting
from scorer.client import WindwardError
from scorer.commands import asking, place
from scorer.settings import ClientSettings
from scorer.wire import AWAY

_PAGE = 500


@dataclass(frozen=True, kw_only=True)
class WhySettings(ClientSettings):
    """Say why an instance is where it is: the answer that placed or moved it, with the terms of that moment."""

    id: tuple[str, ...] = setting((), "id of the instance", positional=True)


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Find the newest decision about an instance and print it."""
    settings = load_settings(WhySettings, "why", argv, environ)
    instance_id = asking.one_id(settings.id, "why")
    try:
        with redis.Redis.from_url(**settings.redis_arguments(), retry=Retry(NoBackoff(), 0)) as server:
            found = find_decision(server, settings.names, instance_id)
    except AWAY as error:
        return asking.report(WindwardError("UNAVAILABLE", f"no connection to {settings.redis_url}: {error}"), "why")
    if found is None:
        return asking.report(WindwardError("NOT_FOUND", f"no decision about {instance_id!r} is kept"), "why")
    print(json.dumps(found) if settings.json else show(found))  # noqa: T201
    return asking.OK


def find_decision(server: redis.Redis, names: Names, instance_id: str) -> dict[str, Any] | None:
    """Return the newest decision that placed, moved or refused an instance, None when none is kept."""
    wanted, last = instance_id.encode(), "+"
    while True:
        page: Any = server.xrevrange(names.decisions, max=last, count=_PAGE)
        if not page:
            return None
        for stamp, entry in page:
            if wanted in entry[b"ids"].split(b"\n"):
                return {
                    "id": instance_id,
                    "at": int(stamp.split(b"-")[0]) / 1000,
                    "query": entry[b"query"].decode(),
                    "scorer": entry[b"scorer"].decode(),
                    "method": entry[b"method"].decode(),
                    "answer": json.loads(entry[b"answer"]),
                }
        last = f"({page[-1][0].decode()}"


def show(found: dict[str, Any]) -> str:
    """Return the decision for people."""
    head = f"{found['method']} by {found['scorer']} at {found['at']:.3f}, query {found['query']}"
    answer = found["answer"]
    if "placed" in answer:
        return f"{head}\n{place.show(answer)}"
    line = f"{answer['id']} moved from {answer['moved_from']} to {answer['machine']}"
    return f"{head}\n{line}\n\n{place.candidates(answer['candidates'])}\n\n{answer['summary']}"
