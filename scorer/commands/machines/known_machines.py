"""The machines that Redis knows, read without a scorer, and those that names, globs and selectors mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.messages.operator import DEFAULT
from schemas.messages.sample import Rejected, check_machine_id
from schemas.names import Names
from schemas.process.settings import SettingsError
from schemas.values.near import did_you_mean
from scorer.client import WindwardError

if TYPE_CHECKING:
    import redis

_GLOB = frozenset("*?[")


def known_machines(server: redis.Redis, names: Names) -> dict[str, dict[str, str]]:
    """Return the labels of every machine by name: each with windows, facts or operators' rules."""
    from schemas.values.partition_count import partition_count
    from scorer.live.windows_reader import read_windows

    found: dict[str, dict[str, str]] = {}
    partitions = partition_count(server.get(names.partitions)) or 0
    for windows in read_windows(server, names, partitions).windows:
        found.update((machine, {}) for machine in windows.machines)
    for partition in range(partitions):
        _add_labels(found, server.hgetall(names.facts(partition)))
    _add_labels(found, server.hgetall(names.operator))
    found.pop(DEFAULT, None)
    return found


def _add_labels(found: dict[str, dict[str, str]], hash_: Any) -> None:
    for name, raw in hash_.items():
        try:
            labels = msgspec.json.decode(raw).get("labels", {})
        except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
            labels = {}
        found.setdefault(name.decode(), {}).update(labels)


def is_glob(word: str) -> bool:
    """Return whether a word is a glob.

    >>> is_glob("web-*"), is_glob("web-1")
    (True, False)
    """
    return bool(_GLOB & set(word))


def meant(
    given: Sequence[str], selector: str, known: Mapping[str, Mapping[str, str]], *, ahead: bool | None
) -> list[str]:
    """Return the machines that names, globs and a selector mean, each once; ``*`` alone is the entry of all machines.

    >>> meant(["sim-*"], "", {"sim-1": {}, "sim-2": {}, "web": {}}, ahead=False)
    ['sim-1', 'sim-2']

    ``ahead``: whether a name may be of a machine to come; None where the caller does not offer this. Raises
    SettingsError for an invalid name, WindwardError NOT_FOUND for an unknown one unless ``ahead``.
    """
    found: list[str] = []
    for name in given:
        if name == DEFAULT:
            found.append(name)
        elif is_glob(name):
            if not (matching := sorted(each for each in known if fnmatchcase(each, name))):
                raise WindwardError("NOT_FOUND", f"no machine matches {name!r}; there are {len(known)}")
            found += matching
        elif name in known or ahead:
            found.append(checked_name(name))
        else:
            checked_name(name)
            hint = did_you_mean(name, known) or (
                "" if ahead is None else "; `windward machines list -o name` has the names"
            )
            hint += "" if ahead is None else " (--ahead: it is to come)"
            raise WindwardError("NOT_FOUND", f"no machine {name!r}{hint}")
    if selector:
        matching = sorted(name for name, labels in known.items() if selects(selector, name, labels))
        if not matching:
            raise WindwardError("NOT_FOUND", f"no machine has labels that {selector!r} selects; there are {len(known)}")
        found += matching
    return list(dict.fromkeys(found))


def selects(selector: str, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector holds for one machine; raises SettingsError for one that cannot be read."""
    import numpy as np

    from schemas.rpc.request import InvalidRequest
    from scorer.ranking.formulas.selectors import parse_selector
    from scorer.snapshot.rules import LabelColumn

    try:
        requirements = parse_selector(selector)
    except InvalidRequest as error:
        raise SettingsError(str(error)) from None
    own = {**labels, "machine": name}
    for one in requirements:
        there = one.key in own
        column = LabelColumn((own[one.key],) if there else (), np.array([0 if there else -1]))
        if not one.holds(column)[0]:
            return False
    return True


def checked_name(name: str) -> str:
    """Return a machine's name; raises SettingsError for one that no machine can have."""
    try:
        check_machine_id(name)
    except Rejected as error:
        raise SettingsError(error.detail) from None
    return name
