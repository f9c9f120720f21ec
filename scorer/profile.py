"""Profiles: named sets of filters and weighted scores that run together, as TOML.

    description = "one line"
    window = "longest-covered"        # of each machine; or "shortest", or a length in seconds (else the next shorter)
    credits = "window"                # or "trimaran-60s", "koordinator-pending", "none"
    stale = "refuse"                  # or "requests": when no machine has fresh data, go by requests alone and say so
    stale_s = 60.0                    # what "fresh" means for that

    [estimate]                        # what an instance is expected to use when nobody said
    base = "request"                  # or "larger" (of limit and request), "limit-first"
    factor = { cpu = 1.0 }
    default = { cpu = 0.0 }

    [[filters]]                       # they run in this order; a machine counts for the first that refuses it
    use = "fresh"
    age_s_max = 60.0                  # the filter's own settings
    window = 300                      # this filter alone sees another window, credit model or estimate

    [[scores]]
    use = "load_variation_risk"
    weight = 1.0
    normalise = "none"                # or "min-max" over the feasible machines, "rank"
    credits = "none"                  # this score alone sees another credit model, window or estimate

``total = Σ weight * score / Σ weight``, so it stays between 0 and 100. The built-in profiles lie beside this module, in
``profiles/``. An unknown name, a wrong type or a value out of range is a ProfileError that names file, line and field.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from scorer import plugins
from scorer.credits import CreditModel, Estimate
from scorer.plugins import Filter, Score
from scorer.snapshot import LONGEST_COVERED

Normalisation = Literal["none", "min-max", "rank"]
DEFAULT = "windward"


class ProfileError(ValueError):
    """A profile that cannot be used; the message is one line and names file, line and field."""


@dataclass(frozen=True)
class Sight:
    """How load is seen: by which window, with which credits, with which estimate of what nobody measured yet."""

    window: int | Literal["longest-covered", "shortest"] = "longest-covered"
    credits: CreditModel = "window"
    estimate: Estimate = field(default_factory=Estimate)

    def window_s(self, kept: Sequence[int]) -> int:
        """Return which of the lengths kept (ascending) to use: the given one, else the next shorter or shortest."""
        if self.window == "longest-covered" or not kept:
            return LONGEST_COVERED
        if self.window == "shortest":
            return kept[0]
        return max((window_s for window_s in kept if window_s <= self.window), default=kept[0])


@dataclass(frozen=True)
class PlacedFilter:
    """A filter in a profile."""

    filter: Filter
    sight: Sight | None = None
    """None: as the profile's."""


@dataclass(frozen=True)
class WeightedScore:
    """A score in a profile."""

    score: Score
    weight: float = 1.0
    normalise: Normalisation = "none"
    sight: Sight | None = None
    """None: as the profile's."""


@dataclass(frozen=True)
class Profile:
    """What runs, in which order, with which weight."""

    name: str
    description: str = ""
    sight: Sight = field(default_factory=Sight)
    stale: Literal["refuse", "requests"] = "refuse"
    stale_s: float = 60.0
    filters: tuple[PlacedFilter, ...] = ()
    scores: tuple[WeightedScore, ...] = ()

    def effective(self) -> dict[str, Any]:
        """Return every setting in force, JSON-ready."""
        return {
            "name": self.name,
            "description": self.description,
            **_sight_settings(self.sight),
            "stale": self.stale,
            "stale_s": self.stale_s,
            "filters": [
                {
                    "use": each.filter.name,
                    **(_sight_settings(each.sight) if each.sight else {}),
                    **_settings(each.filter),
                }
                for each in self.filters
            ],
            "scores": [
                {
                    "use": each.score.name,
                    "weight": each.weight,
                    "normalise": each.normalise,
                    **(_sight_settings(each.sight) if each.sight else {}),
                    **_settings(each.score),
                }
                for each in self.scores
            ],
        }


def _settings(plugin: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(dataclasses.asdict(plugin)))


def _sight_settings(sight: Sight) -> dict[str, Any]:
    estimate = {k: v for k, v in dataclasses.asdict(sight.estimate).items() if v is not None}
    return {"window": sight.window, "credits": sight.credits, "estimate": estimate}


# ---- reading


_TOP = ("description", "window", "credits", "estimate", "stale", "stale_s", "filters", "scores")
_FILTER_KEYS = ("use", "window", "credits", "estimate")
_SCORE_KEYS = ("use", "weight", "normalise", "window", "credits", "estimate")


def parse_profile(text: str, name: str, source: str = "") -> Profile:
    """Return the profile in a TOML text.

    Raises ProfileError naming ``source``, line and field, or the package whose plugins cannot be loaded.
    """
    try:
        return _Reader(text, source or name).read(name)
    except plugins.PluginError as error:
        raise ProfileError(str(error)) from None


