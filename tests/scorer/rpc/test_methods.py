"""The methods of the RPC: the table, the clients and the commands know the same ones."""

from __future__ import annotations

import inspect

import pytest

from ops.cli.main import COMMANDS
from scorer.client import AsyncClient, Client
from scorer.rpc.service import METHODS


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_client_has_every_method_and_no_other(client: type) -> None:
    """A method is one public function of the client, under its own name; `placed` is three of them in one."""
    public = {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}
    assert public - {"call", "close", "aclose", "placed"} == set(METHODS)


def test_every_method_has_a_command() -> None:
    """What can be called can be called from a terminal."""
    assert set(METHODS) <= set(COMMANDS)
