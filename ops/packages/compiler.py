"""Compiles the filters, the scores and the loops around them (`scorer.ranking.kernel`) into one library.

``python -m ops.packages.compiler`` builds it anew in a checkout; with a platform, as zig names it, and a file, it
builds that platform's. The build backend does so for wheels and for editable installs. The system's ``cc`` is used,
else ``ziglang`` from PyPI, which the backend then requires. Without ``-ffp-contract=off`` compilers for aarch64 fuse
a product and a sum, and totals differ from those of x86_64. The library says from which sources it was built, so that
`scorer.ranking.kernel.binding` refuses one that is out of date.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

KERNEL = Path("scorer/ranking/kernel")
LIBRARY = "kernel.so"
FLAGS = (
    "-std=c11", "-D_GNU_SOURCE", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC",
    "-shared", "-Wall", "-Wextra", "-Werror",
)  # fmt: skip
ZIG = "ziglang>=0.14,<0.18"
"""The requirement that builds the library where there is no ``cc``: 411 MB, for the time of the build."""


def sources(root: Path) -> list[Path]:
    """Return the C files of a checkout, in a fixed order."""
    folders = (KERNEL, KERNEL.parent / "filters", KERNEL.parent / "scores")
    return [path for folder in folders for path in sorted((root / folder).glob("*.[ch]"))]


def digest(root: Path) -> str:
    """Return the digest of the C files; `scorer.ranking.kernel.binding` computes the same."""
    return sha256(b"".join(path.read_bytes() for path in sources(root))).hexdigest()[:16]


def has_cc() -> bool:
    return shutil.which(os.environ.get("CC", "cc")) is not None


def compile_kernel(root: Path, target: str = "", into: Path | None = None, more: Sequence[str] = ()) -> Path:
    """Build the library of a checkout. Raises SystemExit.

    ``target``: another platform, as zig names it; ``more``: additional flags, at the end of the command.
    """
    library = into or root / KERNEL / LIBRARY
    if target or not has_cc():
        command = [sys.executable, "-m", "ziglang", "cc", *(["-target", target] if target else [])]
    else:
        command = [os.environ.get("CC", "cc")]
    made = library.with_name(f"{library.name}.{os.getpid()}")
    flags = [*FLAGS, f'-DSOURCES="{digest(root)}"', *more]
    done = subprocess.run(
        [*command, *flags, "-o", str(made), str(root / KERNEL / "kernel.c"), "-lm"],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4_000:]}")
    made.replace(library)  # another process may be loading it
    return library


if __name__ == "__main__":
    platform, file = sys.argv[1:] or ("", "")
    compile_kernel(Path(__file__).parents[2], platform, Path(file) if file else None)
