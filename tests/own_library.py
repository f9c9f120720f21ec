"""The compiled part of the ranking built with other flags, in place of the checkout's, in this process alone."""

import ctypes
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from ops.packages.compiler import LIBRARY, compile_kernel

BINDING = "scorer.ranking.kernel.binding"


@contextmanager
def in_place_of_ours(*flags):
    """Build it and have it loaded; to be entered before anything loads the checkout's."""
    assert BINDING not in sys.modules
    load = ctypes.PyDLL
    with tempfile.TemporaryDirectory(prefix="windward-library-") as folder:
        library = compile_kernel(Path(__file__).parents[1], into=Path(folder) / LIBRARY, more=flags)

        def loaded(name, *more):
            return load(str(library) if name.endswith(LIBRARY) else name, *more)

        with mock.patch.object(ctypes, "PyDLL", loaded):
            yield
