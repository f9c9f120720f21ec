"""Whether the tests can fail: mutations drawn from ten rooms of the product, and which of them the tests find.

    python -m tests.mutate --seed 1           # 30 mutations, three a room; exit code 1 if fewer than 27 are found
    python -m tests.mutate --seed 1 --room scorer/classes --each 5

A mutation changes one place of one module: a comparison (``<`` to ``<=``, ``==`` to ``!=``), an operator (``+`` to
``-``), ``and`` to ``or``, a number to the next one, ``min`` to ``max``, a condition to its opposite. Of a file in C it
changes an operator, outside the heads of loops, and the copy is compiled anew. Modules are drawn by their lines, places
evenly; docstrings, annotations and what is only shown (``__repr__``, logs, errors) are left out.

Each mutation is applied to a copy of the tree, and is found when a test fails there. The tests run in this order, up to
the first failure, which is printed: the module's own, those of its room, the integration tests that `tests.elsewhere`
names for it, and all that are no integration tests; these must pass once without a mutation. A mutation that is not
found is printed with its line: it is a missing test, or a change that nobody can see. A room's draw depends on the
seed, the room and its modules, not on the other rooms.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.test_layout import imported, module_name, sources

ROOT = Path(__file__).parents[1]
ROOMS = (
    "schemas/rpc", "streams/fold", "streams/state", "scorer/snapshot", "scorer/ledger", "scorer/classes",
    "scorer/ranking", "scorer/placement", "scorer/planning", "scorer/rpc",
)  # fmt: skip
FOUND_MIN = 0.9
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr}
IN_C = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*",
    "&&": "||", "||": "&&",
}  # fmt: skip
_BINARY = re.compile(r"(?<= )(?:[<>=!]=|&&|\|\||[-+*/<>])(?= )")  # the format puts a space on both sides of these alone
_NOT_CODE = re.compile(
    r'/\*.*?\*/|"(?:[^"\\]|\\.)*"|^\s*#(?:[^\n]*\\\n)*[^\n]*|\bfor \([^\n]*', re.DOTALL | re.MULTILINE
)
CALLED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}
NOT_OF_A_COPY = "tests/ops/packages/test_backend.py::test_a_checkout_is_a_folder_on_the_path"
EVERYTHING = ["-n", "2", "-m", "not integration", "--deselect", NOT_OF_A_COPY]
SHOWN = {"info", "warning", "error", "exception", "debug"}


@dataclass(frozen=True)
class Mutation:
    path: Path
    line: int
    before: str
    after: str
    source: str
    """The whole module with the change."""


class Places(ast.NodeVisitor):
    """Collects the nodes of a module that can be changed."""

    def __init__(self):
        self.found = []

    def generic_visit(self, node):
        """Add the node if there is a change of it, and look at its parts."""
        if changed(node) is not None:
            self.found.append(node)
        super().generic_visit(node)

    def visit_Raise(self, node):
        """An error's words are not looked at."""

    def visit_Call(self, node):
        if not (isinstance(node.func, ast.Attribute) and node.func.attr in SHOWN):
            self.generic_visit(node)

    def visit_AnnAssign(self, node):
        """Only the value: an annotation decides nothing."""
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node):
        """The body and the defaults, without annotations and docstring."""
        if node.name != "__repr__":
            for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
                self.visit(part)


