"""The loop: which answers go in one write. The rest of it is tested against a server, in tests/integration."""

import threading
import time

import msgspec
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from schemas.rpc.envelope import Query, Reply
from schemas.rpc.request import InvalidRequest
from scorer.metrics import Metrics
from scorer.planner.settings import PlannerSettings
from scorer.rpc.loop import ACTIVE, LATER, LONG_MAX, Replies, Rpc, read_query, refusal
from scorer.rpc.methods.records import ForPlanners, read_object
from scorer.settings import ScorerSettings
from scorer.wire import Command, ServerClock

SETTINGS = ScorerSettings(name="s", drain_max=8)
LISTS = SETTINGS.lists


class Wire:
    def __init__(self, stop, queries):
        self.writes = []
        self.removed = []
        self.refused = []
        self._stop, self._queries, self._held = stop, list(queries), list[Command]()

    def one(self, *command):
        return (100, 0) if command[0] == "TIME" else None

    def hold(self, commands):
        self._held += commands

    def post(self, commands):
        sent, self._held = [*self._held, *commands], []
        self.removed += [command for command in sent if command[0] == "LREM"]
        keys = [str(command[1]) for command in sent if command[0] == "LPUSH"]
        self.writes += [[key.rpartition(":")[2] for key in keys]] if keys else []

    def ask(self, commands, *_):
        """Write, and give as many queries as are taken; then the end has come."""
        self.post(commands)
        if not self._queries:
            self._stop.set()
        takes = [command[0] in ("BLMOVE", "LMOVE") for command in commands]
        return [self._queries.pop(0) if take and self._queries else None if take else 0 for take in takes]


class Service:
    METHODS: tuple[str, ...] = ("place",)

    def steps(self, query):
        return b"1"
        yield

    def reads(self):
        return []

    writes = reads

    def accept(self, answers):
        """Take nothing."""

    def lost(self):
        """Forget nothing."""

    between = lost


class Watched(Service):
    def __init__(self, wire):
        self._wire = wire
        self.written = {}

    def steps(self, query):
        self.written[query.id] = [*self._wire.writes]
        return b"1"
        yield


def test_no_answer_is_kept_back_while_the_next_is_being_worked_on():
    """Of queries that are taken together each is answered in a write of its own, before the next one is begun."""
    stop = threading.Event()
    ids = ["a1", "a2", "b1", "b2", "b3"]
    wire = Wire(stop, [msgspec.json.encode(Query(id=name, method="place", deadline=0.0)) for name in ids])
    service = Watched(wire)
    rpc = Rpc(wire, service, Metrics(), SETTINGS, ServerClock())
    rpc._bound = lambda query: query
    rpc._more = len(ids) - 1
    rpc.run(stop)
    each = [[name] for name in ids]
    assert wire.writes == each
    assert service.written == {name: each[:place] for place, name in enumerate(ids)}


@pytest.mark.parametrize(
    ("deadline", "bounded"), [(0.0, 160.0), (100.5, 100.5), (3_700.0, 3_700.0), (3_701.0, 3_700.0), (1e12, 3_700.0)]
)
def test_no_query_is_valid_for_ever(deadline, bounded):
    """Without a deadline a minute from its taking at 100 s, by the server's time; with one an hour at most."""
    rpc = Rpc(Wire(threading.Event(), []), Service(), Metrics(), SETTINGS, ServerClock())
    rpc._asked_at = 100.0
    found = rpc._bound(Query(id="x", method="place", deadline=deadline))
    assert isinstance(found, Query)
    assert found.deadline == bounded


@pytest.mark.parametrize(("size", "kept_s"), [(10, 60), (65_000, 60), (131_072, 29), (1_000_000, 3), (9_000_000, 2)])
def test_a_long_answer_that_nobody_takes_is_kept_shorter(size, kept_s):
    """So what one caller leaves unread is bounded by its rate, whatever it asks for."""
    rpc = Rpc(Wire(threading.Event(), []), Service(), Metrics(), SETTINGS, ServerClock())
    pushed, _, expires = rpc._send(Reply(id="x", ok=True, result=msgspec.Raw(b'"' + b"a" * size + b'"')))
    assert pushed[0] == "LPUSH"
    assert expires == ("EXPIRE", pushed[1], kept_s)


def test_an_id_that_is_repeated_for_ever_holds_a_few_answers():
    """The newest: whoever asks again and waits gets one of them."""
    rpc = Rpc(Wire(threading.Event(), []), Service(), Metrics(), SETTINGS, ServerClock())
    pushed, trimmed, _ = rpc._send(Reply(id="x", ok=True, result=msgspec.Raw(b"1")))
    assert trimmed == ("LTRIM", pushed[1], 0, 3)


