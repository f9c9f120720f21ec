"""The ledger's format: the newest golden ledger is read and written, a newer one is refused in words."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.ledger.record.transition import FORMAT, Candidate, Change, UnknownFormat
from scorer.ledger.store import scripts
from scorer.ledger.store.check import Check
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.script_text import script_text
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.scorer.test_rpc import scorer_process
from tests.scorer.ledger.golden_ledger import GOLDEN, clock, dump, fill, load, newest, wanted
from tests.window_tables import publish, window_table


def test_what_the_scripts_write_is_the_golden_ledger(wire: Wire, names: Names) -> None:
    """Every key, record, sum and log entry; a change of the format has to write the file anew."""
    fill(wire, names)
    assert dump(wire, names) == json.loads((GOLDEN / f"ledger.v{FORMAT}.json").read_text())


def goes_on(wire: Wire, names: Names, folder: Path) -> None:
    """Load the newest golden ledger of a folder; read it, take every kind of step on it, and end all that is there."""
    load(wire, names, json.loads(newest(folder).read_text()))
    ledger = Ledger(wire, names, time_source=clock(20))
    follower = Follower(ledger)
    follower.poll()
    follower.require()
    live = ledger.all_instances()
    assert follower.view.instances == live
    assert live["moves"].moving is not None
    assert live.keys() == {"reserved", "plain", "stays", "moves", "grows", "left", "found"}
    assert (live["grows"].moving is not None, live["grows"].labels) == (True, {"app": "é", "moving": '"new":{\n}}'})
    assert len(ledger.leavers()) == len(follower.view.leavers) == 3
    assert Check(ledger).run().differences == []
    assert ledger.reserve([wanted("reserved", "m1")]).outcomes[0].kind == "known"
    assert ledger.reserve([wanted("more", "m1")]).outcomes[0].reasons == ("port 6379 taken",)
    assert ledger.release("expired").outcomes[0].kind == "repeat"
    assert ledger.confirm("reserved", generation=1).outcomes[0].kind == "done"
    assert ledger.confirm("moves", machine="m8", move=live["moves"].moving.number).outcomes[0].kind == "done"
    (grown,) = ledger.confirm("grows", machine="m9").changes
    assert (grown.maxmemory, grown.labels) == (9.0, live["grows"].labels)
    (left,) = ledger.begin_move(live["left"], [Candidate("m1", -1)], 60.0).changes
    ledger.update([Change(left, msgspec.structs.replace(left, ports=(1,)), [Candidate("m9", -1), Candidate("m1", -1)])])
    assert ledger.rename("m0", "m4", ledger.machine_versions()["m0"], ["stays"])
    follower.poll()
    assert follower.view.instances == ledger.all_instances()
    assert Check(ledger).run().differences == []
    late = Ledger(wire, names, time_source=clock(7200))
    for one in ledger.all_instances():
        late.release(one)
    ended = [late.find(name) for name in live]
    assert {one.state for one in ended if one} == {"released", "expired"}
    parts = ("instances", "expiry", "machines", "counts", "clusters", "moving")
    assert [wire.one("EXISTS", names.ledger(part)) for part in parts] == [0] * len(parts)


def test_the_newest_golden_ledger_is_read_and_written(wire: Wire, names: Names) -> None:
    """A scorer of this release goes on with it where the one that wrote it stopped."""
    goes_on(wire, names, GOLDEN)


def of_format_2(folder: Path) -> None:
    """Write the golden ledger of this format, and one of a format that might follow, which has more of everything."""
    state: dict[str, Any] = json.loads(newest().read_text())
    (folder / "ledger.v1.json").write_text(json.dumps(state))
    state["head"] |= {"format": "2", "newer": "x"}
    state["instances"] = {
        name: record.replace('"generation":', '"newer":[{"x":null}],"generation":').replace("\n", ' "tape":7,\n', 1)
        for name, record in state["instances"].items()
    }
    state["newer"] = {"a": "1"}
    (folder / "ledger.v2.json").write_text(json.dumps(state))


def test_a_format_that_follows_is_read_and_written_by_its_release(
    wire: Wire, names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an invented format 2 the same steps take its golden ledger; left at format 1, a release is refused."""
    of_format_2(tmp_path)
    with pytest.raises(UnknownFormat, match="has format 2, this release knows format 1"):
        goes_on(wire, Names(f"{names.prefix}-refused"), tmp_path)
    monkeypatch.setattr(scripts, "script_text", partial(script_text, FORMAT="'2'"))
    monkeypatch.setattr(scripts, "_FORMAT", b"2")
    goes_on(wire, names, tmp_path)
    assert wire.one("HGET", names.ledger("head"), "newer") == b"x"


def test_a_newer_ledger_is_refused_in_words(wire: Wire, names: Names, valkey: Valkey) -> None:
    """A scorer says which format is there and which it knows, writes nothing, and serves when it may again."""
    publish(wire, names, [window_table(["m0"], at=time.time() + 60)])
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=30) as client:
        client.place(id="a", cpu=1)
        key = names.ledger("head")
        wire.one("HSET", key, "format", 2)
        before = {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")}
        calls: list[Callable[[], object]] = [
            lambda: client.place(id="b", cpu=1, timeout_s=1),
            lambda: client.confirm("a", timeout_s=1),
            lambda: client.rank(cpu=1, timeout_s=1),
        ]
        for call in calls:
            with pytest.raises(WindwardError) as refused:
                call()
            assert refused.value.code == "UNAVAILABLE"
            assert "has format 2, this release knows format 1" in refused.value.message
        health = client.health()
        assert not health["ready"]
        assert "has format 2" in health["ledger_refusal"]
        ledger, one = Ledger(wire, names), wanted("c", "m0")
        steps: list[Callable[[], object]] = [
            lambda: ledger.reserve([one]), lambda: ledger.confirm("a"), lambda: ledger.release("a"),
            lambda: ledger.update([Change(one.instance, one.instance, [])]), lambda: ledger.cancel_move(one.instance),
            ledger.expire, ledger.open, lambda: ledger.correct([one.instance]), lambda: ledger.lease("x", "y", 1.0),
            lambda: ledger.rename("m0", "m1", 1, ["a"]),
        ]  # fmt: skip
        for step in steps:
            with pytest.raises(UnknownFormat, match="format 2"):
                step()
        assert {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")} == before
        wire.one("HSET", key, "format", 1)
        assert client.confirm("a")["state"] == "confirmed"
        assert client.health()["ready"]
