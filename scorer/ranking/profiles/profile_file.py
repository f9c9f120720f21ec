"""Reading a profile from TOML.

    description = "one line"
    window = "longest-covered"        # of each machine; or "shortest", or a length as "1h" (else the next shorter)
    credits = "window"                # or "trimaran-60s", "koordinator-pending", "none"
    debits = false                    # true: what ended or moved away is taken out of the windows (credits "window")
    learned = false                   # true: an instance is expected to use the learned part of what it asks
    stale = "last-known"              # while the pipeline is silent: rank by the last known load, and warn;
                                      # or "refuse"; or "requests": rank by requests alone then, and warn
    stale_s = 60.0                    # the age from which data are stale
    survive = "rack"                  # or "machine": room is kept for what runs on any one that is lost (`survive`)
    ties = "name"                     # of equally good machines the first by name; or "draw": one by a hash of the id

    [estimate]                        # what an instance is expected to use when its request does not say
    base = "request"                  # or "larger" (of limit and request), "limit-first"
    factor = { cpu = 1.0 }
    default = { cpu = 0.0 }

    [[filters]]                       # they run in this order; a machine counts for the first that refuses it
    use = "fresh"
    age_s_max = 60.0                  # the filter's own settings
    window = 300                      # this filter alone uses another window, credit model or estimate

    [[scores]]
    use = "load_variation_risk"
    weight = 1.0
    normalise = "none"                # or "min-max" over the feasible machines, "rank"
    credits = "none"                  # this score alone uses another credit model, window or estimate

    [[rules]]                         # how the members of a group are spread (`ProfileRule`)
    group = ["cluster"]
    topology = "rack"
    at_most = 3

    [rebalance]                       # how `windward rebalance` chooses what moves (`rebalance_section`)
    gain_min = 0.002

The built-in profiles are in ``profiles/``. An unknown name, a wrong type or a value out of range is a ProfileError that
names file, line and field.
"""

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from schemas.values.errors import in_words, shortened, split_path
from schemas.values.numbers import parse_duration
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.kernel.layout import SCORES_MAX
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.plugins import PluginError
from scorer.ranking.profiles.profile import (
    RULES_MAX,
    LoadModel,
    Normalisation,
    PlacedFilter,
    Profile,
    ProfileError,
    ProfileRule,
    StalePolicy,
    Ties,
    WeightedScore,
)
from scorer.ranking.profiles.rebalance_section import Rebalancing

_LOAD_HINTS = get_type_hints(LoadModel)
_LOAD_KEYS = ("window", "credits", "debits", "learned", "estimate")
_PLAIN: Mapping[str, Any] = {"description": str, "stale": StalePolicy, "stale_s": float, "ties": Ties, "survive": str}
_TOP = ("description", *_LOAD_KEYS, "stale", "stale_s", "ties", "survive", "filters", "scores", "rules", "rebalance")
_OF_A_SCORE = ("weight", "normalise")
_GONE = {
    "mean_of": "this setting is gone: a machine's mean is always its window's; delete the line",
    "objective": "this setting is gone: a move is judged by the expected overload; delete the line",
}


def parse_profile(text: str, name: str, source: str = "") -> Profile:
    """Return the profile in a TOML text.

    Raises ProfileError naming ``source``, line and field, or the package whose plugins cannot be loaded.
    """
    try:
        return _Reader(text, source or name).read(name)
    except PluginError as error:
        raise ProfileError(str(error)) from None
    except ProfileError as error:
        raise ProfileError(shortened(str(error))) from None
    except RecursionError:
        raise ProfileError(f"{source or name}: its lists or tables are nested too deeply") from None


