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

from schemas.messages.event import Event as Event
from schemas.rpc.keywords import AffinityFields as AffinityFields
from schemas.rpc.keywords import CapacityFields as CapacityFields
from schemas.rpc.keywords import ConfirmFields as ConfirmFields
from schemas.rpc.keywords import CordonFields as CordonFields
from schemas.rpc.keywords import DrainFields as DrainFields
from schemas.rpc.keywords import DrainingFields as DrainingFields
from schemas.rpc.keywords import InstancesFields as InstancesFields
from schemas.rpc.keywords import MachinesFields as MachinesFields
from schemas.rpc.keywords import PlaceFields as PlaceFields
from schemas.rpc.keywords import PlanFields as PlanFields
from schemas.rpc.keywords import PreferenceFields as PreferenceFields
from schemas.rpc.keywords import RebalanceFields as RebalanceFields
from schemas.rpc.keywords import ReleaseFields as ReleaseFields
from schemas.rpc.keywords import RequestFields as RequestFields
from schemas.rpc.keywords import RiskFields as RiskFields
from schemas.rpc.keywords import TolerationFields as TolerationFields
from schemas.rpc.keywords import UpdateFields as UpdateFields
from schemas.rpc.results import Arrival as Arrival
from schemas.rpc.results import Candidate as Candidate
from schemas.rpc.results import CapacityResult as CapacityResult
from schemas.rpc.results import ConfirmResult as ConfirmResult
from schemas.rpc.results import CordonResult as CordonResult
from schemas.rpc.results import DrainLine as DrainLine
from schemas.rpc.results import DrainResult as DrainResult
from schemas.rpc.results import Emptied as Emptied
from schemas.rpc.results import Emptying as Emptying
from schemas.rpc.results import HealthResult as HealthResult
from schemas.rpc.results import Heating as Heating
from schemas.rpc.results import InstanceRow as InstanceRow
from schemas.rpc.results import InstancesResult as InstancesResult
from schemas.rpc.results import InstanceUsage as InstanceUsage
from schemas.rpc.results import Line as Line
from schemas.rpc.results import MachineRow as MachineRow
from schemas.rpc.results import MachinesResult as MachinesResult
from schemas.rpc.results import Moving as Moving
from schemas.rpc.results import PlaceResult as PlaceResult
from schemas.rpc.results import PlanResult as PlanResult
from schemas.rpc.results import PlanStep as PlanStep
from schemas.rpc.results import RankResult as RankResult
from schemas.rpc.results import RebalanceMove as RebalanceMove
from schemas.rpc.results import RebalanceResult as RebalanceResult
from schemas.rpc.results import Record as Record
from schemas.rpc.results import Refusal as Refusal
from schemas.rpc.results import ReleaseResult as ReleaseResult
from schemas.rpc.results import RiskResult as RiskResult
from schemas.rpc.results import SoonHot as SoonHot
from schemas.rpc.results import UpdateResult as UpdateResult
from schemas.rpc.results import Verdict as Verdict
from schemas.values.mapping import Result as Result
from scorer.client.call import WindwardError as WindwardError
from scorer.client.clients import AsyncClient as AsyncClient
from scorer.client.clients import AsyncEvents as AsyncEvents
from scorer.client.clients import AsyncPlaced as AsyncPlaced
from scorer.client.clients import AsyncPlacement as AsyncPlacement
from scorer.client.clients import Client as Client
from scorer.client.clients import Events as Events
from scorer.client.clients import Placed as Placed
from scorer.client.clients import Placement as Placement


def __dir__() -> list[str]:
    """Return the public names; modules that this one imports are not among them."""
    return sorted(name for name in globals() if name[0].isupper())


WindwardError.__module__ = __name__  # what a traceback calls it