def changed(node):  # noqa: PLR0911 - one for each kind of change
    """Return the node in its changed form; None where there is none."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        return ast.Compare(node.left, [COMPARED[type(node.ops[0])]()], node.comparators)
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        text = any(isinstance(side, ast.JoinedStr | ast.Constant | ast.List | ast.Tuple) and not _number(side)
                   for side in (node.left, node.right))  # fmt: skip
        return None if text else ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.Constant) and _number(node):
        return ast.Constant(node.value + 1)
    if isinstance(node, ast.IfExp):
        return ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in CALLED:
            function = (
                ast.Attribute(node.func.value, CALLED[name], ast.Load())
                if isinstance(node.func, ast.Attribute)
                else ast.Name(CALLED[name], ast.Load())
            )
            return ast.Call(function, node.args, node.keywords)
    return None


def _number(node):
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def mutated(path, node):
    """Return the mutation of one place: only its own characters of the source change."""
    source = path.read_text()
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    whole, new = source.encode(), changed(node)
    after = f"({ast.unparse(new)})".encode()
    return Mutation(
        path, node.lineno, whole[start:end].decode(), after.decode(), (whole[:start] + after + whole[end:]).decode()
    )  # fmt: skip


def places_in_c(source):
    r"""Return where the operators of some C are: none of a comment, a macro, or the head of a loop.

    >>> places_in_c("for (int r = 0; r < R; r++)\n    if (a[r] <= *b && -c > 0) d += x - 1; /* a - b */")
    [(41, '<='), (47, '&&'), (53, '>'), (65, '-')]
    """
    code = _NOT_CODE.sub(lambda found: " " * len(found[0]), source)
    return [(found.start(), found[0]) for found in _BINARY.finditer(code)]


def mutated_c(path, start, operator):
    source = path.read_text()
    after = source[:start] + IN_C[operator] + source[start + len(operator) :]
    line = source.count("\n", 0, start)
    return Mutation(path, line + 1, source.splitlines()[line].strip(), after.splitlines()[line].strip(), after)


def mutations_of(path):
    source = path.read_text()
    if path.suffix != ".py":
        return [partial(mutated_c, path, *each) for each in places_in_c(source)]
    places = Places()
    places.visit(ast.parse(source))
    return [partial(mutated, path, node) for node in places.found]


def draw(room, each, chance):
    """Yield the mutations of one room, in modules drawn by their lines."""
    files = sorted(path for kind in ("*.py", "*.[ch]") for path in (ROOT / room).rglob(kind))
    modules = [path for path in files if path.name != "__init__.py"]
    sizes = [len(path.read_text().splitlines()) for path in modules]
    drawn = set[tuple[Path, int, str]]()
    while len(drawn) < each:
        path = chance.choices(modules, sizes)[0]
        if not (places := mutations_of(path)):
            continue
        one = chance.choice(places)()
        if (one.path, one.line, one.before) not in drawn:
            drawn.add((one.path, one.line, one.before))
            yield one


def steps_of(path):
    """Yield pytest's arguments for the tests that may find a mutation of the module, the nearest ones first."""
    module = path.relative_to(ROOT)
    folder = module.parent
    tests = [each for each in sources("tests") if each.name.startswith("test_") and module_name(path) in imported(each)]
    listed = [str(each.relative_to(ROOT)) for each in tests]
    whole = [file for file in listed if "integration" in file]
    near = [f"tests/{up}" for up in (folder, *folder.parents) if len(up.parts) == 2 or up == folder]
    near = [each for each in dict.fromkeys((*near, *listed)) if each not in whole and (ROOT / each).exists()]
    own = (module, f"tests/{folder}/test_{module.stem}.py")
    yield [str(each) for each in own if (ROOT / each).exists() and str(each).endswith(".py")]
    yield from (["-n", "2", *step] for step in (near, whole) if step)
    yield EVERYTHING


def finder(copy, tests):
    """Return the first test that fails in the copy of the tree; None if none does."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    # Compiled modules are kept: a suite starts many processes, and a changed module has another time.
    try:
        done = _run(copy, command)
    except subprocess.TimeoutExpired:
        return "a run without an end"
    if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"a run that ends with {done.returncode}"


def _run(copy, command):
    environ = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "", "MUTATED": "1"}
    return subprocess.run(command, cwd=copy, env=environ, capture_output=True, check=False, timeout=3600, text=True)


def written(copy, path, source):
    """Write a module of the copy, and compile it if it is C; return whether that can be done."""
    (copy / path.relative_to(ROOT)).write_text(source)
    return path.suffix == ".py" or not _run(copy, [sys.executable, "-m", "ops.packages.compiler"]).returncode


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=3, help="mutations a room")
    parser.add_argument("--room", action="append", help="a folder; more than one may be given (default: ten)")
    given = parser.parse_args(argv)
    mutations = [
        each for room in given.room or ROOMS for each in draw(room, given.each, random.Random(f"{given.seed} {room}"))
    ]
    found = 0
    with tempfile.TemporaryDirectory(prefix="windward-mutate-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__"))
        if failed := finder(copy, EVERYTHING):
            print(f"without a mutation there is {failed}")  # noqa: T201
            return 2
        for number, one in enumerate(mutations, 1):
            name = one.path.relative_to(ROOT)
            by = "the compiler"
            if written(copy, one.path, one.source):
                by = next(filter(None, (finder(copy, tests) for tests in steps_of(one.path))), None)
            written(copy, one.path, one.path.read_text())
            found += by is not None
            change = f"{name}:{one.line}  {' '.join(one.before.split())}  ->  {' '.join(one.after.split())}"
            print(f"{number:3} {f'found by {by}' if by else 'NOT FOUND'}  {change}", flush=True)  # noqa: T201
    print(f"{found} of {len(mutations)} mutations found")  # noqa: T201
    return 0 if found >= FOUND_MIN * len(mutations) else 1


if __name__ == "__main__":
    sys.exit(main())
