"""The methods of both clients, each written once, as the steps of its call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Unpack, overload
from urllib.parse import urlsplit

from schemas.process.redis_url import sentinels_in
from schemas.rpc.keywords import (
    CapacityFields,
    ConfirmFields,
    CordonFields,
    DrainFields,
    InstancesFields,
    MachinesFields,
    PlanFields,
    RebalanceFields,
    ReleaseFields,
    RequestFields,
    RiskFields,
    UpdateFields,
)
from schemas.rpc.results import (
    CapacityResult,
    ConfirmResult,
    CordonResult,
    DrainResult,
    HealthResult,
    InstancesResult,
    MachinesResult,
    PlanResult,
    RankResult,
    RebalanceResult,
    ReleaseResult,
    RiskResult,
    UpdateResult,
)
from scorer.client.call import Call, Kind, Steps, WindwardError, read
from scorer.client.log import Log

Parameters = ParamSpec("Parameters")


class Method(Generic[Parameters, Kind]):
    """A method written as the steps of its call: `Here` runs them, `There` awaits them.

    Type checkers read `__get__`. At run time both classes have plain functions.
    """

    def __init__(self, steps: Callable[Concatenate[Any, Parameters], Steps[Kind]]) -> None:
        self._steps = steps

    if TYPE_CHECKING:

        @overload
        def __get__(self, client: None, kind: type) -> Method[Parameters, Kind]: ...
        @overload
        def __get__(self, client: Here, kind: type) -> Callable[Parameters, Kind]: ...
        @overload
        def __get__(self, client: There, kind: type) -> Callable[Parameters, Coroutine[Any, Any, Kind]]: ...
        def __get__(self, client: Any, kind: type) -> Any: ...

    def here(self) -> Any:
        steps = self._steps

        @functools.wraps(steps)
        def taken(client: Here, *given: Any, **more: Any) -> Any:
            return client._take(steps(client, *given, **more))

        return _returning(taken)

    def there(self) -> Any:
        steps = self._steps

        @functools.wraps(steps)
        async def awaited(client: There, *given: Any, **more: Any) -> Any:
            return await client._take(steps(client, *given, **more))

        return _returning(awaited)


def _returning(function: Any) -> Any:
    """Return the function annotated with the result of its steps, as ``help`` prints it."""
    own = dict(function.__annotations__)
    own["return"] = own["return"].removeprefix("Steps[").removesuffix("]")
    function.__annotations__ = own
    return function


def where_of(url: str) -> str:
    """Return the server's name for messages: host and port, or the socket; other parts may hold a password.

    Raises WindwardError.
    """
    scheme, given, _ = url.partition("://")
    if not given or scheme not in ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel"):
        raise WindwardError(
            "INVALID_ARGUMENT",
            "url: expected redis://, rediss://, unix:// or redis+sentinel://; "
            "a cluster is not supported: name one server, or one behind sentinels",
        )
    try:
        if found := sentinels_in(url):
            return f"{scheme}://{','.join(f'{host}:{port}' for host, port in found.hosts)}/{found.name}"
        parts = urlsplit(url)
        where = parts.path if scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except (ValueError, TypeError):
        raise WindwardError("INVALID_ARGUMENT", "url: not a URL that can be parsed") from None
    return f"{scheme}://{where}"


class Methods:
    """The server, prefix and timeout of a client, and its methods."""

    def __init__(self, url: str, prefix: str, timeout_s: float) -> None:
        self._where = where_of(url)
        self._prefix = prefix
        self._timeout_s = timeout_s

    @Method
    def call(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float | None = None, query_id: str = ""
    ) -> Steps[Any]:
        """Return the result of one query as plain data.

        Raises WindwardError: the scorer's own, DEADLINE_EXCEEDED without an answer, UNAVAILABLE without a server,
        PERMISSION_DENIED and UNAUTHENTICATED where it refuses this user, RESOURCE_EXHAUSTED when too many queries wait.
        """
        return self._ask(object, method, params, timeout_s, query_id)

    @Method
    def rank(self, *, timeout_s: float | None = None, **request: Unpack[RequestFields]) -> Steps[RankResult]:
        """Rank the machines for a request; changes nothing."""
        return self._ask(RankResult, "rank", request, timeout_s)

    @Method
    def confirm(
        self, id: str, *, timeout_s: float | None = None, **more: Unpack[ConfirmFields]
    ) -> Steps[ConfirmResult]:
        """Report that a reserved instance runs."""
        return self._ask(ConfirmResult, "confirm", {"id": id, **more}, timeout_s)

    @Method
    def update(
        self, id: str, *, timeout_s: float | None = None, **changes: Unpack[UpdateFields]
    ) -> Steps[UpdateResult]:
        """Move, resize or change the role of a confirmed instance."""
        return self._ask(UpdateResult, "update", {"id": id, **changes}, timeout_s)

    @Method
    def release(
        self, id: str, *, timeout_s: float | None = None, **more: Unpack[ReleaseFields]
    ) -> Steps[ReleaseResult]:
        """End an instance or give a reservation back."""
        return self._ask(ReleaseResult, "release", {"id": id, **more}, timeout_s)

    @Method
    def capacity(self, *, timeout_s: float | None = None, **request: Unpack[CapacityFields]) -> Steps[CapacityResult]:
        """Count how many more instances of a kind fit; changes nothing.

        ``by``: a label, or ``machine``, to count by.
        """
        return self._ask(CapacityResult, "capacity", request, timeout_s)

    @Method
    def cordon(self, *, timeout_s: float | None = None, **which: Unpack[CordonFields]) -> Steps[CordonResult]:
        """Keep further instances away from machines: ``machines`` (names or globs), ``selector``. For operators."""
        return self._ask(CordonResult, "cordon", which, timeout_s)

    @Method
    def uncordon(self, *, timeout_s: float | None = None, **which: Unpack[CordonFields]) -> Steps[CordonResult]:
        """Let machines take instances again. For operators."""
        return self._ask(CordonResult, "uncordon", which, timeout_s)

    @Method
    def drain(self, *, timeout_s: float | None = None, **which: Unpack[DrainFields]) -> Steps[DrainResult]:
        """Plan where the instances of machines go; ``apply=True`` cordons and reserves. For operators.

        A planner plans a thousand instances in some two seconds: set the timeout accordingly.
        """
        return self._ask(DrainResult, "drain", which, timeout_s)

    @Method
    def plan(self, *, timeout_s: float | None = None, **wanted: Unpack[PlanFields]) -> Steps[PlanResult]:
        """Plan the steps from the ledger to the wanted ``instances``; changes nothing. For operators."""
        return self._ask(PlanResult, "plan", wanted, timeout_s)

    @Method
    def rebalance(self, *, timeout_s: float | None = None, **how: Unpack[RebalanceFields]) -> Steps[RebalanceResult]:
        """Plan which instances should move, and why; changes nothing. For operators."""
        return self._ask(RebalanceResult, "rebalance", how, timeout_s)

    @Method
    def instances(self, *, timeout_s: float | None = None, **query: Unpack[InstancesFields]) -> Steps[InstancesResult]:
        """List the ledger's instances."""
        return self._ask(InstancesResult, "instances", query, timeout_s)

    @Method
    def machines(self, *, timeout_s: float | None = None, **query: Unpack[MachinesFields]) -> Steps[MachinesResult]:
        """List the machines as the scorer sees them."""
        return self._ask(MachinesResult, "machines", query, timeout_s)

    @Method
    def risk(self, *, timeout_s: float | None = None, **query: Unpack[RiskFields]) -> Steps[RiskResult]:
        """Name the machines whose CPU load will soon be above a limit, the hottest first, and what heats each."""
        return self._ask(RiskResult, "risk", query, timeout_s)

    @Method
    def health(self, *, timeout_s: float | None = None) -> Steps[HealthResult]:
        """Return the health of one scorer."""
        return self._ask(HealthResult, "health", {}, timeout_s)

    def _ask(
        self, kind: type[Kind], method: str, params: Mapping[str, Any], timeout_s: float | None, query_id: str = ""
    ) -> Steps[Kind]:
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        answer = yield from Call(self._prefix, method, params, timeout_s, query_id).steps(self._where)
        return read(kind, answer)

    def _log(self, since: float | None, after: str, follow: bool, timeout_s: float | None) -> Log:
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        return Log(self._prefix, self._where, since, after, follow=follow, timeout_s=timeout_s)


class Here(Methods):
    """Methods that return when the call is complete."""

    def _take(self, steps: Steps[Kind]) -> Kind:
        raise NotImplementedError


class There(Methods):
    """Methods that are awaited."""

    async def _take(self, steps: Steps[Kind]) -> Kind:
        raise NotImplementedError


for _name, _method in list(vars(Methods).items()):
    if isinstance(_method, Method):
        setattr(Here, _name, _method.here())
        setattr(There, _name, _method.there())
