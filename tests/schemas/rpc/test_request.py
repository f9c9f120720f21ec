"""Reading requests: amounts in base units, and every error names the field."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.json_schema import schema_file
from schemas.resources import RESOURCES
from schemas.rpc import results
from schemas.rpc.envelope import Query
from schemas.rpc.parameters import RPC, Update
from schemas.rpc.request import (
    LABELS_LENGTH_MAX,
    RULES_LENGTH_MAX,
    InvalidRequest,
    Request,
    read_request,
)
from tests.schemas.messages.test_sample import json_values

WRONG = [
    ("not an object", [], "expected an object, got a list"),
    ("null", None, "expected an object, got null"),
    ("unknown field", {"cpus": 2}, "no such field: 'cpus'"),
    ("cpu is a list", {"cpu": [2]}, "cpu: expected a number or text, got a list"),
    ("cpu is yes", {"cpu": True}, "cpu: expected a number or text, got true or false"),
    ("cpu is no amount", {"cpu": "two"}, "cpu: 'two' is not an amount such as 2, 500m, 10G or 10Gi"),
    ("cpu is negative", {"cpu": -1}, "cpu: -1.0 is not a finite amount of zero or more"),
    ("cpu is endless", {"cpu": "inf"}, "cpu: 'inf' is not a finite amount"),
    ("cpu is huge", {"cpu": 10**400}, "cpu: "),
    ("cpu beyond all numbers", {"cpu": 1e303}, "cpu: expected at most 1e+300, got 1e+303"),
    ("memory beyond all numbers", {"memory": 1e308}, "memory: expected at most 1e+300, got 1e+308"),
    ("limit cannot be counted", {"limits": {"cpu": 1e303}}, "limits.cpu: at most 1,125,899,906 cores can be counted"),
    ("expected cannot be counted", {"expected": {"cpu": 1e303}}, "expected.cpu: at most 1,125,899,906 cores can be"),
    ("memory is no amount", {"memory": "10GB"}, "memory: '10GB' is not an amount"),
    ("nic is negative", {"nic": "-1G"}, "nic: '-1G' is not a finite amount"),
    ("maxmemory", {"maxmemory": "x"}, "maxmemory: 'x' is not an amount"),
    ("limit is no amount", {"limits": {"cpu": "x"}}, "limits.cpu: 'x' is not an amount"),
    ("limit of nothing known", {"limits": {"gpu": 1}}, "limits: no resource 'gpu'; there are cpu, memory, nic"),
    ("expected is no amount", {"expected": {"nic": -3}}, "expected.nic: -3.0 is not a finite amount"),
    ("expected of nothing known", {"expected": {"gpu": 1}}, "expected: no resource 'gpu'; there are cpu, memory"),
    ("limits are a list", {"limits": [1]}, "limits: expected an object, got a list"),
    ("port zero", {"ports": [0]}, "ports[0]: expected a whole number of 1 or more"),
    ("port too large", {"ports": [1, 65_536]}, "ports[1]: expected a whole number of at most 65535"),
    ("ports are a number", {"ports": 7001}, "ports: expected a list, got a whole number"),
    ("id too long", {"id": "i" * 254}, "id: expected text of at most 253"),
    ("unknown class", {"priority_class": "gold"}, "priority_class: no such choice: 'gold'"),
    ("label is a number", {"labels": {"a": 1}}, "labels[...]: expected text, got a whole number"),
    ("masters negative", {"cluster_masters": -1}, "cluster_masters: expected a whole number of 0 or more"),
    ("preference without selector", {"prefer": [{}]}, "prefer[0]: 'selector' is missing"),
    (
        "preference too heavy",
        {"prefer": [{"selector": "a", "weight": 101}]},
        "prefer[0].weight: expected a number of at most",
    ),
    ("preference with more", {"prefer": [{"selector": "a", "w": 1}]}, "prefer[0]: no such field: 'w'; there are"),
    (
        "an affinity's field",
        {"anti_affinity": [{"cluster": "a"}]},
        "anti_affinity[0]: no such field: 'cluster'; there are instances, topology",
    ),
    ("nearly one", {"tolerations": [{"effct": "a"}]}, "tolerations[0]: no such field: 'effct'; did you mean effect?"),
    (
        "rules too long",
        {"selector": "a" * 16_000, "prefer": [{"selector": "b" * 385}]},
        "selector, prefer, affinity, anti_affinity and tolerations: 16385 characters in all, at most 16384",
    ),
    ("affinity without instances", {"affinity": [{}]}, "affinity[0]: 'instances' is missing"),
    (
        "no topology",
        {"affinity": [{"instances": {"app": "a"}, "topology": ""}]},
        "topology: expected machine, or a label",
    ),
    ("anti-affinity is text", {"anti_affinity": ["a"]}, "anti_affinity[0]: expected an object, got text"),
    ("unknown effect", {"tolerations": [{"effect": "x"}]}, "tolerations[0].effect: no such choice: 'x'"),
    ("window negative", {"window_s": -1}, "window_s: expected a whole number of 0 or more"),
    ("window is a fraction", {"window_s": 0.5}, "window_s: expected a whole number, got a number"),
    ("count zero", {"count": 0}, "count: expected a whole number of 1 or more"),
    ("count too large", {"count": 10_001}, "count: expected a whole number of at most 10000"),
    ("top zero", {"top": 0}, "top: expected a whole number of 1 or more"),
    ("explain is text", {"explain": "yes"}, "explain: expected true or false, got text"),
    ("no lifetime", {"ttl_s": 0}, "ttl_s: expected a number above 0"),
    ("ports too many", {"ports": [1] * 65}, "ports: expected a list of at most 64, got 65"),
    ("data labels too many", {"data_labels": ["a"] * 257}, "data_labels: expected a list of at most 256, got 257"),
    ("preferences too many", {"prefer": [{"selector": "a"}] * 33}, "prefer: expected a list of at most 32, got 33"),
    ("rules too many", {"anti_affinity": [{"instances": {}}] * 33}, "anti_affinity: expected a list of at most 32"),
    ("affinity too many", {"affinity": [{"instances": {}}] * 33}, "affinity: expected a list of at most 32, got 33"),
    ("tolerations too many", {"tolerations": [{}] * 129}, "tolerations: expected a list of at most 128, got 129"),
    ("labels too many", {"labels": {f"{n}": "" for n in range(65)}}, "labels: expected an object of at most 64"),
    ("label too long", {"labels": {"a": "b" * 254}}, "labels[...]: expected text of at most 253 characters, got 254"),
    ("labels too long", {"labels": {f"{n}": "b" * 253 for n in range(40)}}, "labels: 10190 characters in all, at most"),
    ("selector too long", {"selector": "a" * 16_385}, "selector: expected text of at most 16384 characters, got 16385"),
    ("cluster too long", {"cluster": "a" * 254}, "cluster: expected text of at most 253 characters, got 254"),
    ("data label too long", {"data_labels": ["a" * 508]}, "data_labels[0]: expected text of at most 507 characters"),
    ("amount too long", {"cpu": "1" * 65}, "cpu: expected text of at most 64 characters, got 65"),
    ("lifetime over a day", {"ttl_s": 86_401}, "ttl_s: expected a number of at most 86400"),
]


@pytest.mark.parametrize(("name", "params", "wanted"), WRONG, ids=[row[0] for row in WRONG])
def test_a_wrong_request_names_the_field(name, params, wanted):
    """The field first, then what was expected and what came."""
    with pytest.raises(InvalidRequest) as error:
        read_request(params)
    assert str(error.value).startswith(wanted), name


@pytest.mark.parametrize(
    ("length", "params"),
    [
        (5, {"prefer": [{"selector": "aa"}, {"selector": "bbb"}]}),
        (7, {"affinity": [{"instances": {"a": "bb"}, "topology": "zone"}]}),
        (8, {"anti_affinity": [{"instances": {"a": "bb", "c": ""}, "topology": "zone"}]}),
        (12, {"anti_affinity": [{"instances": {"app": "bb"}}]}),
        (8, {"tolerations": [{"key": "gpu", "value": "a"}, {"key": "disk"}, {}]}),
    ],
)
def test_every_rule_counts_for_the_length_of_all(length, params):
    """The characters of each rule are counted, with those of the selector: at most so many, and not one more."""
    read_request({"selector": "a" * (RULES_LENGTH_MAX - length), **params})
    with pytest.raises(
        InvalidRequest, match=rf": {RULES_LENGTH_MAX + 1} characters in all, at most {RULES_LENGTH_MAX}"
    ):
        read_request({"selector": "a" * (RULES_LENGTH_MAX - length + 1), **params})


def test_all_labels_together_have_a_length():
    """Keys and values of all labels, of an instance's request: so many characters, and not one more."""
    labels = {f"{n:03}": "b" * 253 for n in range(LABELS_LENGTH_MAX // 256 - 1)}
    rest = LABELS_LENGTH_MAX - 256 * len(labels) - 2
    read_request({"labels": {**labels, "c": "d" * (rest // 2), "e": "f" * (rest - rest // 2)}})
    with pytest.raises(InvalidRequest, match=f"labels: {LABELS_LENGTH_MAX + 1} characters in all"):
        read_request({"labels": {**labels, "c": "d" * (rest // 2), "e": "f" * (rest - rest // 2 + 1)}})


def test_an_empty_request_is_best_effort():
    assert read_request({}) == Request()
    assert read_request({}).amounts() == (0.0,) * len(RESOURCES)
    assert read_request({"cpu": 0, "memory": None}).given_amounts()[:2] == (0.0, None)


@given(params=json_values | st.dictionaries(st.sampled_from(Request.__struct_fields__), json_values, max_size=4))
def test_any_json_is_a_request_or_refused(params):
    """Nothing else is raised, and what is read can be read again."""
    try:
        got = read_request(params)
    except InvalidRequest as error:
        assert str(error)
    else:
        assert read_request(msgspec.to_builtins(got)) == got


def test_a_query_without_params_has_an_empty_object():
    query = msgspec.json.decode(b'{"id":"q","method":"health","more":1}', type=Query)
    assert bytes(query.params) == b"{}"
    assert query.v == 1


def without_bound(schema, defs, path="$"):
    """Where a text, a list or a map of a JSON Schema may be of any size."""
    if "$ref" in schema:
        return without_bound(defs[schema["$ref"].rsplit("/", 1)[1]], defs, path)
    found = []
    kind = schema.get("type")
    if kind is None and not schema.keys() & {"anyOf", "enum", "const"}:
        found.append(f"{path}: anything")
    if kind == "string" and "maxLength" not in schema:
        found.append(f"{path}: a text")
    if kind == "array":
        found += [f"{path}: a list"] * ("maxItems" not in schema) + without_bound(schema["items"], defs, f"{path}[]")
    if kind == "object" and "properties" in schema:
        for name, part in schema["properties"].items():
            found += without_bound(part, defs, f"{path}.{name}")
    elif kind == "object" and "title" not in schema:
        found += [f"{path}: a map"] * ("maxProperties" not in schema)
        found += without_bound(schema.get("additionalProperties", {}), defs, f"{path}{{}}")
        found += [f"{path}: a key"] * ("maxLength" not in schema.get("propertyNames", {}))
    for part in schema.get("anyOf", ()):
        found += without_bound(part, defs, path)
    return found


def of(kind):
    schema = msgspec.json.schema(kind)
    return without_bound(schema, schema.get("$defs", {}))


@pytest.mark.parametrize("method", RPC)
def test_every_text_and_list_has_a_largest_size(method):
    assert of(RPC[method].parameters) == []
    name = "request" if RPC[method].parameters is Request else f"{method}.params"
    assert '"additionalProperties": false' in schema_file(f"{name}.v1.schema.json")


class Loose(msgspec.Struct):
    text: str
    texts: tuple[str, ...]
    by_name: dict[str, float]
    maybe: str | None = None
    anything: Any = None


def test_what_has_no_bound_is_found():
    found = [
        "$.text: a text", "$.texts: a list", "$.texts[]: a text", "$.by_name: a map", "$.by_name: a key",
        "$.maybe: a text", "$.anything: anything",
    ]  # fmt: skip
    assert of(Loose) == found


def test_the_largest_names_are_taken():
    """An id with the number of a batch of 10,000 is confirmed and updated, too."""
    longest = "x" * 253 + "-10000"
    assert msgspec.convert({"id": longest}, Update).id == longest


KINDS = {name: kind for name, kind in vars(results).items() if isinstance(kind, type(msgspec.Struct))}


@pytest.mark.parametrize("name", KINDS)
def test_a_field_that_an_answer_leaves_out_is_nothing(name):
    """A scorer of before does not say the newest ones; the class of an instance that none is said of is prod."""
    for field in msgspec.structs.fields(KINDS[name]):
        if not field.required:
            left_out = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            assert left_out == "prod" if field.name == "priority_class" else not left_out, field.name