class _Reader:
    """Turns one TOML text into a profile, knowing where everything stands in it."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source

    def fail(self, path: tuple[str | int, ...], problem: object) -> ProfileError:
        """Return the error at a place of the file."""
        shown = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        place = f"{self._source}, line {locate(self._text, path)}"
        return ProfileError(f"{place}: {shown}: {problem}" if shown else f"{place}: {problem}")

    def read(self, name: str) -> Profile:
        try:
            raw = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise ProfileError(f"{self._source}: {error}") from None
        for key in raw:
            if key not in _TOP:
                raise self.fail((key,), f"no such setting; there are {', '.join(_TOP)}")
        sight = self._sight(raw, (), Sight())
        stale = self._convert(raw.get("stale", "refuse"), Literal["refuse", "requests"], ("stale",))
        stale_s = self._convert(raw.get("stale_s", 60.0), float, ("stale_s",))
        if not stale_s > 0:
            raise self.fail(("stale_s",), f"expected more than 0, got {stale_s}")
        filters = tuple(
            self._filter(entry, ("filters", i), sight) for i, entry in enumerate(self._list(raw, "filters"))
        )
        scores = tuple(self._score(entry, ("scores", i), sight) for i, entry in enumerate(self._list(raw, "scores")))
        if scores and not any(each.weight > 0 for each in scores):
            raise self.fail(("scores",), "every weight is 0")
        description = self._convert(raw.get("description", ""), str, ("description",))
        return Profile(name, description, sight, stale, stale_s, filters, scores)

    def _list(self, raw: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._convert(raw.get(key, []), list[dict[str, Any]], (key,))
        return entries

    def _sight(self, raw: Mapping[str, Any], path: tuple[str | int, ...], default: Sight) -> Sight:
        window = self._convert(
            raw.get("window", default.window), int | Literal["longest-covered", "shortest"], (*path, "window")
        )
        if isinstance(window, int) and window <= 0:
            raise self.fail((*path, "window"), f"expected a length in seconds, got {window}")
        model = self._convert(raw.get("credits", default.credits), CreditModel, (*path, "credits"))
        estimate = default.estimate
        if "estimate" in raw:
            estimate = self._build(Estimate, raw["estimate"], (*path, "estimate"))
        return Sight(window, model, estimate)

    def _filter(self, entry: dict[str, Any], path: tuple[str | int, ...], sight: Sight) -> PlacedFilter:
        kind = self._kind(entry, path, plugins.filters(), "filter")
        settings = {k: v for k, v in entry.items() if k not in _FILTER_KEYS}
        return PlacedFilter(self._build(kind, settings, path), self._own_sight(entry, path, sight))

    def _own_sight(self, entry: dict[str, Any], path: tuple[str | int, ...], sight: Sight) -> Sight | None:
        """Return the entry's own way to see load, None where it says nothing of it."""
        return self._sight(entry, path, sight) if entry.keys() & {"window", "credits", "estimate"} else None

    def _score(self, entry: dict[str, Any], path: tuple[str | int, ...], sight: Sight) -> WeightedScore:
        kind = self._kind(entry, path, plugins.scores(), "score")
        weight = self._convert(entry.get("weight", 1.0), float, (*path, "weight"))
        if not 0 <= weight < float("inf"):
            raise self.fail((*path, "weight"), f"expected a number of zero or more, got {weight}")
        normalise = self._convert(entry.get("normalise", "none"), Normalisation, (*path, "normalise"))
        settings = {k: v for k, v in entry.items() if k not in _SCORE_KEYS}
        return WeightedScore(self._build(kind, settings, path), weight, normalise, self._own_sight(entry, path, sight))

    def _kind(
        self, entry: dict[str, Any], path: tuple[str | int, ...], known: Mapping[str, type[Any]], what: str
    ) -> type[Any]:
        use = entry.get("use")
        if not isinstance(use, str):
            raise self.fail(path, f"`use` is missing: the name of a {what}")
        if use not in known:
            raise self.fail((*path, "use"), f"no {what} {use!r}; there are {', '.join(sorted(known))}")
        return known[use]

    def _build(self, kind: type[Any], settings: Any, path: tuple[str | int, ...]) -> Any:
        if not isinstance(settings, dict):
            raise self.fail(path, "expected a table")
        known = [each.name for each in dataclasses.fields(kind)]
        for key in settings:
            if key not in known:
                there = f"there are {', '.join(known)}" if known else "it has none"
                raise self.fail((*path, key), f"no such setting of {getattr(kind, 'name', 'estimate')}; {there}")
        try:
            return msgspec.convert(settings, kind)
        except msgspec.ValidationError as error:
            what, inner = _split(str(error))
            if not inner and (named := re.match(r"(\w+)(?:\.(\w+))?: ", what)) and named[1] in known:
                inner, what = tuple(part for part in named.groups() if part), what[named.end() :]
            elif inner:
                inner = (*inner, *_wrong_key(settings, kind, str(inner[0]), str(error)))
                what += _choices(what, get_type_hints(kind)[str(inner[0])])
            raise self.fail((*path, *inner), what) from None
        except Exception as error:  # a plugin of others may raise anything
            raise self.fail(path, f"{type(error).__name__}: {error}") from error

    def _convert(self, value: Any, kind: Any, path: tuple[str | int, ...]) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            what, inner = _split(str(error))
            raise self.fail((*path, *inner), what + _choices(what, kind)) from None


