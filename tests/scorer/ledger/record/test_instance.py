"""The record of an instance: what is stored of amounts that were given and of those that were not."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.rpc.parameters import Update
from schemas.rpc.request import CHANGEABLE_FIELDS, KEPT_FIELDS, Request, read_request
from scorer.ledger.record import instance
from scorer.ledger.record.instance import COUNT_MAX, NO_LIMIT, in_units, too_large
from scorer.ledger.record.limits import Limit, adds, in_role, mosts_in_script, on_port, total
from scorer.ledger.store.reconcile import difference
from scorer.ledger.view.view import instance_of
from scorer.planning.wanted.wanted import as_wanted, changes, fixed, restoring
from scorer.rpc.methods.update import changed

FIRST = b'{"machine":"m","state":"reserved",'


@pytest.mark.parametrize(("given", "stored"), [({}, {}), ({"cpu": 0}, {"cpu": 0}), ({"cpu": 0.5}, {"cpu": 500_000})])
def test_a_record_tells_0_from_none_given(given, stored):
    tail = instance.record_tail(instance_of(read_request({"id": "a", **given}), "m", 0.0))
    assert msgspec.json.decode(b"{" + tail + b"}")["amounts"] == stored
    read = instance.read_record(FIRST + tail + b"}")
    assert read.amounts == (given.get("cpu"), *[None] * (len(RESOURCES) - 1))


def test_a_null_in_a_record_is_none_given():
    read = instance.read_record(FIRST + b'"id":"a","amounts":{"cpu":null,"memory":0},"priority_class":"prod"}')
    assert read.amounts[:2] == (None, 0.0)


texts = st.text(max_size=8)


times = st.floats(0, 1e12, allow_nan=False)


@st.composite
def whole_amounts(draw, missing):
    """Draw an amount for each resource that is a whole number of units, or ``missing``."""
    units = [draw(st.none() | st.integers(0, 2**50)) for _ in RESOURCES]
    ones = [in_units(name, 1.0) for name in RESOURCES]
    return tuple(missing if n is None else n / one for n, one in zip(units, ones, strict=True))


@settings(deadline=None)
@given(
    st.builds(
        instance.Instance,
        id=texts, machine=texts, state=st.sampled_from(["reserved", "confirmed", "expired"]),
        amounts=whole_amounts(None), expected=st.just(()) | whole_amounts(-1.0),
        labels=st.dictionaries(texts, texts, max_size=2),
        role=texts, cluster=texts, ports=st.tuples(st.integers(1, 65535)), expires_at=times,
        maxmemory=st.integers(0, 2**50).map(float),
        priority_class=st.sampled_from(["prod", "free"]), version=st.integers(0, 2**40),
    )
)  # fmt: skip
def test_a_record_is_put_together_again(record):
    """The fields that change and the rest, joined as the scripts join them, are the record; whatever its texts hold."""
    head = {name: getattr(record, name) for name in ("version", "state", "machine", "expires_at")}
    joined = msgspec.json.encode(head)[:-1] + b",\n" + instance.record_tail(record) + b"}"
    read = instance.read_record(joined)
    if any(amount != -1.0 for amount in record.expected):
        assert read == record
    else:  # nothing declared is as good as an empty tuple
        assert msgspec.structs.replace(read, expected=()) == msgspec.structs.replace(record, expected=())
    assert b"\n" not in instance.record_tail(record)


# ---- a moving instance

ONE = instance.Instance(
    id="a", machine="m1", state="confirmed", amounts=Request(cpu=1.0, memory=2e9).given_amounts(), labels={"app": "x"}
)
NEW = instance.Arrival(
    amounts=Request(cpu=4.0).given_amounts(), maxmemory=5.0, rules=instance.Rules(selector="disk=ssd")
)


def test_each_machine_has_its_own_amounts():
    moves = instance.copy_with(ONE, moving=instance.Moving("m2", 1.0, 61.0, 7, NEW))
    assert instance.as_held(moves, "m1") is moves
    there = instance.as_held(moves, "m2")
    assert (there.machine, there.state, there.amounts, there.labels) == ("m2", "reserved", NEW.amounts, ONE.labels)
    assert instance.arrival(instance.with_arrival(moves)) == NEW
    assert instance.with_arrival(ONE) is ONE
    assert (
        instance.as_held(instance.copy_with(ONE, moving=instance.Moving("m2", 1.0, 61.0)), "m2").amounts == ONE.amounts
    )


def test_a_move_is_read_from_a_record():
    """The tail of what it becomes has fields that a move does not change: they are passed over."""
    raw = (
        b'{"id":"a","machine":"m1","state":"confirmed","amounts":{"cpu":1000000},"moving":{"to":"m2",'
        b'"since":1,"until":61,"number":7,"new":{"id":"a","amounts":{"cpu":4000000},"labels":{"app":"x"},"counts":[],'
        b'"maxmemory":5,"rules":{"selector":"disk=ssd"}}}}'
    )
    assert instance.read_record(raw).moving.new == NEW
    assert set(instance.CHANGED_BY_A_MOVE) < set(instance.Instance.__struct_fields__)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"cpu": "500m"}, {"cpu": 0.5}, True),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}, True),
        ({"cpu": 1, "explain": True, "top": 50, "dry_run": True}, {"cpu": 1}, True),
        ({"cpu": 1}, {"cpu": 2}, False),
        ({"cpu": 1, "count": 2}, {"cpu": 1, "count": 3}, False),
        ({"ports": [1]}, {"ports": [2]}, False),
        ({"ttl_s": 5}, {"ttl_s": 6}, True),
        ({"cpu": 0}, {}, False),
    ],
)
def test_digests_tell_requests_apart(one, other, same):
    """Two requests have one digest exactly when they ask for the same; lifetime and showing do not count."""
    assert (instance.request_digest(read_request(one)) == instance.request_digest(read_request(other))) is same


def test_units_round_to_the_nearest_and_nan_is_no_limit():
    assert in_units("cpu", 0.1) * 39 == in_units("cpu", 3.9)
    assert in_units("memory", 0.4) == 0
    assert in_units("nic", math.nan) == -1
    assert in_units("cpu", math.inf) == 2**53


def test_too_large_names_the_amount_and_the_limit():
    rest = [0.0] * (len(RESOURCES) - 2)
    assert too_large((1.0, 1e9, *rest), 0.0) == ""
    assert too_large((1e15, 0.0, *rest), 0.0) == "cpu: at most 1,125,899,906 cores can be counted"
    assert too_large((None, 1e16, *rest), 0.0) == "memory: at most 1,125,899,906,842,624 bytes can be counted"
    assert too_large((0.0, 0.0, *rest), 1e300) == "maxmemory: at most 1,125,899,906,842,624 bytes can be counted"


@pytest.mark.parametrize(
    ("limit", "added"),
    [
        (Limit(total("memory"), 1.0, ""), 1_000_000_000),
        (Limit(total("memory", "prod"), 1.0, ""), 0),
        (Limit(total("memory", "prod", "batch"), 1.0, ""), 1_000_000_000),
        (Limit(total("maxmemory"), 1.0, ""), 7),
        (Limit(total("instances"), 1.0, ""), 1),
        (Limit(on_port(1), 1.0, ""), 1),
        (Limit(on_port(2), 1.0, ""), 0),
        (Limit(in_role("a b", "c"), 1.0, ""), 1),
        (Limit(in_role("a", "b c"), 1.0, ""), 0),
    ],
)
def test_what_an_instance_adds_to_a_limit(limit, added):
    record = instance.Instance(
        id="a", machine="m", state="reserved", amounts=(None, 1e9, *[0.0] * (len(RESOURCES) - 2)), maxmemory=7.0,
        ports=(1,), cluster="a b", role="c", priority_class="batch",
    )  # fmt: skip
    assert adds(record, limit.measure) == added


@pytest.mark.parametrize(
    ("most", "counted"),
    [(2.0, 2_000_000), (0.0, 0), (-5.0, 0), (-math.inf, 0), (math.nan, NO_LIMIT), (1e300, COUNT_MAX)],
)
def test_the_most_of_a_limit_as_the_scripts_count_it(most, counted):
    """A limit below 0 leaves no room; it is not taken for none."""
    assert mosts_in_script([Limit(total("cpu"), most, "")], [(1e6, 0.5)]) == [int(counted)]


ASKED = {
    "selector": {"selector": "disk=ssd"},
    "affinity": {"affinity": [{"instances": {"app": "a"}, "topology": "rack"}]},
    "anti_affinity": {"anti_affinity": [{"instances": {"app": 'a"\\'}}]},
    "tolerations": {"tolerations": [{"key": "gpu"}, {"effect": "avoid", "value": ""}]},
    "prefer": {"prefer": [{"selector": "rack=r1", "weight": 2}]},
}


def stored(**asked):
    return instance.read_record(
        FIRST + instance.record_tail(instance_of(read_request({"id": "a", "cpu": 1, **asked}), "m", 0.0)) + b"}"
    )


@pytest.mark.parametrize(
    "asked", [*ASKED.values(), {name: value for one in ASKED.values() for name, value in one.items()}]
)
def test_the_request_of_an_instance_has_its_rules(asked):
    """They are those of its first request, as JSON says them."""
    first, again = read_request({"id": "a", "cpu": 1, **asked}), instance.as_request(stored(**asked))
    for name in instance.as_fields(instance.rules_of(first)):
        assert msgspec.to_builtins(getattr(again, name)) == msgspec.to_builtins(getattr(first, name)), name


def test_a_request_without_rules_leaves_none_in_the_record():
    assert b"rules" not in instance.record_tail(instance_of(Request(id="a", cpu=1.0), "m", 0.0))
    assert stored().rules is None
    assert msgspec.json.encode(instance.as_request(stored())) == msgspec.json.encode(Request(id="a", cpu=1.0))


@pytest.mark.parametrize(
    ("rule", "digest", "kept"),
    [
        ({}, "582ca9c2bbc4ed8d5b", b'"topology":"machine"}'),
        ({"topology": "machine", "others": 0}, "582ca9c2bbc4ed8d5b", b'"topology":"machine"}'),
        ({"topology": "rack", "others": 2}, "62543dc557daeeddd5", b'"topology":"rack","others":2}'),
    ],
)
def test_a_rule_without_others_is_written_as_before_there_were(rule, digest, kept):
    """In the record, and for the digest: after an upgrade a repeated request is still the same one."""
    request = read_request({"cpu": 1, "anti_affinity": [{"instances": {"app": "x"}, **rule}]})
    assert instance.request_digest(request) == digest
    assert b'{"instances":{"app":"x"},' + kept in instance.record_tail(instance_of(request, "m", 0.0))


def test_rules_of_a_newer_release_are_read():
    text = b'"rules":{"selector":"a","affinity":[{"instances":{"b":"c"},"newer":1}],"newer":{}}}'
    rules = instance.read_record(FIRST + b'"id":"a","amounts":{},' + text).rules
    assert (rules.selector, rules.affinity[0].instances) == ("a", {"b": "c"})


@pytest.mark.parametrize(
    ("listed", "what"),
    [({}, None), (ASKED["selector"], None), (ASKED["affinity"], "rules differ")],
    ids=["says nothing", "the same", "others"],
)
def test_an_inventory_that_says_no_rules_leaves_them(listed, what):
    old = msgspec.structs.replace(stored(**ASKED["selector"]), state="confirmed")
    found = difference({"a": old}, [stored(**listed)])
    assert [words for _, _, words in found.changed] == ([what] if what else [])


SAMPLES = {str: "x", int: 3, tuple: (7,), dict: {"a": "b"}}
PLAIN = Request(id="a", cpu=1.0)


@pytest.mark.parametrize("name", KEPT_FIELDS)
def test_a_kept_field_is_wherever_a_record_is_written_read_and_compared(name):
    """A request's value is in its record, comes back as a request, and differs from an inventory without it."""
    value = SAMPLES[type(getattr(PLAIN, name))]
    asked = msgspec.structs.replace(PLAIN, **{name: value})
    record = instance_of(asked, "m", 0.0)
    stored = instance.read_record(b'{"machine":"m","state":"confirmed",' + instance.record_tail(record) + b"}")
    assert getattr(stored, name) == value
    assert getattr(instance.as_request(stored), name) == value
    (found,) = difference({"a": stored}, [instance_of(PLAIN, "m", 0.0)]).changed
    assert found[2].startswith(f"{name} ")
    assert fixed(stored, PLAIN) if name not in CHANGEABLE_FIELDS else not fixed(stored, PLAIN)


@pytest.mark.parametrize("name", CHANGEABLE_FIELDS)
def test_a_changeable_field_is_a_parameter_of_an_update(name):
    """What is wanted becomes the parameters of an update, which makes the record so; the way back restores it."""
    old = instance_of(PLAIN, "m", 0.0)
    value = SAMPLES[type(getattr(old, name))]
    new = as_wanted(old, msgspec.structs.replace(PLAIN, **{name: value}))
    assert changes(old, new) == {name: value}
    assert changed(old, Update(id="a", **changes(old, new))) == new
    assert changed(new, Update(id="a", **restoring(old, [name]))) == old
