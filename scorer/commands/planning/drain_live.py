"""Shell: the parts of a drain that touch the running fleet: machine names, cordons, moves, waiting."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from scorer.client import WindwardError
from scorer.commands.machines.forget import instances_on
from scorer.commands.machines.known_machines import known_machines, meant
from scorer.commands.machines.operator_facts import change_operator_facts
from scorer.commands.shared import ask
from scorer.ledger.store.scripts import Ledger
from scorer.settings import ClientSettings, LedgerSettings
from scorer.wire import Wire

POLL_S = 1.0
"""The interval at which `await_empty` reads the ledger, s."""
_PAGE = 1000
_AWAY = ("DEADLINE_EXCEEDED", "UNAVAILABLE")


def machines_meant(settings: ClientSettings, words: Sequence[str], selector: str) -> list[str]:
    """Return the machines of the running fleet that names, globs and a selector mean; raises WindwardError."""
    with ask.server(settings) as server:
        return meant(words, selector, known_machines(server, settings.names), ahead=None)


def cordon(settings: ClientSettings, machines: Sequence[str], *, off: bool = False) -> dict[str, dict[str, Any]]:
    """Cordon machines, or uncordon them; return the operators' rules of each."""
    with ask.server(settings) as server:
        return {
            machine: change_operator_facts(server, settings.names, machine, lambda facts: facts | {"cordon": not off})
            for machine in machines
        }


def reserve(settings: ClientSettings, moves: Sequence[dict[str, Any]], ttl_s: float, profile: str = "") -> None:
    """Reserve the target of each move, with a line on stderr; set its ``state``, and ``reason`` when it is refused.

    After a refused move the others are still made. Raises WindwardError when no scorer answers.
    """
    for number, one in enumerate(moves, 1):
        params = {"id": one["id"], "machine": one["target"], "move": True, "ttl_s": ttl_s}
        params |= {name: value for name, value in (("generation", one["generation"]), ("profile", profile)) if value}
        try:
            ask.call(settings, "update", params)
        except WindwardError as error:
            if error.code in _AWAY:
                raise
            one |= {"state": "refused", "reason": error.message}
        else:
            one["state"] = "moving"
        sys.stderr.write(f"{number} of {len(moves)}: {one['id']} to {one['target']}: {one['state']}\n")


def cancel(settings: ClientSettings, machines: Sequence[str]) -> list[str]:
    """Cancel the unconfirmed moves away from these machines; return the ids. Raises WindwardError."""
    found = []
    for machine in machines:
        after, more = "", True
        while more:
            page = ask.call(settings, "instances", {"machine": machine, "after": after, "limit": _PAGE})["instances"]
            for one in page:
                if one.get("moving") and one["machine"] == machine:
                    generation = {"generation": one["generation"]} if one.get("generation") else {}
                    ask.call(settings, "update", {"id": one["id"], "cancel_move": True, **generation})
                    found.append(one["id"])
            more = len(page) == _PAGE
            after = page[-1]["id"] if page else ""
    return found


def await_empty(settings: LedgerSettings, machines: Sequence[str], wait_s: float) -> int:
    """Wait until the ledger has no instance on these machines, with the counts on stderr; return the exit code."""
    wire, told = Wire(settings.ledger_arguments()), ""
    end_s = time.monotonic() + wait_s
    try:
        ledger = Ledger(wire, settings.names)
        while held := instances_on(ledger, machines):
            words = f"{sum(held.values())} instances left: " + ", ".join(f"{one} {n}" for one, n in held.items())
            if words != told:
                sys.stderr.write(f"{words}\n")
                told = words
            if time.monotonic() >= end_s:
                overdue = WindwardError("DEADLINE_EXCEEDED", f"after {wait_s:g} s {words}")
                return ask.report(overdue, "drain")
            time.sleep(min(POLL_S, max(0.0, end_s - time.monotonic())))
    finally:
        wire.close()
    sys.stderr.write("no instance is left\n")
    return ask.OK
