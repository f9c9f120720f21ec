"""The few hard rules of the project's shape, as tests over its source: who imports whom, who may touch the world."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.cli import COMMANDS
from scorer.filters import FILTERS
from scorer.scores import SCORES

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "schemas": {"schemas"},
    "streams": {"schemas", "streams"},
    "scorer": {"schemas", "scorer"},
    "ops": {"schemas", "streams", "scorer", "ops"},
}

SHELL = {
    "scorer.__main__",
    "scorer.client",
    "scorer.commands",
    "scorer.ledger",
    "scorer.loader",
    "scorer.placing",
    "scorer.rpc",
    "scorer.service",
    "scorer.wire",
    "streams.__main__",
    "streams.agent.__main__",
    "streams.agent.collectors.nic",
    "streams.agent.loop",
    "streams.agent.publisher",
    "streams.agent.quiet",
    "streams.app",
    "streams.fleet.__main__",
    "streams.store",
    "streams.topics",
    "streams.transport",
}
"""Modules (and packages, with all they hold) that may talk to Kafka or Redis and read a clock; `ops` all may. What is
not listed is pure: values and the time come in, values go out."""

OUTSIDE = {"kafka", "aiokafka", "faust", "mode", "redis"}
CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "now", "utcnow"}

HELPERS = {"among", "arithmetic", "allocation", "beta"}
"""What several scores share; no plugin of its own."""


def sources(*packages: str) -> list[Path]:
    """Every Python file of some packages."""
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """Every module a file imports, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def clock_readings(path: Path) -> Iterator[str]:
    """Every place where a file reads a clock or sleeps, called or handed on."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("time", "datetime") and node.attr in CLOCKS:
                yield f"{module_name(path)}:{node.lineno} {node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (
                f"{module_name(path)}:{node.lineno} {alias.name}" for alias in node.names if alias.name in CLOCKS
            )


def is_shell(module: str) -> bool:
    """Whether a module may touch the world."""
    return module.startswith("ops") or any(module == one or module.startswith(f"{one}.") for one in SHELL)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_those_below_it(package: str) -> None:
    """The two halves know the messages between them and never each other; nothing imports ops."""
    for path in sources(package):
        ours = {name.split(".")[0] for name in imported(path)} & (MAY_IMPORT.keys() | {"tests"})
        assert ours <= MAY_IMPORT[package], f"{path} imports {sorted(ours - MAY_IMPORT[package])}"


def test_only_shell_modules_reach_outside() -> None:
    """Every other module can be run a million times in a test, with any time it likes."""
    for path in sources("schemas", "streams", "scorer"):
        module = module_name(path)
        if is_shell(module):
            continue
        outside = {name.split(".")[0] for name in imported(path)} & OUTSIDE
        assert not outside, f"{module} imports {sorted(outside)}: make it pure or list it in SHELL"
        assert not list(clock_readings(path)), f"{list(clock_readings(path))}: take the time as an argument"


def test_the_list_of_shell_modules_is_current() -> None:
    """A module that became pure, or went away, is taken off the list."""
    for module in SHELL:
        path = ROOT / module.replace(".", "/")
        files = sources(str(path.relative_to(ROOT))) if path.is_dir() else [path.with_suffix(".py")]
        assert files
        touches = [f for f in files if {n.split(".")[0] for n in imported(f)} & OUTSIDE or list(clock_readings(f))]
        assert touches, f"{module} is pure"


@pytest.mark.parametrize(("folder", "listed"), [("filters", FILTERS), ("scores", SCORES)])
def test_every_plugin_file_is_listed(folder: str, listed: tuple[type, ...]) -> None:
    """A file in the folder is in the tuple, and has a docstring; a class in the tuple is from a file of the folder."""
    files = {path.stem for path in (ROOT / "scorer" / folder).glob("*.py")} - {"__init__"} - HELPERS
    assert {plugin.__module__.rpartition(".")[2] for plugin in listed} == files
    assert len({plugin.name for plugin in listed}) == len(listed)  # type: ignore[attr-defined]
    assert all(inspect.getdoc(plugin) for plugin in listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_run(command: str) -> None:
    """Its module exists and has ``main(argv, environ) -> int``."""
    main = importlib.import_module(COMMANDS[command][0]).main
    assert list(inspect.signature(main).parameters) == ["argv", "environ"]


def test_the_agent_is_light() -> None:
    """It runs on every host: no numpy, no faust, nothing for terminals or plots in its process."""
    heavy = {"numpy", "faust", "aiokafka", "rich", "matplotlib", "redis", "streams.app", "scorer"}
    code = "import sys, streams.agent.__main__; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not heavy & set(loaded)


def test_the_client_can_be_handed_out_alone() -> None:
    """It needs redis and msgspec and nothing else that Python does not bring."""
    needed = {name.split(".")[0] for name in imported(ROOT / "scorer" / "client.py")}
    assert needed - set(sys.stdlib_module_names) == {"redis", "msgspec"}


def test_the_project_names_no_place_it_was_made_in() -> None:
    """No path of a machine it was written on, no host of a package registry, no number of a tracker's entry."""
    registries = ("pypi" + ".org", "pythonhosted" + ".org", "maven" + ".org", "proxy.golang" + ".org", "npmjs" + ".org")
    wrong = re.compile(
        "|".join([*map(re.escape, registries), r"/work" + r"/\w", r"/tmp" + r"/w\b", r"\bissue " + r"#?\d"])
    )
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=False, cwd=ROOT).stdout.split(
        "\n"
    )
    texts = [ROOT / name for name in tracked if name] or sources(*MAY_IMPORT, "tests")
    for path in texts:
        if path.is_file() and path.suffix not in (".npz", ".gz", ".png"):
            found = wrong.search(path.read_text(errors="replace"))
            assert not found, f"{path} says {found and found[0]!r}"
