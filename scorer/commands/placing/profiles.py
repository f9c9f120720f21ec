"""``windward profiles``: list the profiles, show one with every setting in force, check a file."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from schemas.process.settings import SettingsError, load_verb, setting
from schemas.resources import RESOURCES
from schemas.values.numbers import counted, duration
from scorer.commands.shared.whole_fleet import chosen_profile
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.catalogue import load_profiles, read_profile
from scorer.ranking.profiles.plugins import PluginError
from scorer.ranking.profiles.profile import DEMANDS, ProfileError


@dataclass(frozen=True, kw_only=True)
class ProfilesSettings:
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own", metavar="PATH")
    json: bool = setting(False, "print JSON", group="output")


@dataclass(frozen=True, kw_only=True)
class ListSettings(ProfilesSettings):
    """List the profiles."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward profiles", "windward profiles -o name       # one a line")

    output: Literal["", "name"] = setting("", "what is printed of each, one a line", short="-o", group="output")


@dataclass(frozen=True, kw_only=True)
class ShowSettings(ProfilesSettings):
    """Show one profile with every setting in force: a name, or a file of your own."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward profiles show windward",
        "windward profiles show windward > mine.toml     # a file to change; then `windward profiles check mine.toml`",
    )

    name: str = setting(help="name of a profile, or a TOML file", positional=True, metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class CheckSettings(ProfilesSettings):
    """Check a profile file of your own, and show what it compares by resource; an error names the line."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward profiles check mine.toml",)

    file: str = setting(help="TOML file", positional=True, metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class DiffSettings(ProfilesSettings):
    """Show what a profile has otherwise than another one, setting by setting."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward profiles diff mine.toml",
        "windward profiles diff mine.toml --against trimaran",
    )

    name: str = setting(help="name of a profile, or a TOML file", positional=True, metavar="NAME")
    against: str = setting("windward", "the other one: a name, or a TOML file", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class PluginsSettings(ProfilesSettings):
    """List every filter and score with its settings."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward profiles plugins",)


REFUSED = ": a request with it is refused"
SETTINGS: dict[str, type[ProfilesSettings]] = {
    "list": ListSettings, "show": ShowSettings, "check": CheckSettings, "diff": DiffSettings,
    "plugins": PluginsSettings,
}  # fmt: skip


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    _, settings = load_verb("profiles", SETTINGS, argv, environ, "list")
    try:
        match settings:
            case ShowSettings():
                _print(settings.json, chosen_profile(settings.name, settings.profiles).effective(), _shown)
            case CheckSettings():
                found = read_profile(Path(settings.file))
                counts = {
                    "profile": found.name, "filters": len(found.filters), "scores": len(found.scores),
                    "window": found.load_model.window,
                    "compares": [
                        {"resource": resource, "filter": placed.filter.name, "what": what}
                        for placed in found.filters
                        for resource, what in getattr(placed.filter, "compares", tuple)()
                    ],
                    "does_not_look_at": [{"field": field, "plugin": name} for field, name in found.ignores.items()],
                }  # fmt: skip
                _print(settings.json, counts, _checked)
            case DiffSettings():
                both = [chosen_profile(name, settings.profiles) for name in (settings.against, settings.name)]
                _print(settings.json, _differences(*(_flat(one.effective()) for one in both)), _told)
            case PluginsSettings():
                _print(settings.json, _plugins(), _plugin_lines)
            case ListSettings():
                known = load_profiles(settings.profiles).by_name
                shown = (lambda _: "\n".join(known)) if settings.output else _listed
                _print(settings.json, [{"name": p.name, "description": p.description} for p in known.values()], shown)
    except (ProfileError, PluginError) as error:
        raise SettingsError(str(error)) from None
    return 0


def _checked(found: dict[str, Any]) -> str:
    parts = f"{counted(found['filters'], 'filter')} and {counted(found['scores'], 'score')}"
    first = [f"{found['profile']}: {parts}, good"]
    if isinstance(found["window"], int):
        first.append(f"  ranks by the window of {duration(found['window'])}; where it is not kept, by the next shorter")
    lines = [
        f"  does not look at {one['field']}, as {one['plugin']} would{REFUSED if one['field'] in DEMANDS else ''}"
        for one in found["does_not_look_at"]
    ]
    compared = []
    for resource in RESOURCES:
        of_one = [one for one in found["compares"] if one["resource"] == resource]
        compared += [f"  {resource}: {one['what']} ({one['filter']})" for one in of_one]
        compared += [] if of_one else [f"  {resource}: not compared"]
    return "\n".join([*first, *compared, *lines])


