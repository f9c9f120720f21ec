"""Shell: the library of C functions. The only module that calls it.

The library is loaded from this package alone. Where it was built from other sources than those beside it, or for other
structs, the error names the command that builds it. Calls keep the interpreter's lock (`ctypes.PyDLL`): while one runs,
no other thread writes a row. With `ctypes.CDLL`, 3 of 4,404 passes beside a writer saw half a row.
"""

import ctypes
from collections.abc import Sequence
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scorer.ranking.kernel.layout import MODEL, SAID_MAX, STRUCTS, USE, R
from scorer.snapshot.arrays import Bools, Floats, Integers, address

LIBRARY = Path(__file__).with_name("kernel.so")
BUILD = "python -m ops.packages.compiler"
TIE = 1e-9
"""Totals in the same whole number of these are equal."""

_FUNCTIONS = {
    "begin": 1, "plugin_number": 3, "make_rows": 12, "add_up": 3, "expected": 4, "ask": 4, "fleet_means": 7,
    "evaluate": 7, "explain": 5, "explain_all": 5, "compare": 4, "finish": 9, "best_among": 7, "place_copies": 16,
    "room": 9,
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
    if address(sizes) != sizes.ctypes.data:
        raise KernelError("the arrays of this numpy do not begin with their address (scorer.snapshot.arrays.address)")
    library.begin(address(sizes))
    if sizes.tolist() != [one.itemsize for one in STRUCTS]:
        raise KernelError(f"{LIBRARY} was built for other structs; build it again with: {BUILD}")
    return library


def _sources() -> str:
    """Return the digest of the C files beside the library; "" without any."""
    folders = (LIBRARY.parent, LIBRARY.parents[1] / "filters", LIBRARY.parents[1] / "scores")
    found = [path.read_bytes() for folder in folders for path in sorted(folder.glob("*.[ch]"))]
    return sha256(b"".join(found)).hexdigest()[:16] if found else ""


def point(struct: NDArray[Any], **arrays: NDArray[Any]) -> None:
    """Set fields of a struct to the addresses of the arrays with their names; the caller keeps the arrays."""
    for name, array in arrays.items():
        struct[name] = address(array)


_library = _load()


@cache
def plugin_number(name: str, *, is_score: bool) -> tuple[int, int]:
    """Return the number of a built-in filter or score, and the size of its settings; -1 for any other."""
    size = np.zeros(1, np.int64)
    return _library.plugin_number(name.encode(), is_score, address(size)), int(size[0])


def make_rows(
    making: NDArray[Any],
    machines: Integers,
    places: Integers,
    residents: Sequence[tuple[Integers, Integers]],
    into: Sequence[NDArray[Any] | None],
) -> None:
    """Make the rows of some machines, at these places of ``into``.

    ``into``: rows, more, sums by class or None, and the sums over all rows, which are kept right, or None.

    ``residents``: for their instances and for their leavers the addresses, and [n + 1] where those of each begin.
    """
    inputs = (each for pair in residents for each in pair)
    outputs = (0 if one is None else address(one) for one in into)
    _library.make_rows(
        address(making), machines.size, address(machines), address(places), *map(address, inputs), *outputs
    )


def expected(making: NDArray[Any], instances: NDArray[Any]) -> Floats:
    """Return [K, R]: the expected use of K instances."""
    found = np.empty(instances["amounts"].shape)
    _library.expected(address(making), instances.size, address(instances), address(found))
    return found


_INPUTS, _OF_PROFILE, _OF_REQUEST = map(Struct, ("5Q", "Q4qd", "2d3Qq"))
"""The parts of `USE`."""
assert _INPUTS.size + _OF_PROFILE.size + _OF_REQUEST.size == USE.itemsize


class Pinned:
    """An array, and its address."""

    __slots__ = ("array", "at")

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.at = address(array)


class Records:
    """The inputs of plugins under one load model: rows, their optional parts, both of the what-if, the query."""

    __slots__ = ("at", "kept", "packed")

    def __init__(self, *arrays: NDArray[Any]) -> None:
        self.kept = arrays
        self.at = tuple(map(address, arrays))
        self.packed = _INPUTS.pack(*self.at)


def use_of_profile(
    number: int, settings: Pinned | None, *, code: int = 0, inner: int = 0, how: int = 0, weight: float = 0.0
) -> bytes:
    """Return the part of a `USE` that is the same for every request: of a filter with its code, or of a score."""
    return _OF_PROFILE.pack(0 if settings is None else settings.at, number, code, inner, how, weight)


class Uses:
    """An array of `USE`: the filters or the scores for one request, in their order, each with its inputs."""

    def __init__(self, machines: int = 0, scores: int | None = None) -> None:
        """``scores``: the maximum number of scores; None: the plugins are filters."""
        self._packed = bytearray()
        self._kept: list[object] = []
        self._raw = None if scores is None else Pinned(np.zeros((scores, machines)))
        self.size = 0

    def add(
        self, records: Records, of_profile: bytes, columns: Sequence[Floats] = (), own: Sequence[float] = ()
    ) -> int:
        """Add a filter or a score; return its place."""
        columns_at = own_at = raw_at = 0
        if columns:
            side = np.ascontiguousarray(columns[0]) if len(columns) == 1 else np.stack(columns, axis=1)
            columns_at = address(side)
            self._kept.append(side)
        if own:
            added = np.array(own)
            own_at = address(added)
            self._kept.append(added)
        if self._raw is not None:
            raw_at = self._raw.at + self.size * self._raw.array.strides[0]
        self._kept.append(records)
        self._packed += records.packed + of_profile
        self._packed += _OF_REQUEST.pack(1.0, 0.0, raw_at, columns_at, own_at, len(columns))
        self.size += 1
        return self.size - 1

    def raw(self, place: int) -> Floats:
        """Return [M], the array for the values of a score; those of refused machines are 0."""
        assert self._raw is not None, "filters have no values"
        found: Floats = self._raw.array[place]
        return found

    @cached_property
    def array(self) -> NDArray[Any]:
        """[size] of `USE`, once all plugins are added."""
        return np.frombuffer(self._packed, USE)

    @cached_property
    def at(self) -> int:
        return address(self.array)

    def put(self, number: int, raw: Floats, slope: float, start: float) -> None:
        """Replace the array of a score's values by another."""
        self._kept.append(raw)
        use = self.array[number]
        point(use, raw=raw)
        use["slope"], use["start"] = slope, start

    def patch(self, number: int, rows: NDArray[Any], more: NDArray[Any]) -> None:
        """Set the rows of a what-if that a plugin reads."""
        self._kept += (rows, more)
        point(self.array[number], patched_rows=rows, patched_more=more)


def evaluate(
    filters: Uses, some: slice, scores: Uses | None, patches: NDArray[Any], refused: NDArray[np.int32]
) -> None:
    """Put into refused [M] the first refusal of each machine by some filters, into each score's raw its values.

    Machines that are refused already are passed over.
    """
    first, last, _ = some.indices(filters.size)
    at, size = (0, 0) if scores is None else (scores.at, scores.size)
    if first < last or size:
        _library.evaluate(
            refused.size, filters.at + first * USE.itemsize, last - first, at, size, address(patches), address(refused)
        )


def explain(uses: Uses, number: int, row: int, patch: int, *, is_score: bool) -> tuple[float, Floats]:
    """Return a plugin's verdict on one machine, a reason's number or a value, and the numbers behind it."""
    said = np.full(SAID_MAX, np.nan)
    found = _library.explain(uses.at + number * USE.itemsize, is_score, row, patch, address(said))
    return found, said


def explain_all(uses: Uses, number: int, machines: int, *, is_score: bool) -> Floats:
    """Return [M, SAID_MAX]: the numbers behind the verdict of one plugin on each machine."""
    said = np.full((machines, SAID_MAX), np.nan)
    _library.explain_all(uses.at + number * USE.itemsize, is_score, machines, SAID_MAX, address(said))
    return said


def ask(making: NDArray[Any], asked: NDArray[Any], queries: NDArray[Any]) -> None:
    """Write requests into queries; ``asked``: the requests as records."""
    _library.ask(address(making), queries.size, address(asked), address(queries))


def add_up(rows: NDArray[Any], load: NDArray[Any]) -> None:
    """Add the utilizations of all rows to the sums."""
    _library.add_up(rows.size, address(rows), address(load))


def fleet_means(
    records: Records, patches: NDArray[Any], load: NDArray[Any], refused: NDArray[np.int32] | None = None
) -> None:
    """Write the mean utilizations of the fleet, or of the feasible machines, into the query (``evaluate.h``)."""
    rows, _, patched, _, query = records.at
    among = 0 if refused is None else address(refused)
    _library.fleet_means(records.kept[0].size, rows, patched, address(patches), among, address(load), query)


def compare(refused: NDArray[np.int32], scores: Uses) -> None:
    """Scale the raw values of scores that compare machines to 0-100 among the feasible ones, in place."""
    _library.compare(refused.size, address(refused), scores.at, scores.size)


def finish(
    refused: NDArray[np.int32], scores: Uses, order: NDArray[np.uint64], most: int, reasons: int
) -> tuple[Floats, Integers, Integers]:
    """Return the weighted mean [M], at most ``most`` best rows, and how many machines each refusal has [reasons]."""
    total, best = np.zeros(refused.size), np.empty(min(most, refused.size), np.int64)
    counts = np.zeros(reasons, np.int64)
    found = _library.finish(
        refused.size, address(refused), scores.at, scores.size, address(order), address(total), address(best),
        best.size, address(counts),
    )  # fmt: skip
    return total, best[:found], counts


def best_among(
    refused: NDArray[np.int32], total: Floats, order: NDArray[np.uint64], only: Bools | None, count: int
) -> Integers:
    """Return the ``count`` best rows among some machines, by totals that are computed already."""
    best = np.empty(min(count, refused.size), np.int64)
    found = _library.best_among(
        refused.size, address(refused), address(total), address(order), 0 if only is None else address(only),
        address(best), best.size,
    )  # fmt: skip
    return best[:found]


class Models:
    """Load models of a batch, each with the arrays of `MODEL`."""

    def __init__(self) -> None:
        self._packed: list[tuple[int, ...]] = []
        self._kept: list[object] = []
        self.queries: list[NDArray[Any]] = []
        """By model, those of all requests."""

    def add(self, *arrays: NDArray[Any]) -> None:
        self._kept += arrays
        self._packed.append(tuple(map(address, arrays)))
        self.queries.append(arrays[-2])

    @cached_property
    def array(self) -> NDArray[Any]:
        """[size] of `MODEL`; with room for one at least."""
        return np.array(self._packed or [(0,) * 8], MODEL)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self._packed)