class Lists(Wire):
    """A server with an operators' list, which it may refuse; it ends when ``ends`` writes were made."""

    def __init__(self, stop, operators, ends):
        super().__init__(stop, [])
        self.operators, self.left, self.looks = list(operators), ends, 0

    def ask(self, commands, *_):
        """Answer; ordinary queries there are none."""
        self.post(commands)
        self.left -= 1
        if not self.left:
            self._stop.set()
        return [self._answered(command) for command in commands]

    def _answered(self, command):
        if command[1] != LISTS.of_operators:
            return 0 if command[0] == "LLEN" else None
        self.looks += 1
        return self.operators.pop(0) if self.operators else None


class OfOperators(Service):
    METHODS = ("place", "cordon")


def test_operators_queries_are_taken_one_after_the_other():
    """Those that wait in turn after turn; the empty list is left alone for a while. Each goes off its own list."""
    stop = threading.Event()
    queries = [msgspec.json.encode(Query(id=f"o{n}", method="cordon", deadline=9e9)) for n in range(3)]
    wire = Lists(stop, queries, ends=10)
    Rpc(wire, OfOperators(), Metrics(), SETTINGS, ServerClock()).run(stop)
    assert wire.writes == [["o0"], ["o1"], ["o2"]]
    assert wire.removed == [("LREM", LISTS.taken_of_operators("s"), 1, query) for query in queries]
    assert 4 <= wire.looks < 10


class InTwo(Service):
    def steps(self, query):
        yield
        return b"1"


def test_a_batch_of_an_operator_goes_off_its_own_list():
    """Operators may place, too; on the other list it would stay until the scorer ends, and be placed again."""
    stop = threading.Event()
    query = msgspec.json.encode(Query(id="o", method="place", deadline=9e9))
    wire = Lists(stop, [query], ends=5)
    Rpc(wire, InTwo(), Metrics(), SETTINGS, ServerClock()).run(stop)
    assert wire.writes == [["o"]]
    assert wire.removed == [("LREM", LISTS.taken_of_operators("s"), 1, query)]


def test_a_scorer_that_may_not_take_them_goes_on(caplog):
    """Its Redis user has an older file: it says so once, and answers the others."""
    stop = threading.Event()
    wire = Lists(stop, [redis.ResponseError("NOPERM no permissions")] * 9, ends=5)
    Rpc(wire, OfOperators(), Metrics(), SETTINGS, ServerClock()).run(stop)
    assert wire.looks == 1
    assert [record.message for record in caplog.records] == ["scorer.operators.refused"]


def test_an_operators_method_on_the_ordinary_list_is_refused():
    metrics = Metrics()
    replies = Replies(OfOperators(), metrics, lambda: 0.0)
    query = Query(id="o", method="cordon")
    refused = replies.reply(b"", query)
    assert (refused.error.code, "queries:operators" in refused.error.message) == ("PERMISSION_DENIED", True)
    assert replies.reply(b"", query, of_operators=True).ok


class Leaves(Service):
    METHODS = ("drain", "rank")

    def steps(self, query):
        raise ForPlanners
        yield


class Server(Wire):
    """A server on which planners run, or none, or whose user may not ask them; notes what is moved."""

    def __init__(self, said):
        super().__init__(threading.Event(), [])
        self.said, self.moved = said, list[Command]()

    def one(self, *command):
        if command[0] != "EVAL":
            return super().one(*command)
        self.moved.append(command[3:])
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        (1, "", ""), (0, "UNAVAILABLE", "no planner runs (windward planner)"),
        (redis.ResponseError("NO"), "PERMISSION_DENIED", "this scorer may not ask a planner: NO; see ops/redis"),
    ],
)  # fmt: skip
def test_a_query_goes_to_the_list_with_the_rights_of_its_own(said, code, message):
    """No answer is written where it was moved; else one at once, and the query goes off the scorer's list."""
    wire, metrics, names = Server(said), Metrics(), SETTINGS.names
    rpc = Rpc(wire, Leaves(), metrics, SETTINGS, ServerClock())
    asked = [("rank", False, names.planner_queries), ("drain", True, names.planner_operator_queries)]
    for method, of_operators, there in asked:
        rpc._bounded["q"] = 60.0
        sent = rpc._answer(b"raw", Query(id="q", method=method, deadline=9e9), of_operators=of_operators)
        own = LISTS.taken_of_operators("s") if of_operators else LISTS.taken("s")
        assert wire.moved.pop() == (names.planners, there, own, SETTINGS.silent_s, b"raw")
        if not message:
            assert (sent, rpc._bounded) == ([], {})
            continue
        reply = msgspec.json.decode(sent[0][2])
        assert reply["error"] == {"code": code, "message": message, "retryable": False}
        assert ("LREM", own, 1, b"raw") in sent


