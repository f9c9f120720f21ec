"""The Python client of the scorer, sync and asyncio.

It is distributed alone, too, as `windward_client`, and needs only ``redis`` and ``msgspec``. The build of that wheel
takes along the modules of `schemas` that are imported here (`ops/packages/client_files.py`).

    with Client("redis://127.0.0.1:6379/0") as scorer:
        answer = scorer.place(id="orders-7", cpu=2, memory="10G")
        if answer.machine:
            ...                                 # start the instance there, then
            answer.confirm()                    # this reservation, never a later one of the same id

A query is one JSON text on a Redis list, its answer another (``redis-cli`` can do the same). Every call has a deadline;
past it, or when the server is away until then, `WindwardError` is raised with gRPC's code name. "No machine fits" is an
answer, not an error: ``answer.machine`` is None and ``answer.reason`` says why.

Each method returns the Struct of its result, with all its fields; ``answer["machine"]`` reads a field, too, and
``dict(answer)`` and ``msgspec.to_builtins(answer)`` convert it to plain data. `Client.call` calls any method, also one
that is newer than this client, and returns the result as plain data.

`Client.events` says what happens to instances: it reads the ledger's change log, without a scorer.

A call is sent again under the same query id when the connection breaks, and is carried out once. When its reservation
has ended meanwhile the answer is the error ABORTED; a new call places anew. Without an ``id`` of your own the query's
id names the instance. Each reservation of an id has its ``generation``, which `Placement` sends with each call.

redis-py 8 ends an idle blocking read after its ``socket_timeout`` of 5 s and retries ten times. Here every blocking
read lasts `POLL_S` at most, the socket's timeout is longer, and only this client retries.
"""

from __future__ import annotations

from schemas.messages.event import Event
from schemas.rpc.keywords import (
    AffinityFields,
    CapacityFields,
    ConfirmFields,
    CordonFields,
    DrainFields,
    DrainingFields,
    InstancesFields,
    MachinesFields,
    PlaceFields,
    PlanFields,
    PreferenceFields,
    RebalanceFields,
    ReleaseFields,
    RequestFields,
    RiskFields,
    TolerationFields,
    UpdateFields,
)
from schemas.rpc.results import (
    Arrival,
    Candidate,
    CapacityResult,
    ConfirmResult,
    CordonResult,
    DrainLine,
    DrainResult,
    Emptied,
    Emptying,
    HealthResult,
    Heating,
    InstanceRow,
    InstancesResult,
    InstanceUsage,
    Line,
    MachineRow,
    MachinesResult,
    Moving,
    PlaceResult,
    PlanResult,
    PlanStep,
    RankResult,
    RebalanceMove,
    RebalanceResult,
    Record,
    Refusal,
    ReleaseResult,
    RiskResult,
    SoonHot,
    UpdateResult,
    Verdict,
)
from schemas.values.mapping import Result
from scorer.client.call import WindwardError
from scorer.client.clients import AsyncClient, AsyncEvents, Client, Events
from scorer.client.placement import AsyncPlaced, AsyncPlacement, Placed, Placement

__all__ = [
    "AffinityFields",
    "Arrival",
    "AsyncClient",
    "AsyncEvents",
    "AsyncPlaced",
    "AsyncPlacement",
    "Candidate",
    "CapacityFields",
    "CapacityResult",
    "Client",
    "ConfirmFields",
    "ConfirmResult",
    "CordonFields",
    "CordonResult",
    "DrainFields",
    "DrainLine",
    "DrainResult",
    "DrainingFields",
    "Emptied",
    "Emptying",
    "Event",
    "Events",
    "HealthResult",
    "Heating",
    "InstanceRow",
    "InstanceUsage",
    "InstancesFields",
    "InstancesResult",
    "Line",
    "MachineRow",
    "MachinesFields",
    "MachinesResult",
    "Moving",
    "PlaceFields",
    "PlaceResult",
    "Placed",
    "Placement",
    "PlanFields",
    "PlanResult",
    "PlanStep",
    "PreferenceFields",
    "RankResult",
    "RebalanceFields",
    "RebalanceMove",
    "RebalanceResult",
    "Record",
    "Refusal",
    "ReleaseFields",
    "ReleaseResult",
    "RequestFields",
    "Result",
    "RiskFields",
    "RiskResult",
    "SoonHot",
    "TolerationFields",
    "UpdateFields",
    "UpdateResult",
    "Verdict",
    "WindwardError",
]


def __dir__() -> list[str]:
    """Return the public names; modules that this one imports are not among them."""
    return __all__


WindwardError.__module__ = __name__  # what a traceback calls it