def _choices(what: str, kind: Any) -> str:
    """Return what there is to choose from, if something else was chosen."""
    if not what.startswith("Invalid enum value"):
        return ""
    kinds, words = [kind], []
    while kinds:
        each = kinds.pop(0)
        if get_origin(each) is Literal:
            words += list(get_args(each))
        else:
            kinds += get_args(each)
    return f"; there are {', '.join(words)}"


def _wrong_key(settings: Mapping[str, Any], kind: type[Any], name: str, message: str) -> tuple[str, ...]:
    """Return the key of a table whose value has the wrong type, which msgspec does not tell."""
    table = settings.get(name)
    for key, value in table.items() if isinstance(table, dict) else ():
        try:
            msgspec.convert({**settings, name: {key: value}}, kind)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return (key,)
    return ()


def _split(message: str) -> tuple[str, tuple[str | int, ...]]:
    """Split msgspec's message into what is wrong and where."""
    what, at, path = message.rpartition(" - at `$")
    if not at:
        return message, ()
    parts = [part for part in re.split(r"[.\[\]]+", path.rstrip("`")) if part]
    return what, tuple(int(part) if part.isdigit() else part for part in parts)


def locate(text: str, path: tuple[str | int, ...]) -> int:
    r"""Return the line (from 1) of a key path in a TOML text, or of the nearest thing around it.

    >>> locate('a = 1\n[[scores]]\nuse = "x"\n[[scores]]\nweight = -1', ("scores", 1, "weight"))
    5
    """
    best, best_depth = 1, 0
    here: tuple[str | int, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if array := re.match(r"\[\[\s*([\w.-]+)\s*\]\]", stripped):
            counts[array[1]] = counts.get(array[1], -1) + 1
            here = (*array[1].split("."), counts[array[1]])
        elif table := re.match(r"\[\s*([\w.-]+)\s*\]", stripped):
            parts: list[str | int] = []
            for part in table[1].split("."):
                parts.append(part)
                if part in counts:
                    parts.append(counts[part])
            here = tuple(parts)
        elif key := re.match(r"[\"']?([\w-]+)[\"']?\s*[=.]", stripped):
            full = (*here, key[1])
            depth = len(full)
            if depth > best_depth and path[:depth] == full:
                best, best_depth = number, depth
            continue
        else:
            continue
        if len(here) > best_depth and path[: len(here)] == here:
            best, best_depth = number, len(here)
    return best


# ---- the profiles there are


@dataclass(frozen=True)
class Profiles:
    """The profiles of one process, by name; made whole or not at all, so that a bad file replaces nothing."""

    by_name: Mapping[str, Profile]
    default: str = DEFAULT

    def choose(self, name: str = "") -> Profile:
        """Return the profile of that name, the default for an empty one.

        Raises ProfileError naming it and those there are.
        """
        name = name or self.default
        profile = self.by_name.get(name)
        if profile is None:
            raise ProfileError(f"profile: no profile {name!r}; there are {', '.join(sorted(self.by_name))}")
        return profile


def load_profiles(paths: Iterable[Path | str] = (), default: str = DEFAULT) -> Profiles:
    """Return the built-in profiles and those of these files and directories (``*.toml``), named by their file.

    A file of a built-in profile's name replaces it. Raises ProfileError.
    """
    by_name = dict(built_in_profiles())
    for path in map(Path, paths):
        files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        for file in files:
            by_name[file.stem] = read_profile(file)
    profiles = Profiles(by_name, default)
    profiles.choose()
    return profiles


def read_profile(path: Path) -> Profile:
    """Return the profile of one file.

    Raises ProfileError.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: cannot be read: {error}") from None
    return parse_profile(text, path.stem, str(path))


def built_in_profiles() -> Mapping[str, Profile]:
    """Return the profiles that lie beside this module."""
    found = {}
    for file in sorted(resources.files("scorer").joinpath("profiles").iterdir(), key=lambda each: each.name):
        if file.name.endswith(".toml"):
            name = file.name.removesuffix(".toml")
            found[name] = parse_profile(file.read_text(), name, f"profile {file.name}")
    return found
