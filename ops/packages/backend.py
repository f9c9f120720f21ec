"""The build backend of `windward`: setuptools, then without the files of the other distributions of this repository.

A published wheel leaves out the files of `windward-agent` and `windward-client`, and requires both. An editable install
is a checkout, which has every file already: it requires neither, so that ``pip install --editable .`` needs no other
build; and it can import `windward_client`.

setuptools excludes whole packages only, and reads dependencies from pyproject.toml only. So its wheel is built whole
and then rewritten. A subclass of its commands was rejected: a wheel's format is a standard, the commands are not.
"""

import csv
import io
import re
import shutil
import sysconfig
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the hooks that are not below

HELD_BY_AGENT = ("schemas/", "streams/agent/", "streams/__init__.py")
"""The files of `windward-agent`: `ops/packages/agent/pyproject.toml` lists the same."""

ALIAS = '''"""The Python client of the scorer: this is the package `{module}`, under another name."""

import sys

import {module}
from {module} import *  # noqa: F403, for those that read types
from {module} import __dir__  # noqa: F401

for _name in [name for name in sys.modules if name == "{module}" or name.startswith("{module}.")]:
    sys.modules[__name__ + _name.removeprefix("{module}")] = sys.modules[_name]
'''
"""Source of a package that is an alias of another, with its modules: a class imported from either is the same."""

HELD_BY_CLIENT = "scorer/client/"
REPLACED = {"scorer/client/__init__.py": ALIAS.format(module="windward_client").encode()}
ADDED_TO_CHECKOUT = {
    "windward_client/__init__.py": ALIAS.format(module="scorer.client").encode(),
    "windward_client/py.typed": b"",
}

_SIBLING = re.compile(rb"^Requires-Dist: windward-(agent|client)\b.*\r?\n", re.MULTILINE)

Settings = dict[str, Any] | None


TARGETS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64",
    "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64",
    "x86_64-linux-musl": "musllinux_1_2_x86_64",
    "aarch64-linux-musl": "musllinux_1_2_aarch64",
}
"""The platforms that zig builds for, and the tags of their wheels."""
COMPILED = "scorer/ranking/kernel/kernel.so"
_TAG = re.compile(rb"^Tag: py3-none-.*$", re.MULTILINE)


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return the additional requirements of a build: a compiler, where the system has none."""
    from compiler import ZIG, has_cc  # of this folder, which is on the path while a build runs

    return [] if has_cc() and not (config_settings or {}).get("target") else [ZIG]


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel of one platform, without the files of the other distributions.

    ``target``, a setting of the build: another platform than this one, of `TARGETS`.
    """
    from compiler import compile_kernel

    target = str((config_settings or {}).get("target", ""))
    made = Path(wheel_directory) / str(build_meta.build_wheel(wheel_directory, None, metadata_directory))
    tag = TARGETS[target] if target else sysconfig.get_platform().replace("-", "_").replace(".", "_")
    with TemporaryDirectory() as folder:
        library = compile_kernel(Path.cwd(), target, Path(folder) / "library").read_bytes()
    rewrite(made, published)
    found = of_platform(made, library, tag)
    made.unlink()
    return found.name


def of_platform(wheel: Path, library: bytes, tag: str) -> Path:
    """Return a copy of a wheel for a platform, beside it, with the compiled part of that platform."""

    def changed(name: str, content: bytes) -> bytes | None:
        if name.endswith(".dist-info/WHEEL"):
            content = _TAG.sub(f"Tag: py3-none-{tag}".encode(), content)
            return content.replace(b"Root-Is-Purelib: true", b"Root-Is-Purelib: false")
        return None if name == COMPILED else content

    found = wheel.with_name(f"{wheel.name.rpartition('-')[0]}-{tag}.whl")
    shutil.copy(wheel, found)
    rewrite(found, changed, {COMPILED: library})
    return found


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel that points to the checkout; it requires no other distribution of this repository."""
    from compiler import compile_kernel

    compile_kernel(Path.cwd())
    name = str(build_meta.build_editable(wheel_directory, config_settings, metadata_directory))
    rewrite(Path(wheel_directory) / name, without_siblings, ADDED_TO_CHECKOUT)
    return name


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    name = str(build_meta.prepare_metadata_for_build_editable(metadata_directory, config_settings))
    path = Path(metadata_directory) / name / "METADATA"
    path.write_bytes(without_siblings("METADATA", path.read_bytes()) or b"")
    return name


def published(name: str, content: bytes) -> bytes | None:
    """Return the content of a file of the wheel; None for a file of another distribution."""
    if name in REPLACED:
        return REPLACED[name]
    return None if name.startswith((*HELD_BY_AGENT, HELD_BY_CLIENT)) else content


def without_siblings(name: str, content: bytes) -> bytes | None:
    """Return the file; the metadata without the requirements on this repository's other distributions."""
    return _SIBLING.sub(b"", content) if name.rpartition("/")[2] == "METADATA" else content


def rewrite(
    wheel: Path, changed: Callable[[str, bytes], bytes | None], more: Mapping[str, bytes] | None = None
) -> None:
    """Change the files of a wheel, remove those that ``change`` maps to None, add others, write its RECORD anew."""
    with zipfile.ZipFile(wheel) as whole:
        files = {each.filename: (each, changed(each.filename, whole.read(each))) for each in whole.infolist()}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    kept = {name: (info, content) for name, (info, content) in files.items() if content is not None and name != record}
    kept |= {name: (zipfile.ZipInfo(name), content) for name, content in (more or {}).items()}
    rows = [*(record_row(name, content) for name, (_, content) in kept.items()), (record, "", "")]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as rewritten:
        for info, content in [*kept.values(), (files[record][0], text.getvalue().encode())]:
            rewritten.writestr(info, content, zipfile.ZIP_DEFLATED)


def record_row(name: str, content: bytes) -> tuple[str, str, str]:
    """Return a file's row of RECORD: its name, its digest, its length in bytes.

    >>> record_row("empty.py", b"")
    ('empty.py', 'sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU', '0')
    """
    digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
    return name, f"sha256={digest}", str(len(content))
