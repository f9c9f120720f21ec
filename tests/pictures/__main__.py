"""``python -m tests.pictures``: write the drawings into docs/pictures; commit what changed."""

from __future__ import annotations

from pathlib import Path

from ops.docs.drawing import svg
from tests.pictures import class_pictures, concept_pictures, planning_pictures

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def main() -> None:
    """Write every drawing."""
    found = concept_pictures.PICTURES | planning_pictures.PICTURES | class_pictures.PICTURES
    for name, size in found.items():
        (FOLDER / f"{name}.svg").write_text(svg(*size))


if __name__ == "__main__":
    main()
