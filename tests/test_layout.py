"""The few hard rules of the project's shape, as tests over its source: who imports whom, who may touch the world."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from ops.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "streams", "scorer", "ops")

SHELL = (
    "ops", "schemas", "schemas.process",
    "scorer", "scorer.background", "scorer.commands", "scorer.kubernetes", "scorer.ledger.store", "scorer.live",
    "scorer.placement", "scorer.planner", "scorer.rpc",
    "streams", "streams.agent", "streams.bridge", "streams.load_generator", "streams.worker",
)  # fmt: skip
"""Folders with modules that may reach Kafka, Redis, a clock or a socket. Every other folder is in the contract of
pyproject.toml which says that it reaches none of them, by whatever way. Folders inside one of these are shell, too,
unless that contract has them."""

FLOOR_MAX, LISTS = 16, ("scorer.ranking.filters", "scorer.ranking.scores", "streams.agent.collectors")
"""The most modules on one floor; folders with one module for each entry of a list may have more."""

CHAIN_MAX = 31
"""The longest chain of imports between modules, packages' own files aside."""


def sources(*packages):
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path):
    return ast.parse(path.read_text())


@cache
def nodes(path):
    return list(ast.walk(tree(path)))


@cache
def imported(path):
    """Every module a file imports, at its top or inside a function."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def is_under(module, listed):
    return any(module == one or module.startswith(f"{one}.") for one in listed)


def folders():
    """Return the modules of each folder, without the package's own file."""
    found = {}
    for path in sources(*PACKAGES):
        if path.name != "__init__.py":
            found.setdefault(module_name(path.parent / "__init__.py"), []).append(path)
    return found


def test_every_folder_is_core_or_shell():
    """A new folder is put into the contract of the core, or is inside one that touches the world."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    core = next(each["source_modules"] for each in contracts if each["name"].startswith("the core reaches"))
    for folder in folders():
        listed = [one for one in (*core, *SHELL) if is_under(folder, [one])]
        assert listed, f"{folder}: put it into the contract of the core, or into SHELL"
        assert folder not in core or folder not in SHELL, f"{folder}: core or shell, not both"
    known = {module_name(path) for path in sources(*PACKAGES)}
    assert {*core, *SHELL} <= known, "a folder that does not exist"


def test_no_floor_is_too_full():
    full = {name: len(modules) for name, modules in folders().items() if len(modules) > FLOOR_MAX and name not in LISTS}
    assert not full
    runs = [folder for folder in (ROOT / "tests/integration").iterdir() if folder.is_dir()]
    assert not [folder for folder in runs if len(list(folder.glob("test_*.py"))) > FLOOR_MAX]


def test_what_docstrings_name_exists():
    """A folder lists modules and folders that are there; a module's name in backticks is one, with what it has."""
    modules = {module_name(path): path for path in sources(*PACKAGES)}
    for name, path in modules.items():
        text = path.read_text()
        for said in re.findall(r"`((?:schemas|streams|scorer|ops)(?:\.\w+)+)`", text):
            whose, what = said, ""
            while whose not in modules:
                whose, _, what = whose.rpartition(".")
            assert re.search(rf"\b{what}\b", modules[whose].read_text()), f"{path} names {said}"
        if path.name == "__init__.py":
            below = {one.rpartition(".")[2] for one in modules if one.rpartition(".")[0] == name}
            listed = {*re.findall(r"^([a-z_]+)/?  +\S", text, re.MULTILINE)}
            assert listed <= below, f"{path} lists {listed - below}"


def test_a_module_gives_a_name_once():
    """A constant or function that is defined again further down is another one for all that stands above it, too."""
    for path in sources(*PACKAGES, "tests"):
        names = [
            name.id
            for node in tree(path).body
            for name in (node.targets if isinstance(node, ast.Assign) else [])
            if isinstance(name, ast.Name)
        ]
        assert len(names) == len(set(names)), f"{path}: {[name for name in names if names.count(name) > 1]}"


