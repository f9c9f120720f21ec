"""The text of each script: a transition's own file, after the functions of ``lua/ledger.lua`` that it uses.

At each call a server creates every function of a script and every local that they share: some 0.1 us each. So a
script gets only the functions that it uses, and a local with a name in capitals is a constant, replaced by its value.
Comments are left out.
"""

import re
from functools import cache
from pathlib import Path

SCRIPTS = ("reserve", "confirm", "update", "release", "expire", "correct", "lease", "repair", "rename")
ALONE = ("lease",)
"""Scripts without the shared functions: they neither begin the ledger nor expire entries."""

_LUA = Path(__file__).parent / "lua"
_COMMENT = re.compile(r"--\[\[.*?\]\]|(?<!\S)--.*?$", re.DOTALL | re.MULTILINE)
_CONSTANT = re.compile(r"^local ([A-Z_]+) = (.+)\n", re.MULTILINE)
_FUNCTION = re.compile(r"^local function (\w+).*?^end\n", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\b[A-Z_]{2,}\b")


@cache
def script_text(name: str, **constants: str) -> str:
    """Return a transition's script; ``constants`` replace the constants of ``ledger.lua`` with these names."""
    shared, own = _without_comments("ledger"), _without_comments(name)
    values = {**dict(_CONSTANT.findall(shared + own)), "SCRIPT": f"'{name}'", **constants}
    shared, own = (_CONSTANT.sub("", part) for part in (shared, own))
    text = own if name in ALONE else _with_functions(shared, own)
    text = _NAME.sub(lambda found: values.get(found[0], found[0]), text)
    return re.sub(r"\n\s*\n", "\n", text).lstrip()


@cache
def _without_comments(name: str) -> str:
    """Return a file's code."""
    return _COMMENT.sub("", (_LUA / f"{name}.lua").read_text())


def _with_functions(shared: str, own: str) -> str:
    """Return a script after the shared functions that it needs, directly or not, each before its first use."""
    parts, words, end = [own], set(_WORD.findall(own)), len(shared)
    for found in reversed(list(_FUNCTION.finditer(shared))):
        between = shared[found.end() : end]
        used = [between, found[0]] if found[1] in words.union(_WORD.findall(between)) else [between]
        parts += used
        words.update(*map(_WORD.findall, used))
        end = found.start()
    return "".join(reversed([*parts, shared[:end]]))
