"""The flags of a request: what is sent, and what wins."""

import dataclasses
import json

import msgspec
import pytest

from schemas.process.settings import SettingsError, load_settings
from schemas.process.tables import Screen
from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.client import Candidate, RankResult, UpdateResult
from scorer.commands.instances.update import UpdateSettings
from scorer.commands.instances.update import main as update
from scorer.commands.placing.place import PlaceSettings
from scorer.commands.placing.rank import RankSettings
from scorer.commands.placing.ranked import candidates, ranking
from scorer.commands.shared import ask


def sent(*flags, kind=PlaceSettings):
    return load_settings(kind, "place", flags, {}).request()


@pytest.mark.parametrize(
    ("flags", "params"),
    [
        pytest.param([], {}, id="none"),
        pytest.param(["--top", "5"], {"top": 5}, id="a number of machines"),
        pytest.param(["--top", str(Request().top)], {"top": Request().top}, id="the default"),
        pytest.param(["--count", "1"], {"count": 1}, id="one instance"),
        pytest.param(["--cluster-masters", "0"], {"cluster_masters": 0}, id="zero"),
        pytest.param(["--machine", ""], {"machine": ""}, id="empty text"),
        pytest.param(["--no-dry-run"], {"dry_run": False}, id="no"),
        pytest.param(["--ports", "1", "--ports", "2"], {"ports": (1, 2)}, id="a list"),
        pytest.param(["--labels", "a=b,c=d"], {"labels": {"a": "b", "c": "d"}}, id="pairs"),
    ],
)
def test_what_is_given_is_sent_and_nothing_else(flags, params):
    assert sent(*flags) == params


BY_RACK = ("--apart-by", "rack")


@pytest.mark.parametrize(
    ("flags", "rules"),
    [
        (["--apart"], [{"topology": "machine"}]),
        (["--apart", "--at-most", "2"], [{"topology": "machine", "others": 1}]),
        ([*BY_RACK, "--at-most", "1"], [{"topology": "rack"}]),
        (["--apart", *BY_RACK, "--at-most", "3"], [{"topology": "machine"}, {"topology": "rack", "others": 2}]),
        ([*BY_RACK, "--share", "0.5"], [{"topology": "rack", "share": 0.5}]),
        ([*BY_RACK, "--skew", "1"], [{"topology": "rack", "skew": 1}]),
    ],
)
def test_members_apart(flags, rules):
    expected = [{"instances": {"cluster": "a"}, **rule} for rule in rules]
    assert sent("--cluster", "a", *flags)["anti_affinity"] == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--apart"], "give --cluster"),
        (["--cluster", "a", "--skew", "1"], "give --apart or --apart-by LABEL"),
        (["--cluster", "a", "--apart", "--share", "0"], "share: expected a number above 0"),
        (["--cluster", "a", "--apart", "--skew", "0"], "skew: expected a whole number of 1 or more"),
    ],
)
def test_members_apart_need(flags, message):
    with pytest.raises(SettingsError, match=message):
        sent(*flags)


def test_flags_win_over_the_file(tmp_path):
    file = tmp_path / "query.json"
    file.write_text(json.dumps({"cpu": 8, "top": 9, "dry_run": True, "kind": "redis"}))
    assert sent("--query", str(file)) == {"cpu": 8, "top": 9, "dry_run": True, "kind": "redis"}
    assert sent("--query", str(file), "--cpu", "2", "--top", "3", "--no-dry-run") == {
        "cpu": "2", "top": 3, "dry_run": False, "kind": "redis",
    }  # fmt: skip


def test_a_file_that_holds_no_request_is_refused(tmp_path):
    file = tmp_path / "query.json"
    for text, message in (("[]", "holds no JSON object"), ("{", "cannot be read as JSON")):
        file.write_text(text)
        with pytest.raises(SettingsError, match=rf"^query: .*query\.json {message}"):
            sent("--query", str(file))


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_resource_has_its_flag(resource, monkeypatch):
    for kind in (PlaceSettings, RankSettings):
        assert sent(f"--{resource}", "3G", kind=kind) == {resource: "3G"}
    asked = []
    answer = UpdateResult(id="one", machine="m", state="confirmed", amounts=[], repeated=True)
    monkeypatch.setattr(ask, "read", lambda _settings, _kind, _method, params: asked.append(params) or answer)
    update(["one", f"--{resource}", "3G"], {})
    assert asked == [{"id": "one", "dry_run": False, "move": False, "cancel_move": False, resource: "3G"}]


