"""The methods of the RPC: the scorer, the clients and the commands have those of the table."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import msgspec
import pytest

from ops.cli.main import COMMANDS
from schemas.rpc.parameters import RPC
from scorer.client import AsyncClient, Client
from scorer.client.call import OPERATORS
from scorer.commands.machines.machines import SETTINGS as OF_MACHINES
from scorer.placement.choosing.steps import Steps
from scorer.planner.service import PlannerService
from scorer.rpc.service import ScorerService
from tests.rows import each_row


def test_scorer_or_planner_answers_each_with_the_struct_of_its_result() -> None:
    """Each method of the table, and no other; whole or in steps."""
    assert ScorerService.METHODS.keys() == RPC.keys()
    for name, method in (ScorerService.METHODS | PlannerService.METHODS).items():
        returned, result = get_type_hints(method)["return"], RPC[name].result
        assert returned in (result, Steps[result]), name  # type: ignore[valid-type]
        assert issubclass(result, msgspec.Struct)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_has_every_method_and_no_other(kind: type) -> None:
    """A method is one public function of the client, under its own name.

    `placed` is three of them in one; `events` reads the ledger's stream and asks no scorer.
    """
    public = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    assert public - {"call", "close", "aclose", "placed", "events"} == set(RPC)


def test_every_method_has_a_command() -> None:
    """What can be called can be called from a terminal."""
    assert set(RPC) <= {*COMMANDS, *OF_MACHINES}


@each_row("method", RPC)
def test_the_client_knows_which_are_for_operators(method: str) -> None:
    """It pushes them on the operators' list; the file is distributed alone, so it has a copy of their names."""
    assert (method in OPERATORS) == RPC[method].operators