class _Reader:
    """Turns one TOML text into a profile; its errors name the line."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source

    def fail(self, path: tuple[str | int, ...], problem: object) -> ProfileError:
        """Return the error at a place of the file."""
        shown = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        place, problem = f"{self._source}, line {locate(self._text, path)}", in_words(str(problem))
        return ProfileError(f"{place}: {shown}: {problem}" if shown else f"{place}: {problem}")

    def read(self, name: str) -> Profile:
        try:
            raw = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise ProfileError(f"{self._source}: {error}") from None
        for key in raw:
            if key not in _TOP:
                raise self.fail((key,), _GONE.get(key) or f"no such setting; there are {', '.join(_TOP)}")
        load_model = self._load_model(raw, (), LoadModel())
        plain = {key: self._convert(raw[key], kind, (key,)) for key, kind in _PLAIN.items() if key in raw}
        if not plain.get("stale_s", 60.0) > 0:
            raise self.fail(("stale_s",), f"expected more than 0, got {plain['stale_s']}")
        filters = tuple(
            PlacedFilter(*self._plugin(entry, ("filters", i), load_model, plugins.filters()))
            for i, entry in enumerate(self._list(raw, "filters"))
        )
        scores = tuple(
            self._score(entry, ("scores", i), load_model) for i, entry in enumerate(self._list(raw, "scores"))
        )
        if len(scores) > SCORES_MAX:
            raise self.fail(("scores",), f"expected at most {SCORES_MAX} scores, got {len(scores)}")
        if scores and not any(each.weight > 0 for each in scores):
            raise self.fail(("scores",), "every weight is 0")
        listed = enumerate(self._list(raw, "rules"))
        rules = tuple(self._build(ProfileRule, entry, ("rules", i)) for i, entry in listed)
        if len(rules) > RULES_MAX:
            raise self.fail(("rules",), f"expected at most {RULES_MAX} rules, got {len(rules)}")
        if rules and not any(each.filter.name == "anti_affinity" for each in filters):
            raise self.fail(("rules",), "the filter anti_affinity upholds them: add it to the filters")
        if plain.get("survive") and any(getattr(each.filter, "classes", None) is not None for each in filters):
            raise self.fail(("survive",), "it counts all classes as one sum; no filter may have classes")
        if isinstance(section := raw.get("rebalance", {}), dict) and section.get("objective") == "overload":
            del section["objective"]  # profiles of an earlier version state it
        rebalance = self._build(Rebalancing, section, ("rebalance",))
        parts = {"filters": filters, "scores": scores, "rules": rules, "rebalance": rebalance}
        return Profile(name, load_model=load_model, **parts, **plain)

    def _list(self, raw: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._convert(raw.get(key, []), list[dict[str, Any]], (key,))
        return entries

    def _load_model(self, raw: Mapping[str, Any], path: tuple[str | int, ...], default: LoadModel) -> LoadModel:
        if isinstance(window := raw.get("window"), str) and window[:1].isdigit():
            with suppress(ValueError):
                raw = {**raw, "window": int(parse_duration(window))}
        given = {
            key: self._convert(raw[key], _LOAD_HINTS[key], (*path, key))
            for key in _LOAD_KEYS
            if key in raw and key != "estimate"
        }
        if "estimate" in raw:
            given["estimate"] = self._build(Estimate, raw["estimate"], (*path, "estimate"))
        if (model := given.get("credits", default.credits)) != "window":
            default = dataclasses.replace(default, debits=False)
        found = dataclasses.replace(default, **given)
        if isinstance(found.window, int) and found.window <= 0:
            raise self.fail((*path, "window"), f"expected a length in seconds, got {found.window}")
        if found.debits and model != "window":
            raise self.fail((*path, "debits"), f'debits go with credits = "window", not {model!r}')
        return found

    def _score(self, entry: dict[str, Any], path: tuple[str | int, ...], load_model: LoadModel) -> WeightedScore:
        score, own = self._plugin(entry, path, load_model, plugins.scores(), *_OF_A_SCORE)
        weight = self._convert(entry.get("weight", 1.0), float, (*path, "weight"))
        if not 0 <= weight < float("inf"):
            raise self.fail((*path, "weight"), f"expected a number of zero or more, got {weight}")
        normalise = self._convert(entry.get("normalise", "none"), Normalisation, (*path, "normalise"))
        return WeightedScore(score, weight, normalise, own)

    def _plugin(
        self, entry: dict[str, Any], path: tuple[str | int, ...], load_model: LoadModel, known: Mapping[str, type[Any]],
        *of_its_kind: str,
    ) -> tuple[Any, LoadModel | None]:  # fmt: skip
        """Return an entry's plugin and its own load model, which is None where the entry sets none of its keys."""
        use, what = entry.get("use"), str(path[0]).removesuffix("s")
        if not isinstance(use, str):
            raise self.fail(path, f"`use` is missing: the name of a {what}")
        if use not in known:
            raise self.fail((*path, "use"), f"no {what} {use!r}; there are {', '.join(sorted(known))}")
        settings = {k: v for k, v in entry.items() if k not in ("use", *_LOAD_KEYS, *of_its_kind)}
        own = self._load_model(entry, path, load_model) if entry.keys() & {*_LOAD_KEYS} else None
        return self._build(known[use], settings, path), own

    def _build(self, kind: type[Any], settings: Any, path: tuple[str | int, ...]) -> Any:
        if not isinstance(settings, dict):
            raise self.fail(path, "expected a table")
        known = [each.name for each in dataclasses.fields(kind)]
        for key in settings:
            if key not in known:
                there = f"there are {', '.join(known)}" if known else "it has none"
                unknown = f"no such setting of {getattr(kind, 'name', 'estimate')}; {there}"
                raise self.fail((*path, key), _GONE.get(key) or unknown)
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
    """Return the valid words, as an addition to msgspec's message for an invalid one; else ""."""
    if not what.startswith("Invalid enum value"):
        return ""
    kinds, words = [kind], []
    while kinds:
        each = kinds.pop(0)
        if each is int:
            words.append("lengths such as 1h")
        elif get_origin(each) is Literal:
            words += list(get_args(each))
        else:
            kinds += get_args(each)
    return f"; there are {', '.join(words)}"


def _wrong_key(settings: Mapping[str, Any], kind: type[Any], name: str, message: str) -> tuple[str, ...]:
    """Return the key of a table whose value has the wrong type, which msgspec does not name."""
    table = settings.get(name)
    for key, value in table.items() if isinstance(table, dict) else ():
        try:
            msgspec.convert({**settings, name: {key: value}}, kind)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return (key,)
    return ()


def _split(message: str) -> tuple[str, tuple[str | int, ...]]:
    """Split msgspec's message into the fault and its place."""
    what, path = split_path(message)
    parts = [part for part in re.split(r"[.\[\]]+", path) if part]
    return what, tuple(int(part) if part.isdigit() else part for part in parts)


def locate(text: str, path: tuple[str | int, ...]) -> int:
    r"""Return the line (from 1) of a key path in a TOML text, or of the nearest table around it. `tomllib` tells none.

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