def test_a_planner_takes_one_query_of_each_list_at_a_time():
    """Another planner is free for the next; and what it does besides has its turn after each."""
    settings, stop = PlannerSettings(name="p"), threading.Event()
    wire = Wire(stop, [msgspec.json.encode(Query(id=f"q{n}", method="place", deadline=9e9)) for n in range(3)])
    service = Service()
    turns = []
    service.between = lambda: turns.append(len(wire.writes))
    rpc = Rpc(wire, service, Metrics(), settings, ServerClock())
    rpc.run(stop)
    assert rpc._take[1:3] == (settings.names.planner_queries, settings.lists.taken("p"))
    assert wire.writes == [["q0", "q1", "q2"]] or len(wire.writes) >= 2
    assert len(turns) >= 3


class Stepwise:
    """Answers a query in as many steps as its id says, and one more; notes the steps and what was closed."""

    METHODS = ("place", "rank")

    def __init__(self):
        self.done = []
        self.closed = []

    def steps(self, query):
        try:
            for _ in range(int(query.id)):
                self.done.append(query.id)
                yield
        finally:
            self.closed.append(query.id)
        return b"1"


def make(*ids):
    """Return replies to these queries, the first step of each done."""
    service, metrics = Stepwise(), Metrics()
    replies = Replies(service, metrics, time.time)
    for name in ids:
        assert replies.reply(b"", Query(id=name, method="place")) is LATER
    return replies, service, metrics


def test_each_does_a_step_in_its_turn():
    """A short one that came later is not kept waiting by a long one."""
    replies, service, metrics = make("3", "2")
    assert metrics.long._value.get() == 2
    done = [replies.go_on() for _ in range(6)]
    assert [each[1].id for each in done if each and each[1]] == ["2", "3"]
    assert service.done == ["3", "2", "3", "2", "3"]
    assert not replies.under_way
    assert metrics.long._value.get() == 0


def test_one_ends_after_the_other():
    """Each of the first keeps a fifth of the steps; a short one waits for none."""
    replies, _, _ = make(*["20"] * 10, "2")
    ended = []
    for step in range(1, 151):
        if (done := replies.go_on()) is not None and done[1]:
            ended.append((done[1].id, step))
    assert ended[0][0] == "2"
    assert ended[0][1] <= 2 * (ACTIVE + 1)
    assert [step for _, step in ended][1] <= 22 * (ACTIVE + 1)
    assert len(ended) > ACTIVE


def test_there_is_a_largest_number():
    replies, service, _ = make(*["1"] * LONG_MAX)
    refused = replies.reply(b"", Query(id="2", method="place"))
    assert (refused.error.code, refused.error.retryable) == ("RESOURCE_EXHAUSTED", True)
    assert service.closed == ["2"]
    short = replies.reply(b"", Query(id="0", method="place"))
    assert short.ok


def test_all_are_given_up_when_the_server_is_lost():
    """They are taken from the queue again: nothing of them is kept."""
    replies, service, metrics = make("3", "4")
    replies.clear()
    assert not replies.under_way
    assert sorted(service.closed) == ["3", "4"]
    assert metrics.long._value.get() == 0


@given(st.binary(max_size=300))
def test_any_bytes_are_a_query_an_answer_or_nothing(raw):
    assert isinstance(read_query(raw), Query | Reply | None)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_any_json_is_a_query_an_answer_or_nothing(value):
    """No JSON does either, and what is refused with an id is refused by name."""
    found = read_query(msgspec.json.encode({"id": "q", "method": "rank", "deadline": value}))
    assert isinstance(found, Query | Reply)
    if isinstance(found, Reply):
        assert found.error.message.startswith("deadline")


def test_a_query_too_long_is_refused_by_its_id():
    """A query of more than 8 MiB is not decoded; its id is found at its start."""
    found = read_query(b'{"id":"long","method":"place","params":"' + b"x" * 9_000_000 + b'"}')
    assert isinstance(found, Reply)
    assert found.id == "long"


@pytest.mark.parametrize(
    "params", [b'{"cluster": "\xff"}', b'{"\xff": 1}', b"[" * 5_000 + b"]" * 5_000, b'{"a": "\xed\xa0\x80"}']
)
def test_parameters_that_are_no_json_text_are_an_invalid_argument(params):
    """Invalid UTF-8 within them is found when they are read, not when the query is."""
    found = read_query(b'{"v": 1, "id": "q", "method": "rank", "params": ' + params + b"}")
    if isinstance(found, Query):
        with pytest.raises(InvalidRequest):
            read_object(found)
    else:
        assert found.error.code == "INVALID_ARGUMENT"


def test_an_answer_echoes_little_of_what_was_asked():
    error = refusal("q", "INVALID_ARGUMENT", f"id: '{'x' * 1_000_000}' is unknown").error
    assert error.message == f"id: '{'x' * 200}...' is unknown"
