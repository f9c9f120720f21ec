"""Shell: the library of C functions. The only module that knows ctypes.

The library is loaded from this package alone. Where it was built from other sources than those beside it, or for other
structs, the error names the command that builds it. Calls keep the interpreter's lock (`ctypes.PyDLL`): while one runs,
no other thread writes a row. With `ctypes.CDLL`, 3 of 4,404 passes beside a writer saw half a row.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorer.ranking.kernel.layout import SAID_MAX, STRUCTS, R
from scorer.snapshot.arrays import Bools, Floats, Integers

LIBRARY = Path(__file__).with_name("kernel.so")
BUILD = "python -m ops.packages.compiler"
TIE = 1e-9
"""Totals in the same whole number of these are equal."""

_FUNCTIONS = {
    "begin": 1, "plugin_number": 3, "make_rows": 11, "expected": 4, "evaluate": 7, "explain": 5, "fleet_means": 6,
    "compare": 4, "finish": 9, "best_among": 7, "place_copies": 16,
    "silent": 3, "data_state": 4, "explain_all": 5, "room": 9,
}  # fmt: skip
"""How many arguments each has."""


class KernelError(ImportError):
    """The library is missing, or not of these sources."""


def _load() -> Any:
    try:
        library = ctypes.PyDLL(str(LIBRARY))
    except OSError as error:
        raise KernelError(f"{LIBRARY}: {error}; build it with: {BUILD}") from None
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = [ctypes.c_void_p] * arguments
        function.restype = ctypes.c_int64
    library.explain.restype = ctypes.c_double
    library.sources.restype = ctypes.c_char_p
    if (here := _sources()) and library.sources().decode() != here:
        raise KernelError(f"{LIBRARY} was built from other sources; build it again with: {BUILD}")
    sizes = np.zeros(len(STRUCTS), np.int64)
    library.begin(address(sizes))
    if sizes.tolist() != [one.itemsize for one in STRUCTS]:
        raise KernelError(f"{LIBRARY} was built for other structs; build it again with: {BUILD}")
    return library


def _sources() -> str:
    """Return the digest of the C files beside the library; "" without any."""
    folders = (LIBRARY.parent, LIBRARY.parents[1] / "filters", LIBRARY.parents[1] / "scores")
    found = [path.read_bytes() for folder in folders for path in sorted(folder.glob("*.[ch]"))]
    return sha256(b"".join(found)).hexdigest()[:16] if found else ""


def address(array: NDArray[Any]) -> int:
    """Return where an array is in memory; the caller keeps the array while the number is in use."""
    return array.ctypes.data  # __array_interface__ spells the struct out each time: 90 us for a row


_library = _load()


@cache
def plugin_number(name: str, *, is_score: bool) -> tuple[int, int]:
    """Return the number of a built-in filter or score, and the size of its settings; -1 where it is no C function."""
    size = np.zeros(1, np.int64)
    return _library.plugin_number(name.encode(), is_score, address(size)), int(size[0])


def make_rows(
    making: NDArray[Any],
    machines: Integers,
    places: Integers,
    live: tuple[Integers, Integers],
    left: tuple[Integers, Integers],
    into: Sequence[NDArray[Any] | None],
) -> None:
    """Make the rows of some machines, at these places of ``into``: rows, more, and sums by class or None.

    ``live``, ``left``: the addresses of their instances and leavers, and [n + 1] where those of each machine begin.
    """
    _library.make_rows(
        address(making), machines.size, address(machines), address(places), address(live[0]), address(live[1]),
        address(left[0]), address(left[1]), *(0 if one is None else address(one) for one in into),
    )  # fmt: skip


def expected(making: NDArray[Any], instances: NDArray[Any]) -> Floats:
    """Return [K, R]: what K instances are expected to use."""
    found = np.empty(instances["amounts"].shape)
    _library.expected(address(making), instances.size, address(instances), address(found))
    return found


def evaluate(
    machines: int, filters: NDArray[Any], scores: NDArray[Any], patches: NDArray[Any], refused: NDArray[np.int32]
) -> None:
    """Put into refused [M] the first refusal of each machine, and into each score's raw its values of the others."""
    _library.evaluate(
        machines, address(filters), filters.size, address(scores), scores.size, address(patches), address(refused)
    )


def explain(use: NDArray[Any], number: int, row: int, patch: int, *, is_score: bool) -> tuple[float, Floats]:
    """Return the reason's number, or the value, of one machine by one of some plugins, and the numbers behind it."""
    said = np.full(SAID_MAX, np.nan)
    found = _library.explain(address(use) + number * use.itemsize, is_score, row, patch, address(said))
    return found, said


