"""What the client's wheel holds: `scorer.client` as `windward_client`, and the modules of `schemas` that it imports.

They are below ``windward_client/schemas/``, with their imports rewritten: no file is in two wheels, and a program that
places instances gets no other name at top level. In git they are there once.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLIENT = "scorer/client"
_OURS = re.compile(r"^(\s*from )(?:scorer\.client|(schemas))\b", re.MULTILINE)


def files() -> dict[str, str]:
    """Return the text of each module by its path in the wheel."""
    found = {f"windward_client/{path.name}": path.read_text() for path in sorted((ROOT / CLIENT).glob("*.py"))}
    left = [name for text in found.values() for name in needed(text)]
    while left:
        path = f"{left.pop().replace('.', '/')}.py"
        if f"windward_client/{path}" not in found:
            found[f"windward_client/{path}"] = text = (ROOT / path).read_text()
            left += needed(text)
            for folder in Path(path).parents[:-1]:
                found[f"windward_client/{folder}/__init__.py"] = (ROOT / folder / "__init__.py").read_text()
    return {path: rewritten(text) for path, text in found.items()}


def needed(text: str) -> list[str]:
    r"""Return the modules of `schemas` that a module imports.

    >>> needed("from schemas.messages.event import Event\nimport os")
    ['schemas.messages.event']
    """
    imports = [node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return [name for name in imports if name.startswith("schemas.")]


def rewritten(text: str) -> str:
    r"""Return a module with its imports rewritten for the wheel.

    >>> rewritten("from schemas.values.mapping import Result\nfrom scorer.client.call import Call")
    'from windward_client.schemas.values.mapping import Result\nfrom windward_client.call import Call'
    """
    return _OURS.sub(lambda found: f"{found[1]}windward_client{'.schemas' if found[2] else ''}", text)
