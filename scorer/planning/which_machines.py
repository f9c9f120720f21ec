"""The machines that names, globs and a selector choose: for commands and for methods of the RPC alike. Pure."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from schemas.messages.operator import DEFAULT
from schemas.messages.sample import Rejected, check_machine_id
from schemas.rpc.request import InvalidRequest
from schemas.values.globs import is_glob
from scorer.ranking.formulas.selectors import parse_selector
from scorer.snapshot.rules import LabelColumn


class NoMachine(LookupError):
    """A name, a glob or a selector that chooses no machine."""


def meant(
    given: Sequence[str],
    selector: str,
    known: Mapping[str, Mapping[str, str]],
    *,
    ahead: bool = False,
    hint: Callable[[str], str] = lambda _: "",
) -> list[str]:
    """Return the machines that names, globs and a selector choose, each once; ``*`` is the entry of all machines.

    >>> meant(["sim-*"], "rack=a", {"sim-1": {}, "sim-2": {}, "web": {"rack": "a"}})
    ['sim-1', 'sim-2', 'web']

    ``known``: the labels of each machine. ``ahead``: a name may be of a machine to come. ``hint`` returns the end of
    the message about an unknown name. Raises InvalidRequest for a name or a selector that there cannot be, NoMachine
    for one that means none.
    """
    found: list[str] = []
    for name in given:
        if name == DEFAULT:
            found.append(name)
        elif is_glob(name):
            if not (matching := sorted(each for each in known if fnmatchcase(each, name))):
                raise NoMachine(f"no machine matches {name!r}; there are {len(known)}")
            found += matching
        else:
            try:
                check_machine_id(name)
            except Rejected as error:
                raise InvalidRequest(error.detail) from None
            if name not in known and not ahead:
                raise NoMachine(f"no machine {name!r}{hint(name)}")
            found.append(name)
    if selector:
        if not (matching := selected(selector, known)):
            raise NoMachine(f"no machine has labels that {selector!r} selects; there are {len(known)}")
        found += matching
    return list(dict.fromkeys(found))


def selected(selector: str, known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the machines that a label selector selects, in order; raises InvalidRequest for one that cannot be read.

    >>> selected("rack in (a, b), machine!=m2", {"m3": {"rack": "b"}, "m2": {"rack": "a"}, "m1": {"rack": "a"}})
    ['m1', 'm3']
    """
    holds = np.ones(len(known), np.bool_)
    for one in parse_selector(selector):
        given = [name if one.key == "machine" else labels.get(one.key) for name, labels in known.items()]
        values = dict.fromkeys(value for value in given if value is not None)
        code_of = {value: code for code, value in enumerate(values)}
        codes = np.array([-1 if value is None else code_of[value] for value in given], np.int64)
        holds &= one.holds(LabelColumn(tuple(values), codes))
    return sorted(name for name, held in zip(known, holds.tolist(), strict=True) if held)
