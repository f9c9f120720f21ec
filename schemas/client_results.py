"""The Structs of `schemas.rpc.results` as the client has them: ``python -m schemas.client_results`` writes them there.

The client is one file that imports nothing of ours, so it has a copy, between two comments. In the copy every Struct is
a ``Result`` of the client, which is read like a mapping, too, and all rows are decoded. A test checks that it is
current.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import msgspec

import schemas
from schemas.resources import RESOURCES
from schemas.rpc import results

CLIENT = Path(schemas.__file__).parents[1] / "scorer" / "client.py"
BEGIN = "# ---- made by `python -m schemas.client_results`: the Structs of `schemas.rpc.results`\n"
END = "# ---- end of what is made\n"
_AMOUNTS = "".join(f"    {name}: float = 0.0\n" for name in RESOURCES)
_IN_THE_CLIENT = {
    "(msgspec.Struct, frozen=True, ": "(Result, ",
    ", frozen=True, ": ", ",
    "Rows[": "list[",
    "(_Amounts, kw_only=True):  # type: ignore[misc, call-arg]": "(Record, kw_only=True):",
    "    usage:": f"{_AMOUNTS}    usage:",
}


def client_results() -> str:
    """Return the Structs as the client has them."""
    kinds = [one for one in vars(results).values() if inspect.isclass(one) and issubclass(one, msgspec.Struct)]
    sources = [inspect.getsource(kind) for kind in kinds if kind is not results._Amounts]
    text = "\n\n".join(sources)
    for here, there in _IN_THE_CLIENT.items():
        text = text.replace(here, there)
    return text


def with_results(client: str) -> str:
    """Return the text of the client with these Structs between the two comments."""
    before, _, rest = client.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{client_results()}\n\n{END}{rest.partition(END)[2]}"


def main() -> int:
    """Write the Structs into the client."""
    CLIENT.write_text(with_results(CLIENT.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
