"""The keywords of the client's methods are typed: what an editor and a type checker say of a call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = """
from scorer.client import AsyncClient, Client

def asked(client: Client) -> str | None:
    client.place(cpu=2, memory="10G", labels={"app": "shop"}, tolerations=[{"key": "gpu"}], timeout_s=3)
    client.place(instances=[{"cpu": 1}, {"memory": "4G"}])
    client.update("a", cpu="500m", cancel_move=False)
    client.machines(names=["m1"])
    return client.place(cpu=1).machine

async def awaited(client: AsyncClient) -> None:
    await client.capacity(cpu=1, by="rack")
"""
WRONG = {
    "client.place(cpuu=2)": 'Unexpected keyword argument "cpuu" for "place" of "Client"; did you mean "cpu"?',
    "client.rank(memory=[1])": 'Argument "memory" has incompatible type "list[int]"',
    'client.confirm("a", machina="m1")': 'Unexpected keyword argument "machina"',
    'client.update("a", priority="prod")': 'Unexpected keyword argument "priority"',
    'client.place(priority_class="production")': "incompatible type \"Literal['production']\"",
    "client.machines(limits=3)": 'Unexpected keyword argument "limits"',
    'client.place(instances=[{"cpuu": 1}])': 'Extra key "cpuu" for TypedDict "RequestFields"',
}


@pytest.mark.slow
def test_a_wrong_keyword_is_found_before_the_program_runs(tmp_path: Path) -> None:
    """Each wrong call is an error of mypy on its line, and there is no other."""
    file = tmp_path / "calls.py"
    first = RIGHT.count("\n") + 3
    file.write_text(RIGHT + "\ndef wrong(client: Client) -> None:\n    " + "\n    ".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    errors = [line for line in said.splitlines() if "error:" in line]
    assert len(errors) == len(WRONG), said
    for at, (error, wanted) in enumerate(zip(errors, WRONG.values(), strict=True), first):
        assert f":{at}: " in error
        assert wanted in error
