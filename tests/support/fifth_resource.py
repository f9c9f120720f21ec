"""Run tests with one resource more: ``python -m tests.support.fifth_resource [arguments of pytest]``.

Adds an entry to the text of `schemas.resources`, as somebody would, before anything else is imported: nothing but that
entry tells the rest of the code about the resource. The compiled part is built for the number of them.
"""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

from tests.own_library import in_place_of_ours

ENTRY = 'Resource(name="tpu", unit="tensor chips", measured="chips kept busy", decimals=3)'


def add_resource():
    """Put `schemas.resources` with the entry in place of the real one; to be called before it is imported."""
    assert "schemas.resources" not in sys.modules
    spec = importlib.util.find_spec("schemas.resources")
    tree = ast.parse(Path(spec.origin).read_text())
    (entries,) = (
        node.value.elts
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "ALL"
        if isinstance(node.value, ast.Tuple)
    )
    entries.append(ast.parse(ENTRY, mode="eval").body)
    module = importlib.util.module_from_spec(spec)
    sys.modules["schemas.resources"] = module
    exec(compile(ast.fix_missing_locations(tree), spec.origin, "exec"), vars(module))


if __name__ == "__main__":
    add_resource()
    from schemas.resources import RESOURCES

    with in_place_of_ours(f"-DR={len(RESOURCES)}"):
        sys.exit(pytest.main(sys.argv[1:]))