def test_the_longest_chain_of_imports():
    """A change is understood by few modules below one another; a package's own file counts nothing."""
    modules = {module_name(path): path for path in sources(*PACKAGES) if path.name != "__init__.py"}
    longest = {}

    def chain(module):
        if module not in longest:
            names = imported(modules[module]) & modules.keys()
            longest[module] = [module, *max((chain(name) for name in names), key=len, default=[])]
        return longest[module]

    found = max((chain(module) for module in modules), key=len)
    assert len(found) <= CHAIN_MAX, f"{len(found)}: {' -> '.join(found)}"


RUN_BY = {
    "ops.cli.config": "tests/integration/commands/test_commands.py",
    "ops.docs.conf": ".ci/run",
    "ops.packages.client.hatch_build": ".ci/run",
    "ops.stack.servers.die_with_parent": "tests/ops/stack/servers/test_process.py",
    "scorer.commands.instances.confirm": "tests/integration/commands/test_commands.py",
    "scorer.commands.instances.release": "tests/integration/commands/test_commands.py",
    "scorer.commands.running.ledger": "tests/integration/ledger/test_ledger_lost.py",
}
"""Modules that no test comes near by an import, and what runs them as they are."""


def test_every_module_is_tested():
    """A test imports it, or a module that a test imports; or it has examples, or is in `RUN_BY`, or is a process."""
    modules = {module_name(path): path for path in sources(*PACKAGES)}
    tests = set().union(*map(imported, sources("tests")))
    examples = {name for name, path in modules.items() if ">>>" in path.read_text()}
    near = set().union(*(imported(modules[name]) for name in modules.keys() & (tests | examples)))
    left = modules.keys() - tests - examples - near
    assert {name for name in left if modules[name].stem not in ("__init__", "__main__")} == RUN_BY.keys()
    assert all((ROOT / file).is_file() for file in RUN_BY.values())


def test_no_import_is_relative():
    """A reader sees from the line alone what is imported."""
    for path in sources(*PACKAGES):
        imported(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_run(command):
    """Its module exists and has ``main(argv, environ) -> int``."""
    main = importlib.import_module(COMMANDS[command][0]).main
    assert list(inspect.signature(main).parameters) == ["argv", "environ"]


def logged_events(path):
    """Every constant first argument of ``log.info`` and the like in a file."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            arguments = node.args[node.func.attr == "log" :][:1]
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "log":
                found |= {one.value for one in arguments if isinstance(one, ast.Constant)}
    return found


LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def test_events_are_named_alike():
    """A log line's event is the process and what happened, ``stream.broker.away``: dots, no mark but _."""
    events = {event for path in sources(*PACKAGES) for event in logged_events(path)}
    assert len(events) > 50
    wrong = sorted(event for event in events if not re.fullmatch(r"[a-z]+(\.[a-z_]+)+", str(event)))
    assert not wrong


def test_the_agent_is_light():
    """It runs on every host: no numpy, no faust, nothing for terminals or plots in its process."""
    heavy = {"numpy", "faust", "aiokafka", "rich", "matplotlib", "redis", "streams.worker.app", "scorer"}
    code = "import sys, streams.agent.__main__; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not heavy & set(loaded)


def texts():
    """Return every text file of the project, with its text."""
    asked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=False, cwd=ROOT)
    paths = [ROOT / name for name in asked.stdout.split("\n") if name] or sources(*PACKAGES, "tests")
    return [
        (path, path.read_text(errors="replace"))
        for path in paths
        if path.is_file() and path.suffix not in (".npz", ".gz", ".png")
    ]


def test_the_project_names_no_place_it_was_made_in():
    """No path of a machine it was written on, no host of a package registry, no number of a tracker's entry."""
    registries = ("pypi" + ".org", "pythonhosted" + ".org", "maven" + ".org", "proxy.golang" + ".org", "npmjs" + ".org")
    wrong = re.compile(
        "|".join([*map(re.escape, registries), r"/work" + r"/\w", r"/tmp" + r"/w\b", r"\bissue " + r"#?\d"])
    )
    for path, text in texts():
        found = wrong.search(text)
        assert not found, f"{path} says {found and found[0]!r}"


def test_no_conflict_of_two_changes_is_left():
    """No file has the marks between which git writes both sides."""
    marks = re.compile(r"^(?:" + "<" * 7 + "|" + ">" * 7 + r")(?: |$)", re.MULTILINE)
    assert not [path for path, text in texts() if marks.search(text)]