def test_memory_without_a_unit_is_refused():
    """Ten bytes are never meant; what is written in whole bytes is."""
    for kind in (PlaceSettings, RankSettings):
        with pytest.raises(SettingsError, match="memory: 10 is 10 bytes; did you mean 10G or 10M"):
            sent("--memory", "10", kind=kind)
        assert sent("--memory", "8589934592", kind=kind) == {"memory": "8589934592"}
    with pytest.raises(SettingsError, match="memory: 10 is 10 bytes"):
        update(["one", "--memory", "10"], {})


@pytest.mark.parametrize("kind", [PlaceSettings, RankSettings, UpdateSettings])
def test_a_flag_is_off_until_it_is_given(kind):
    given = {field.name for field in dataclasses.fields(kind)} & {*Request.__struct_fields__, "swap_role_with"}
    defaults = {field.name: field.default for field in dataclasses.fields(kind) if field.name in given - {"id"}}
    if kind is UpdateSettings:
        defaults.pop("dry_run")
    assert set(defaults.values()) == {None}


def answer(**request):
    terms = {"mean": 2e6, "std": 1e6, "credit": 0.0, "request": 4e6, "allocatable": 8e6}
    machine = Candidate(
        machine="m1", score=50.0, risk=0.25, scores={}, resources=dict.fromkeys(RESOURCES, terms), window_s=300.0,
        coverage=1.0, warming=False, age_s=3.0, instances=0,
    )  # fmt: skip
    asked = dict.fromkeys(RESOURCES, 0.0) | request
    return RankResult(candidates=[machine], request=asked, summary="1/1 feasible")


@pytest.mark.parametrize(
    ("request_", "shares", "amounts"),
    [
        pytest.param({}, ["cpu", "memory", "nic"], ["cpu", "memory"], id="nothing requested"),
        pytest.param({"cpu": 2.0}, ["cpu", "memory", "nic"], ["cpu", "memory"], id="cpu"),
        pytest.param({"nic": 1e6}, ["cpu", "memory", "nic"], ["cpu", "memory", "nic"], id="nic"),
        pytest.param(
            {RESOURCES[-1]: 1.0},
            list(dict.fromkeys(["cpu", "memory", "nic", RESOURCES[-1]])),
            list(dict.fromkeys(["cpu", "memory", RESOURCES[-1]])),
            id="the last resource",
        ),
    ],
)
def test_tables_show_what_was_requested(request_, shares, amounts):
    """The columns of the other resources would only make the table wide."""
    headings = candidates(answer(**request_)).splitlines()[0]
    assert [name for name in RESOURCES if f"  {name} then" in headings] == shares
    assert [name for name in RESOURCES if f"{name} mean" in headings] == amounts


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_no_width_cuts_a_name_or_a_score(width):
    found = answer(cpu=2.0)
    found.candidates = [msgspec.structs.replace(found.candidates[0], machine=f"rack-17-node-{n:05}") for n in range(3)]
    shown = candidates(found, Screen(width)).splitlines()
    assert all(len(line) <= width for line in shown)
    assert shown[0].split()[:2] == ["machine", "score"]
    assert {"cpu", "memory"} <= set(shown[0].split())
    assert shown[1].split()[:2] == ["rack-17-node-00000", "50.00"]
    assert "--wide" in shown[-1]


def test_a_name_longer_than_the_terminal_is_written_whole():
    found = answer()
    found.candidates[0].machine = "m" * 100
    assert "m" * 100 in candidates(found, Screen(80))


def test_a_ranking_without_explanation_or_warnings_is_a_table_and_the_summary():
    """A scorer sends null for the verdicts when they were not asked for."""
    found = answer()
    assert found.machines is None
    assert ranking(found) == f"{candidates(found)}\n1/1 feasible"


def test_an_empty_list_of_names_is_no_line(capsys):
    ask.tell(RankSettings(), [], lambda _, __: "")
    assert capsys.readouterr().out == ""
    ask.tell(RankSettings(), ["a"], lambda found, _: "\n".join(found))
    assert capsys.readouterr().out == "a\n"


def test_a_reader_that_left_is_no_server_that_is_away(monkeypatch):
    """A broken pipe is an OSError, as that of a server is: it ends the command, and nothing is said of Redis."""

    def broken(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", broken)
    with pytest.raises(SystemExit) as left:
        ask.run(RankSettings(), "rank", lambda settings: ask.tell(settings, ["a"], lambda _, __: "a") or 0)
    assert isinstance(left.value.__context__, BrokenPipeError)