def place_copies(
    filters: Uses, scores: Uses, models: Models, of_means: int, patches: NDArray[Any], patched: Integers,
    refused: NDArray[np.int32], order: NDArray[np.uint64], copies: Integers,
) -> Integers:  # fmt: skip
    """Return the rows for ``copies`` of each request, chosen as if one by one; up to the first without a machine."""
    machines, chosen, place_of = refused.size, np.empty(copies.sum(), np.int64), _place_of(patched, refused.size)
    work = np.empty((1 + (1 + R) * scores.size) * machines)
    found = _library.place_copies(
        machines, filters.at, filters.size, scores.at, scores.size, address(models.array), models.size,
        of_means, address(patches), address(place_of), address(refused), address(order), copies.size,
        address(copies), address(chosen), address(work),
    )  # fmt: skip
    return chosen[:found]


def room(filters: Uses, models: Models, patched: Integers, refused: NDArray[np.int32], most: int) -> Integers:
    """Return [M]: how many copies each machine takes, at most ``most``; writes into ``refused`` why not one more."""
    copies, place_of = np.empty(refused.size, np.int64), _place_of(patched, refused.size)
    _library.room(
        refused.size, filters.at, filters.size, address(models.array), models.size, address(place_of),
        most, address(refused), address(copies),
    )  # fmt: skip
    return copies


def _place_of(patched: Integers, machines: int) -> Integers:
    """Return [M]: the index of each machine's patch, -1 without one."""
    found = np.full(machines, -1, np.int64)
    found[patched] = np.arange(patched.size)
    return found
