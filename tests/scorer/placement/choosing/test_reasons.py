"""Each way in and out of reuse has a reason, and the reason says what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from schemas.rpc.request import Request
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing import plan as plan_module
from scorer.placement.choosing import reuse as reuse_module
from scorer.placement.choosing import trial as trial_module
from scorer.placement.choosing.continuation import AGE_S_MAX
from scorer.placement.choosing.reasons import LASTING, RANKED, REUSED, Reason, result
from scorer.placement.choosing.reuse import ALIKE_MIN, Reuse
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from tests.rows import each_row
from tests.scorer.fleets import fleet, machine, request

DRAWN = 'ties = "draw"\n[[scores]]\nuse = "global_variance"'
BY_RANK = '[[filters]]\nuse = "fits"\n[[scores]]\nuse = "least_allocated"\nnormalise = "rank"'


class Deployer:
    """Asks for one kind of instance on six machines; `ranked` counts the new rankings of the last decision."""

    def __init__(self, **asked: Any) -> None:
        self.asked: dict[str, Any] = {"cpu": 1, "memory": 2} | asked
        self.build()
        self.ledger, self.reuse, self.profile = self.offline.ledger, Reuse(), load_profiles().choose()
        self.now_s, self.placed = self.offline.now_s, 0
        self.ranked, self.kept = 0, Kept()

    def build(self, **more: Any) -> None:
        """Read the load of the machines."""
        usage = {"cpu": 1, "memory": 1} | more
        self.offline = fleet(*(machine(f"m{n}", usage={name: n * of for name, of in usage.items()}) for n in range(6)))

    def inputs(self) -> RankingInputs:
        """Return what a ranking is made from now."""
        return RankingInputs(self.offline.snapshot, self.ledger, self.profile, self.now_s, self.kept)

    def rank(self, *, whole: bool = False, **more: Any) -> Ranking:
        """Ask for a machine."""
        wanted = request(**self.asked | more)
        with self.counting():
            return self.reuse.rank(wanted, self.inputs(), whole=whole)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Forget the reason counted before; count new rankings."""
        self.reuse.reasons.clear()
        with (
            mock.patch.object(reuse_module, "rank", wraps=rank) as single,
            mock.patch.object(plan_module, "rank", wraps=rank) as batch,
            mock.patch.object(trial_module, "rank", wraps=rank) as unlike,
        ):
            yield
        self.ranked = single.call_count + batch.call_count + unlike.call_count

    def plan(self, *requests: Request, held: tuple[str, ...] = ()) -> None:
        """Ask for the machines of a batch, and place it."""
        with self.counting():
            found = self.reuse.plan(requests, self.inputs(), held)
        for one, name in zip(requests, found.machines, strict=True):
            if name is not None:
                self.apply(one, name)

    def apply(self, asked: Request, name: str) -> None:
        """Put an instance on a machine."""
        self.placed += 1
        self.ledger.apply(instance_of(asked, name, self.now_s, f"i{self.placed}"))

    def place(self, count: int, *, prepare_last: bool = True) -> None:
        """Place instances one by one, with idle time after each, or each but the last."""
        for number in range(count):
            chosen = self.rank().chosen
            assert chosen is not None
            self.apply(request(**self.asked), chosen)
            if prepare_last or number < count - 1:
                self.reuse.prepare(lambda _: self.inputs())

    def batch(self, count: int, **more: Any) -> list[Request]:
        """Return identical requests."""
        return [request(**self.asked | more)] * count


def first() -> Deployer:
    """One request, the first."""
    deployer = Deployer()
    deployer.rank()
    return deployer


def after(change: Callable[[Deployer], object], count: int = 6) -> Callable[[], Deployer]:
    """Return a scenario: instances are placed, something changes, one more is asked for."""

    def scenario() -> Deployer:
        deployer = Deployer()
        deployer.place(count)
        change(deployer)
        deployer.rank()
        return deployer

    return scenario


def busy(count: int, profile: str = "", **asked: Any) -> Callable[[], Deployer]:
    """Return a scenario: so many are placed, and the next is asked for without idle time before it."""

    def scenario() -> Deployer:
        deployer = Deployer(**asked)
        if profile:
            deployer.profile = parse_profile(profile, "own")
        deployer.place(count, prepare_last=False)
        deployer.rank()
        return deployer

    return scenario