def explain_all(use: NDArray[Any], number: int, machines: int, *, is_score: bool) -> Floats:
    """Return [M, SAID_MAX]: the numbers behind the verdict of one plugin on each machine."""
    said = np.full((machines, SAID_MAX), np.nan)
    _library.explain_all(address(use) + number * use.itemsize, is_score, machines, SAID_MAX, address(said))
    return said


def fleet_means(
    machines: int, rows: int, patched: int, patches: NDArray[Any], query: NDArray[Any], among: NDArray[np.int32] | None
) -> None:
    """Put the fleet's mean utilizations into the query; ``among``: refusals, so that only feasible machines count."""
    of = 0 if among is None else address(among)
    _library.fleet_means(machines, rows, patched, address(patches), of, address(query))


def compare(machines: int, refused: NDArray[np.int32], scores: NDArray[Any]) -> None:
    """Put in place of the raw values of scores that compare machines what they are among the feasible ones."""
    _library.compare(machines, address(refused), address(scores), scores.size)


def finish(
    refused: NDArray[np.int32],
    scores: NDArray[Any],
    order: NDArray[np.uint64],
    total: Floats,
    best: Integers,
    counts: Integers,
) -> int:
    """Put the weighted mean into total [M], the best rows into best, the machines by refusal into counts.

    Returns how many are in best.
    """
    found: int = _library.finish(
        refused.size, address(refused), address(scores), scores.size, address(order), address(total), address(best),
        best.size, address(counts),
    )  # fmt: skip
    return found


def best_among(
    refused: NDArray[np.int32], total: Floats, order: NDArray[np.uint64], only: Bools | None, count: int
) -> Integers:
    """Return the best ``count`` rows among some machines, of totals that are there."""
    best = np.empty(min(count, refused.size), np.int64)
    found = _library.best_among(
        refused.size, address(refused), address(total), address(order), 0 if only is None else address(only),
        address(best), best.size,
    )  # fmt: skip
    return best[:found]


def place_copies(
    filters: NDArray[Any],
    scores: NDArray[Any],
    models: NDArray[Any],
    of_means: int,
    index: Integers,
    patched: int,
    refused: NDArray[np.int32],
    order: NDArray[np.uint64],
    count: int,
) -> Integers:
    """Return the rows of ``count`` copies of the request, each chosen as one-by-one would; fewer where none is left."""
    machines, chosen, place_of = refused.size, np.empty(count, np.int64), _place_of(index[:patched], refused.size)
    work = np.empty((1 + (1 + R) * scores.size) * machines)
    found = _library.place_copies(
        machines, address(filters), filters.size, address(scores), scores.size, address(models), models.size, of_means,
        address(index), patched, address(place_of), address(refused), address(order), count, address(chosen),
        address(work),
    )  # fmt: skip
    return chosen[:found]


def room(
    filters: NDArray[Any], models: NDArray[Any], patched: Integers, refused: NDArray[np.int32], most: int
) -> Integers:
    """Return [M]: how many copies each machine takes, ``most`` at most; into ``refused`` what refuses the next one."""
    copies, place_of = np.empty(refused.size, np.int64), _place_of(patched, refused.size)
    _library.room(
        refused.size, address(filters), filters.size, address(models), models.size, address(place_of), most,
        address(refused), address(copies),
    )  # fmt: skip
    return copies


def _place_of(patched: Integers, machines: int) -> Integers:
    """Return [M]: where each machine's patch is, -1 without one."""
    found = np.full(machines, -1, np.int64)
    found[patched] = np.arange(patched.size)
    return found


def silent(rows: NDArray[Any], now_s: float, stale_s: float, share: float) -> bool:
    """Return whether at least ``share`` of the machines with data have none younger than that."""
    return bool(_library.silent(rows.size, address(rows), address(np.array([now_s, stale_s, share]))))


class DataState(NamedTuple):
    """How old the data of the machines is."""

    known: int
    """Machines with data."""
    stale: int
    """Of them, those without any since a time."""
    warming: int
    newest_at: float


def data_state(rows: NDArray[Any], since_s: float) -> DataState:
    """Return how old the data of the machines is."""
    found = np.empty(4)
    _library.data_state(rows.size, address(rows), address(np.array([since_s])), address(found))
    known, stale, warming, newest = found.tolist()
    return DataState(int(known), int(stale), int(warming), newest)
