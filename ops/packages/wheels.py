"""The files of wheels, and those that several wheels have; completions in them; the wheel of each platform."""

import platform
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from ops.packages.backend import TARGETS, of_platform, rewrite
from ops.packages.compiler import LIBRARY, ZIG
from ops.packages.environment import Environment, PackageError

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
    """Return the tag of `TARGETS` for this machine."""
    libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    return next(tag for tag in TARGETS.values() if tag.startswith(libc) and tag.endswith(platform.machine()))