def batches(*sizes: int, held: tuple[str, ...] = (), heavy: bool = False, **asked: Any) -> Callable[[], Deployer]:
    """Return a scenario: batches of identical instances, one after the other."""

    def scenario() -> Deployer:
        deployer = Deployer(**asked)
        if heavy:
            deployer.build(cpu=1000)
            deployer.profile = parse_profile('[[scores]]\nuse = "global_variance"', "own")
        for size in sizes:
            deployer.plan(*deployer.batch(size), held=held)
        return deployer

    return scenario


def drawn_batch() -> Deployer:
    """A batch under a profile that draws among equals."""
    deployer = Deployer()
    deployer.profile = parse_profile(DRAWN, "own")
    deployer.plan(*deployer.batch(2))
    return deployer


def unlike() -> Deployer:
    """A batch of two kinds."""
    deployer = Deployer()
    deployer.plan(request(cpu=1), request(cpu=2))
    return deployer


def other_kind() -> Deployer:
    """Another request after some of one kind."""
    deployer = Deployer()
    deployer.place(6)
    deployer.rank(cpu=2)
    return deployer


def whole() -> Deployer:
    """All terms are asked for after some were placed."""
    deployer = Deployer()
    deployer.place(6)
    deployer.rank(whole=True)
    return deployer


def come(deployer: Deployer) -> None:
    """Let an instance of another kind come."""
    deployer.apply(request(cpu=2), "m0")


def come_there(deployer: Deployer) -> None:
    """Let an instance of another kind come to the very machine that was chosen."""
    deployer.apply(request(cpu=2), str(deployer.rank().chosen))


def leave(deployer: Deployer) -> None:
    """Let an instance leave."""
    deployer.ledger.forget("i1")


def reload(deployer: Deployer) -> None:
    """Read the whole ledger again."""
    deployer.ledger = LedgerView(deployer.ledger.instances.values())


def reread(deployer: Deployer) -> None:
    """Read the profiles again."""
    deployer.profile = load_profiles().choose()


def come_and_begin_again(deployer: Deployer) -> None:
    """Let an instance of another kind come, then one fewer of this kind than are continued."""
    come(deployer)
    deployer.reuse.prepare(lambda _: deployer.inputs())
    deployer.place(ALIKE_MIN - 1)
    deployer.place(1, prepare_last=False)


def wait(deployer: Deployer) -> None:
    """Let a ranking grow too old."""
    deployer.now_s += 2 * AGE_S_MAX


SCENARIOS: list[tuple[Reason, Callable[[], Deployer]]] = [
    ("nothing_kept", first),
    ("unchanged", after(lambda deployer: None, count=3)),
    ("unchanged", after(lambda deployer: deployer.rank(), count=3)),
    ("continued", after(lambda deployer: None)),
    ("continued", batches(2, 2)),
    ("other_request", other_kind),
    ("profile_changed", after(reread)),
    ("snapshot_changed", after(Deployer.build)),
    ("ledger_reloaded", after(reload)),
    ("expired", after(wait)),
    ("others_placed", after(come)),
    ("others_placed", after(come_there)),
    ("instance_left", after(leave)),
    ("few_alike", busy(3)),
    ("few_alike", after(come_and_begin_again)),
    ("explained", busy(6, explain=True)),
    ("explained", batches(2, explain=True)),
    ("scope", busy(5, ports=[6379])),
    ("scope", busy(5, cluster="c", role="master", cluster_masters=100)),
    ("scope", batches(2, ports=[6379])),
    ("scope", batches(2, labels={"a": "b"}, affinity=[{"instances": {"a": "b"}}])),
    ("normalisation", busy(5, BY_RANK)),
    ("out_of_range", batches(2, heavy=True)),
    ("no_room", batches(2, 1000)),
    ("unlike", unlike),
    ("ties_drawn", busy(3, DRAWN)),
    ("ties_drawn", drawn_batch),
    ("machines_limited", batches(2, machines_max=1)),
    ("retried", batches(2, held=("m0",))),
    ("whole_ranking", whole),
]


@each_row(("reason", "scenario"), SCENARIOS, ids=[reason for reason, _ in SCENARIOS])
def test_the_reason_is_counted(reason: Reason, scenario: Callable[[], Deployer]) -> None:
    """The last decision counts this one reason; a new ranking is made just where the reason says so."""
    deployer = scenario()
    assert list(deployer.reuse.reasons.elements()) == [reason]
    assert (deployer.ranked > 0) == (result(reason) == "ranked")


def test_every_reason_has_a_scenario_and_a_meaning() -> None:
    """No reason is known that these tests do not reach."""
    assert {reason for reason, _ in SCENARIOS} == set(REUSED) | set(RANKED)
    assert not set(REUSED) & set(RANKED)
    assert set(RANKED) >= LASTING
