"""The few hard rules of the project's shape, as tests over its source: who imports whom, who may touch the world."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from ops.cli import COMMANDS
from scorer.ranking.filters import FILTERS
from scorer.ranking.scores import SCORES
from tests.elsewhere import DOCTESTED, TESTED_BY, UNTESTED

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "streams", "scorer", "ops")

SHELL = {
    "schemas": {
        "process.connections", "process.failures", "process.flags", "process.logs", "process.page_server",
        "process.pages", "process.settings", "process.signals", "process.terminal", "process.verbs",
        "process.version",
    },
    "scorer": {
        "__main__", "client", "commands", "metrics", "rpc", "settings", "wire",
        "ledger.check", "ledger.checker", "ledger.follower", "ledger.lease", "ledger.marker", "ledger.mend",
        "ledger.reader", "ledger.reconcile", "ledger.runner", "ledger.scripts", "ledger.sweeper",
        "placement.batch_placer", "placement.placer",
        "rebalancer.__main__", "rebalancer.daemon", "rebalancer.metrics", "rebalancer.moves_queue",
        "rebalancer.settings",
        "snapshot.loader", "snapshot.refresher", "snapshot.usage_loader",
    },
    "streams": {
        "__main__", "app", "faust_app", "fold_command", "holdings", "housekeeping", "metrics", "reading_place",
        "redis_health", "rejects", "settings", "store", "topic_watch", "topics", "transport",
        "agent.__main__", "agent.command", "agent.identity",
        "agent.instances.settings", "agent.loop", "agent.metrics", "agent.producer", "agent.publisher", "agent.quiet",
        "agent.sd_notify", "agent.settings", "agent.totals",
        "bridge.__main__", "bridge.settings",
        "load_generator.__main__", "load_generator.ledger", "load_generator.loop", "load_generator.settings",
        "load_generator.sink",
    },
}  # fmt: skip
"""Modules (and packages, with all they hold) that may reach Kafka, Redis, a clock or a socket; `ops` all may. Every
other module is in the contract of pyproject.toml that says it reaches none of them, by whatever way."""


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


def is_under(module: str, listed: Iterable[str]) -> bool:
    """Whether a module is one of these or inside one of them."""
    return any(module == one or module.startswith(f"{one}.") for one in listed)


def test_every_module_is_core_or_shell() -> None:
    """A new module is put into the contract of the core, or on the list of those that touch the world; never both."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    core = next(each["source_modules"] for each in contracts if each["name"].startswith("the core reaches"))
    shell = {f"{package}.{module}" for package, modules in SHELL.items() for module in modules}
    for path in sources(*SHELL):
        module = module_name(path)
        if path.name == "__init__.py":  # a docstring, or the tuple of what the package holds
            continue
        assert is_under(module, core) != is_under(module, shell), f"{module}: list it as core or as shell, once"
    missing = [one for one in (*core, *shell) if not any(is_under(module_name(p), [one]) for p in sources(*SHELL))]
    assert not missing


def test_every_module_has_its_test_file() -> None:
    """``a/b.py`` is tested by ``tests/a/test_b.py``, or `tests.elsewhere` says by which file."""
    modules = {module_name(path): path for path in sources(*PACKAGES) if path.name != "__init__.py"}
    own = {
        module
        for module, path in modules.items()
        if (ROOT / "tests" / path.relative_to(ROOT).with_name(f"test_{path.stem.strip('_')}.py")).exists()
    }
    elsewhere = [*DOCTESTED, *UNTESTED, *(module for listed in TESTED_BY.values() for module in listed)]
    assert not {*elsewhere} - modules.keys(), "tests/elsewhere.py lists a module that does not exist, or a package"
    for module in modules.keys() - own:
        assert module in elsewhere, f"{module}: write its test file, or list it in tests/elsewhere.py"
    assert not {*elsewhere} & own, "tested where it lies"
    assert not [module for module in elsewhere if elsewhere.count(module) > 1], "listed twice"
    assert not [file for file in TESTED_BY if not (ROOT / file).is_file()], "the test file does not exist"
    assert all(">>>" in modules[module].read_text() for module in DOCTESTED)


def test_no_import_is_relative() -> None:
    """A reader sees from the line alone what is imported."""
    for path in sources(*PACKAGES):
        imported(path)


@pytest.mark.parametrize(("folder", "listed"), [("filters", FILTERS), ("scores", SCORES)])
def test_every_plugin_file_is_listed(folder: str, listed: tuple[type, ...]) -> None:
    """A file in the folder is in the tuple, and has a docstring; a class in the tuple is from a file of the folder."""
    files = {path.stem for path in (ROOT / "scorer" / "ranking" / folder).glob("*.py")} - {"__init__"}
    assert {plugin.__module__.rpartition(".")[2] for plugin in listed} == files
    assert len({plugin.name for plugin in listed}) == len(listed)  # type: ignore[attr-defined]
    assert all(inspect.getdoc(plugin) for plugin in listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_run(command: str) -> None:
    """Its module exists and has ``main(argv, environ) -> int``."""
    main = importlib.import_module(COMMANDS[command][0]).main
    assert list(inspect.signature(main).parameters) == ["argv", "environ"]


def logged_events(path: Path) -> set[str]:
    """Every constant first argument of ``log.info`` and the like in a file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            arguments = node.args[node.func.attr == "log" :][:1]
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "log":
                found |= {one.value for one in arguments if isinstance(one, ast.Constant)}
    return found


LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def test_events_are_named_alike() -> None:
    """A log line's event is the process and what happened, ``stream.broker.away``: dots, no mark but _."""
    events = {event for path in sources(*PACKAGES) for event in logged_events(path)}
    assert len(events) > 50
    wrong = sorted(event for event in events if not re.fullmatch(r"[a-z]+(\.[a-z_]+)+", str(event)))
    assert not wrong


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


def texts() -> list[tuple[Path, str]]:
    """Return every text file of the project, with its text."""
    asked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=False, cwd=ROOT)
    paths = [ROOT / name for name in asked.stdout.split("\n") if name] or sources(*PACKAGES, "tests")
    return [
        (path, path.read_text(errors="replace"))
        for path in paths
        if path.is_file() and path.suffix not in (".npz", ".gz", ".png")
    ]


def test_the_project_names_no_place_it_was_made_in() -> None:
    """No path of a machine it was written on, no host of a package registry, no number of a tracker's entry."""
    registries = ("pypi" + ".org", "pythonhosted" + ".org", "maven" + ".org", "proxy.golang" + ".org", "npmjs" + ".org")
    wrong = re.compile(
        "|".join([*map(re.escape, registries), r"/work" + r"/\w", r"/tmp" + r"/w\b", r"\bissue " + r"#?\d"])
    )
    for path, text in texts():
        found = wrong.search(text)
        assert not found, f"{path} says {found and found[0]!r}"


def test_no_conflict_of_two_changes_is_left() -> None:
    """No file has the marks between which git writes both sides."""
    marks = re.compile(r"^(?:" + "<" * 7 + "|" + ">" * 7 + r")(?: |$)", re.MULTILINE)
    assert not [path for path, text in texts() if marks.search(text)]
