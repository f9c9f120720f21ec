"""``windward health``: ask the scorer how it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.settings import load_settings
from scorer.commands import asking
from scorer.settings import ClientSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Print what one scorer says of itself; fail when it is not ready."""
    settings = load_settings(ClientSettings, "health", argv, environ, "Ask the scorer how it is.")
    code, answer = asking.ask(settings, "health", {}, show)
    return code if answer is None or answer["ready"] else asking.FAILED


def show(answer: dict[str, Any]) -> str:
    """Return the answer for people."""
    age = answer["newest_sample_age_s"]
    return "\n".join(
        [
            f"{answer['scorer']} {answer['version']}: {'ready' if answer['ready'] else 'not ready'}",
            f"{answer['machines_with_data']} of {answer['machines']} machines have data, the newest "
            + (f"{age:.1f} s old" if age is not None else "never seen"),
            f"{answer['instances']} instances in the ledger, change {answer['ledger_change']}",
            f"profiles: {', '.join(answer['profiles'])} (default {answer['profile']})",
        ]
    )
