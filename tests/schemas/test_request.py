"""Reading requests: amounts in base units, and every error names the field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.request import Affinity, InvalidRequest, Preference, Request, Toleration, read_request
from schemas.rpc import Query

WRONG: list[tuple[str, Any, str]] = [
    ("not an object", [], "Expected `object`, got `array`"),
    ("null", None, "Expected `object`, got `null`"),
    ("unknown field", {"cpus": 2}, "Object contains unknown field `cpus`"),
    ("cpu is a list", {"cpu": [2]}, "cpu: Expected `float | str`, got `array`"),
    ("cpu is null", {"cpu": None}, "cpu: Expected `float | str`, got `null`"),
    ("cpu is yes", {"cpu": True}, "cpu: Expected `float | str`, got `bool`"),
    ("cpu is no amount", {"cpu": "two"}, "cpu: 'two' is not an amount such as 2, 500m, 10G or 10Gi"),
    ("cpu is negative", {"cpu": -1}, "cpu: -1.0 is not a finite amount of zero or more"),
    ("cpu is endless", {"cpu": "inf"}, "cpu: 'inf' is not a finite amount"),
    ("cpu is huge", {"cpu": 10**400}, "cpu: "),
    ("memory is no amount", {"memory": "10GB"}, "memory: '10GB' is not an amount"),
    ("nic is negative", {"nic": "-1G"}, "nic: '-1G' is not a finite amount"),
    ("maxmemory", {"maxmemory": "x"}, "maxmemory: 'x' is not an amount"),
    ("limit is no amount", {"limits": {"cpu": "x"}}, "limits.cpu: 'x' is not an amount"),
    ("limit of nothing known", {"limits": {"gpu": 1}}, "limits: no resource 'gpu'; there are cpu, memory, nic"),
    ("expected is no amount", {"expected": {"nic": -3}}, "expected.nic: -3.0 is not a finite amount"),
    ("expected of nothing known", {"expected": {"disk": 1}}, "expected: no resource 'disk'; there are cpu, memory"),
    ("limits are a list", {"limits": [1]}, "limits: Expected `object`, got `array`"),
    ("port zero", {"ports": [0]}, "ports[0]: Expected `int` >= 1"),
    ("port too large", {"ports": [1, 65_536]}, "ports[1]: Expected `int` <= 65535"),
    ("ports are a number", {"ports": 7001}, "ports: Expected `array`, got `int`"),
    ("id too long", {"id": "i" * 254}, "id: Expected `str` of length <= 253"),
    ("unknown class", {"priority_class": "gold"}, "priority_class: Invalid enum value 'gold'"),
    ("label is a number", {"labels": {"a": 1}}, "labels[...]: Expected `str`, got `int`"),
    ("masters negative", {"cluster_masters": -1}, "cluster_masters: Expected `int` >= 0"),
    ("preference without selector", {"prefer": [{}]}, "prefer[0]: Object missing required field `selector`"),
    ("preference too heavy", {"prefer": [{"selector": "a", "weight": 101}]}, "prefer[0].weight: Expected `float` <="),
    ("preference with more", {"prefer": [{"selector": "a", "w": 1}]}, "prefer[0]: Object contains unknown field `w`"),
    ("affinity without instances", {"affinity": [{}]}, "affinity[0]: Object missing required field `instances`"),
    ("anti-affinity is text", {"anti_affinity": ["a"]}, "anti_affinity[0]: Expected `object`, got `str`"),
    ("unknown effect", {"tolerations": [{"effect": "x"}]}, "tolerations[0].effect: Invalid enum value 'x'"),
    ("window negative", {"window_s": -1}, "window_s: Expected `int` >= 0"),
    ("window is a fraction", {"window_s": 0.5}, "window_s: Expected `int`, got `float`"),
    ("count zero", {"count": 0}, "count: Expected `int` >= 1"),
    ("count too large", {"count": 10_001}, "count: Expected `int` <= 10000"),
    ("top zero", {"top": 0}, "top: Expected `int` >= 1"),
    ("explain is text", {"explain": "yes"}, "explain: Expected `bool`, got `str`"),
    ("no lifetime", {"ttl_s": 0}, "ttl_s: Expected `float` > 0"),
    ("lifetime over a day", {"ttl_s": 86_401}, "ttl_s: Expected `float` <= 86400"),
]


@pytest.mark.parametrize(("name", "params", "wanted"), WRONG, ids=[row[0] for row in WRONG])
def test_a_wrong_request_names_the_field(name: str, params: Any, wanted: str) -> None:
    """The field first, then what was expected and what came."""
    with pytest.raises(InvalidRequest) as error:
        read_request(params)
    assert str(error.value).startswith(wanted), name


def test_an_empty_request_is_best_effort() -> None:
    """Everything has a default."""
    assert read_request({}) == Request()
    assert read_request({}).amounts() == (0.0, 0.0, 0.0)


def test_amounts_come_out_in_base_units() -> None:
    """Wherever an amount may stand."""
    got = read_request(
        {
            "cpu": "500m",
            "memory": "10Gi",
            "nic": 125_000_000,
            "maxmemory": "8G",
            "limits": {"cpu": "2"},
            "expected": {"memory": "1k"},
        }
    )
    assert got.amounts() == (0.5, 10 * 2.0**30, 1.25e8)
    assert (got.maxmemory, got.limits, got.expected) == (8e9, {"cpu": 2.0}, {"memory": 1000.0})
    assert all(type(x) is float for x in (got.cpu, got.memory, got.nic, got.maxmemory))


def test_a_full_request_is_read() -> None:
    """Every field, in its type."""
    got = read_request(
        {
            "ports": [7001, 17_001],
            "id": "redis-1",
            "priority_class": "batch",
            "labels": {"app": "cart"},
            "cluster": "c",
            "role": "master",
            "cluster_masters": 3,
            "kind": "redis",
            "data_labels": ["img"],
            "machine": "m1",
            "selector": "zone in (a, b)",
            "prefer": [{"selector": "ssd", "weight": 10}],
            "affinity": [{"instances": {"app": "cart"}, "topology": "zone"}],
            "anti_affinity": [{"instances": {"cluster": "c"}}],
            "tolerations": [{"key": "gpu", "effect": "refuse"}, {}],
            "profile": "seed",
            "window_s": 900,
            "count": 3,
            "top": 2,
            "explain": True,
            "dry_run": True,
            "ttl_s": 60,
            "all_or_nothing": True,
            "machines_max": 2,
            "machines_min": 2,
        }
    )
    assert got.ports == (7001, 17_001)
    assert got.prefer == (Preference("ssd", 10.0),)
    assert got.affinity == (Affinity({"app": "cart"}, "zone"),)
    assert got.anti_affinity == (Affinity({"cluster": "c"}, "machine"),)
    assert got.tolerations == (Toleration("gpu", None, "refuse"), Toleration())
    assert read_request(msgspec.to_builtins(got)) == got


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(params=json_values | st.dictionaries(st.sampled_from(Request.__struct_fields__), json_values, max_size=4))
def test_any_json_is_a_request_or_refused(params: Any) -> None:
    """Nothing else is raised, and what is read can be read again."""
    try:
        got = read_request(params)
    except InvalidRequest as error:
        assert str(error)
    else:
        assert read_request(msgspec.to_builtins(got)) == got


def test_a_query_without_params_has_an_empty_object() -> None:
    """So that ``health`` can be asked with nothing at all."""
    query = msgspec.json.decode(b'{"id":"q","method":"health","more":1}', type=Query)
    assert bytes(query.params) == b"{}"
    assert query.v == 1