def _flat(value: Any, at: str = "") -> dict[str, Any]:
    """Return each setting by its path; filters and scores by their names.

    >>> _flat({"stale_s": 60.0, "filters": [{"use": "fits", "ratio": {"cpu": 2.0}}, {"use": "fits", "ratio": {}}]})
    {'stale_s': 60.0, 'filters.fits': True, 'filters.fits.ratio.cpu': 2.0, 'filters.fits#2': True}
    """
    if isinstance(value, Mapping):
        return {path: one for key, of in value.items() for path, one in _flat(of, f"{at}.{key}" if at else key).items()}
    if at not in ("filters", "scores"):
        return {at: value}
    found: dict[str, Any] = {}
    for entry in value:
        name = path = f"{at}.{entry['use']}"
        number = 1
        while path in found:
            number += 1
            path = f"{name}#{number}"
        found |= {path: True, **_flat({key: one for key, one in entry.items() if key != "use"}, path)}
    return found


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings that differ; for a filter or score in only one profile just its presence."""
    found = []
    for path in dict.fromkeys([*before, *after]):
        was, now = before.get(path), after.get(path)
        plugin = ".".join(path.split(".")[:2])
        apart = plugin != path and (plugin in before) != (plugin in after)
        if was != now and path not in ("name", "description") and not apart:
            found.append({"setting": path, "before": was, "after": now})
    return found


def _told(found: list[dict[str, Any]]) -> str:
    lines = []
    for one in found:
        was, now = one["before"], one["after"]
        if True in (was, now) and None in (was, now) and one["setting"].count(".") == 1:
            lines.append(f"{'+' if now else '-'} {one['setting']}")
        else:
            lines.append(f"  {one['setting']}: {toml(was)} -> {toml(now)}")
    return "\n".join(lines) or "no difference"


def _print(as_json: bool, value: Any, lines: Any) -> None:
    text = json.dumps(value, indent=2) if as_json else lines(value)
    sys.stdout.write(text + "\n")


def _listed(profiles: list[dict[str, str]]) -> str:
    width = max(len(each["name"]) for each in profiles)
    return "\n".join(f"{each['name'].ljust(width)}  {each['description']}" for each in profiles)


def _plugins() -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "name": plugin.name,
            "about": (plugin.__doc__ or "").strip().splitlines()[0],
            "settings": {field.name: _default(field) for field in dataclasses.fields(plugin)},  # type: ignore[arg-type]
        }
        for kind, found in (("filter", plugins.filters()), ("score", plugins.scores()))
        for plugin in found.values()
    ]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def _plugin_lines(found: list[dict[str, Any]]) -> str:
    lines = []
    for each in found:
        settings = ", ".join(f"{name} = {toml(value)}" for name, value in each["settings"].items())
        lines += [f"{each['kind']} {each['name']}: {each['about']}", f"    {settings or 'no settings'}"]
    return "\n".join(lines)


def _shown(effective: dict[str, Any]) -> str:
    """Return the profile as TOML that gives the same profile when it is read."""
    tables = [key for key in ("filters", "scores") if effective[key]]
    top = [key for key in effective if key not in ("filters", "scores", "rebalance", "name")]
    lines = [f"# profile {effective['name']}"] + [f"{key} = {toml(effective[key])}" for key in top]
    lines += ["", "[rebalance]"] + [f"{key} = {toml(value)}" for key, value in effective["rebalance"].items()]
    for table in tables:
        for entry in effective[table]:
            lines += ["", f"[[{table}]]"] + [
                f"{key} = {toml(value)}" for key, value in entry.items() if value is not None
            ]
    return "\n".join(lines)


def toml(value: Any) -> str:
    """Return a value in TOML, on one line.

    >>> toml({"cpu": 0.5, "names": ["a"]})
    '{ cpu = 0.5, names = ["a"] }'
    """
    if value is None:
        return "(not given)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {toml(each)}" for key, each in value.items() if each is not None)
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value)
