"""A page for each filter and score, with its docstring, settings and shape; and one of the profiles."""

import dataclasses
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ops.docs.markdown import rst, table
from ops.docs.shapes import SHAPES, Along
from scorer.ranking import profiles as profiles_package
from scorer.ranking.profiles import profile_file
from scorer.ranking.profiles.catalogue import built_in_profiles
from scorer.ranking.profiles.rebalance_section import Rebalancing


def page(plugin: type[Any], kind: str) -> str:
    """Return the page of one plugin; ``kind`` is filter or score."""
    parts = [
        f"# {plugin.name}",
        f"A {kind}." + (f" Its refusal reads *{_refusal(plugin)}*." if kind == "filter" else ""),
        f"```{{eval-rst}}\n{rst(inspect.getdoc(plugin) or '')}\n```",
    ]
    if shape := SHAPES.get(plugin.name):
        picture = f"![What it says of machines](../pictures/{kind}-{plugin.name}.svg)"
        parts += ["## Shape", picture, _caption(shape)]
    parts += ["## Settings", _settings(plugin)]
    parts.append("[The profiles](../profiles.md) say which of them use it, and with which settings.")
    return "\n\n".join(parts) + "\n"


def _caption(shape: Along) -> str:
    asked = ", ".join(f"{name} {value}" for name, value in shape.request.items())
    given = [f"`{name} = {value}`" for name, value in shape.settings.items()]
    if shape.normalise != "none":
        given.append(f"spread by `{shape.normalise}`")
    about = "Machines of 32 cores and 128 GB that differ in this alone"
    settings = ", ".join(given) or "as they are by default"
    return f"*{about}; the request: {asked}; settings: {settings}. Computed by the product.*"


def _settings(plugin: type[Any]) -> str:
    rows = [[f"`{each.name}`", f"`{_type(each)}`", f"`{_default(each)}`"] for each in dataclasses.fields(plugin)]
    return table(["setting", "type", "default"], rows) if rows else "None."


def _type(one: dataclasses.Field[Any]) -> str:
    """Return the type of a setting, without the modules of its names."""
    return re.sub(r"[a-z_.]+\.(?=[A-Z])", "", inspect.formatannotation(one.type))


def _default(one: dataclasses.Field[Any]) -> str:
    value = one.default_factory() if one.default_factory is not dataclasses.MISSING else one.default
    return {True: "true", False: "false"}.get(value, repr(value)) if isinstance(value, bool) else repr(value)


def index(plugins: Iterable[type[Any]], kind: str) -> str:
    """Return the page that lists all of a kind, each with the first sentence of its docstring."""
    rows = [
        [f"[{plugin.name}]({kind}s/{plugin.name}.md)", (inspect.getdoc(plugin) or "").split("\n\n")[0]]
        for plugin in plugins
    ]
    what = (
        "A filter says which machines may take an instance; a machine that no filter refuses is feasible."
        if kind == "filter"
        else "A score says how good a machine is, from 0 to 100. The total is the weighted mean of a profile's scores."
    )
    return f"# {kind.capitalize()}s\n\n{what}\n\n" + table([kind, "what it does"], rows) + "\n"


def profiles() -> str:
    """Return the page of the profiles: the keys that there are, and each built-in file as it is."""
    parts = [
        "# Profiles",
        "A profile is the filters and weighted scores that run together. `windward profiles show NAME` prints one with "
        "every setting in force; a file of your own is checked by the same command. [Which profile?](which-profile.md) "
        "compares what they do.",
    ]
    keys = inspect.cleandoc(profile_file.__doc__ or "").partition("\n\n    ")[2].partition("\n\nThe built-in")[0]
    moves = [(f"`{one.name}`", f"`{_default(one)}`", one.metadata["help"]) for one in dataclasses.fields(Rebalancing)]
    parts += ["## The keys", f"```toml\n{inspect.cleandoc(keys)}\n```"]
    parts += ["### Of `[rebalance]`", table(["key", "default", "what it does"], moves)]
    for name, profile in built_in_profiles().items():
        text = Path(profiles_package.__file__).with_name(f"{name}.toml").read_text()
        parts += [f"## {name}", f"{profile.description.capitalize()}.", f"```toml\n{text}```"]
    return "\n\n".join(parts) + "\n"


def _refusal(plugin: type[Any]) -> str:
    return getattr(plugin, "reason", "") or "* or *".join(plugin.reasons)
