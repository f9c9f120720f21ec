"""A page for each filter and score: its docstring, its settings, and its shape."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ops.docs.markdown import prose, table
from ops.docs.shapes import Along, Drawn
from scorer.ranking.profiles.profile import Profile

WIDTHS = {
    "machine": "the machine's own columns",
    "instances": "the machine's own columns and which instances are on it",
    "means": "the machine's own columns and means over the fleet",
    "fleet": "the whole fleet",
}


def page(plugin: type[Any], kind: str, drawn: Drawn, profiles: Mapping[str, Profile]) -> str:
    """Return the page of one plugin; ``kind`` is filter or score."""
    parts = [
        f"# {plugin.name}",
        f"A {kind}. It looks at {WIDTHS[getattr(plugin, 'scope', 'instances')]}."
        + (f" Its refusal reads *{plugin.reason}*." if kind == "filter" else ""),
        prose(inspect.getdoc(plugin) or ""),
        "## Shape",
        f"![What it says of machines](../pictures/{kind}-{plugin.name}.svg)",
        _caption(drawn),
        "## Settings",
        _settings(plugin),
        "## In profiles",
        _used_in(plugin.name, kind, profiles, defaults_of(plugin)),
    ]
    return "\n\n".join(parts) + "\n"


def _caption(drawn: Drawn) -> str:
    asked = ", ".join(f"{name} {value}" for name, value in drawn.shape.request.items())
    given = ", ".join(f"`{name} = {value}`" for name, value in drawn.shape.settings.items())
    about = "Machines of 32 cores and 128 GB" + (" that differ in this alone" if isinstance(drawn.shape, Along) else "")
    if getattr(drawn.shape, "normalise", "none") != "none":
        given = f"{given}{', ' if given else ''}spread by `{drawn.shape.normalise}`"  # type: ignore[union-attr]
    return f"*{about}; the request: {asked}; settings: {given or 'as they are by default'}. Computed by the product.*"


def _settings(plugin: type[Any]) -> str:
    rows = [
        [f"`{each.name}`", f"`{getattr(each.type, '__name__', each.type)}`", f"`{_default(each)}`"]
        for each in dataclasses.fields(plugin)
    ]
    return table(["setting", "type", "default"], rows) if rows else "None."


def _default(one: dataclasses.Field[Any]) -> str:
    value = one.default_factory() if one.default_factory is not dataclasses.MISSING else one.default
    return {True: "true", False: "false"}.get(value, repr(value)) if isinstance(value, bool) else repr(value)


def changed(used: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a plugin in a profile that differ from its defaults, and its weight."""
    skipped = ("use", "window", "credits", "estimate")
    return {
        key: value
        for key, value in used.items()
        if key not in skipped and value != defaults.get(key, "none" if key == "normalise" else ...)
    }


def defaults_of(plugin: type[Any]) -> dict[str, Any]:
    """Return the default settings of a plugin."""
    return dict(msgspec.to_builtins(dataclasses.asdict(plugin())))


def _used_in(name: str, kind: str, profiles: Mapping[str, Profile], defaults: Mapping[str, Any]) -> str:
    rows: list[list[str]] = []
    for profile in profiles.values():
        for each in profile.effective()[f"{kind}s"]:
            if each["use"] == name:
                own = changed(each, defaults)
                rows.append([f"[{profile.name}](../profiles.md)", written(own)])
    return table(["profile", "with"], rows) if rows else "In none of those built in."


def written(values: Mapping[str, Any]) -> str:
    """Return settings on one line."""
    return ", ".join(f"{name} {plain(value)}" for name, value in values.items()) or "its defaults"


def plain(value: Any) -> str:
    """Return a setting's value in words.

    >>> plain({"cpu": 0.9, "memory": 0.95}), plain(3.0), plain(True), plain(["cpu", "nic"])
    ('(cpu 0.9, memory 0.95)', '3', 'true', '(cpu, nic)')
    """
    if isinstance(value, Mapping):
        return f"({', '.join(f'{key} {plain(each)}' for key, each in value.items())})"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(plain, value))})"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def index(plugins: Iterable[type[Any]], kind: str) -> str:
    """Return the page that lists all of a kind, each with the first sentence of its docstring."""
    rows = [
        [f"[{plugin.name}]({kind}s/{plugin.name}.md)", (prose(inspect.getdoc(plugin) or "").split("\n\n")[0])]
        for plugin in plugins
    ]
    what = (
        "A filter says which machines may take an instance; a machine that no filter refuses is feasible."
        if kind == "filter"
        else "A score says how good a machine is, from 0 to 100. The total is the weighted mean of a profile's scores."
    )
    return f"# {kind.capitalize()}s\n\n{what}\n\n" + table([kind, "what it does"], rows) + "\n"
