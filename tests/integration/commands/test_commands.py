"""The commands that ask a scorer: output, JSON, exit codes."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
import redis

from schemas.messages.process import Process
from schemas.names import FORGOTTEN_S, RING_SLOTS, Names
from streams.fold.ring import Ring
from streams.state.checkpoint import encode_position, encode_vitals
from tests.integration.scorer.test_rpc import FRESH_S, MACHINES, planner_process, scorer_process
from tests.support.in_process import run_command
from tests.support.pages import eventually
from tests.window_tables import publish, window_table


@pytest.fixture(scope="module")
def windward(valkey):
    """A function that runs a command against a scorer of ten machines, in this process: a start takes half a second."""
    names = Names(f"commands-{os.getpid()}")
    publish(valkey.url, names, [window_table(MACHINES, at=time.time() + FRESH_S)])
    environ = {"WINDWARD_REDIS_URL": valkey.url, "WINDWARD_PREFIX": names.prefix, "WINDWARD_TIMEOUT": "60"}

    def run(*words, **more):
        return run_command(*words, environ=environ | more)

    with planner_process(valkey.url, names, "--every", "0"), scorer_process(valkey.url, names):
        with redis.Redis.from_url(valkey.url) as server:
            eventually(lambda: server.zcard(names.planners))
        eventually(lambda: run("health").returncode == 0)
        yield run


def test_place_confirm_update_release(windward):
    """The whole life by commands: 0 each time, the same machine said each time."""
    placed = windward("place", "--id", "one", "--cpu", "2", "--memory", "10G", "--labels", "app=x", "--json")
    assert placed.returncode == 0
    machine = json.loads(placed.stdout)["machine"]
    assert f"one placed on {machine}: reserved for 5m (as before)" in windward(
        "place", "--id", "one", "--cpu", "2", "--memory", "10G", "--labels", "app=x"
    ).stdout  # fmt: skip
    assert windward("confirm", "one").stdout.strip() == f"one on {machine}: confirmed"
    assert "updated" in windward("update", "one", "--cpu", "3").stdout
    listed = windward("instances", "--machine", machine, "--labels", "app=x")
    assert "one" in listed.stdout
    assert json.loads(windward("instances", "show", "one", "--json").stdout)["cpu"] == 3.0
    tried = windward("release", "one", "--dry-run")
    assert tried.stdout.strip() == f"one on {machine}: released (tried only)"
    assert windward("release", "one").stdout.strip() == f"one on {machine}: released"
    assert windward("release", "one").stdout.strip() == f"one on {machine}: released (already)"
    generation = str(json.loads(placed.stdout)["generation"])
    again = windward("place", "--id", "one", "--cpu", "2", "--memory", "10G", "--labels", "app=x", "--json")
    assert (again.returncode, json.loads(again.stdout)["state"]) == (0, "reserved")
    late = windward("confirm", "one", "--generation", generation)
    assert late.returncode == 1
    assert "FAILED_PRECONDITION: 'one' is another reservation by now" in late.stderr
    assert windward("release", "one").returncode == 0


def test_the_exit_code_is_that_of_the_process(valkey):
    """What the command returns, the shell sees; the other tests here start no process."""
    command = [sys.executable, "-m", "ops.cli.main", "health", "--timeout", "0.2", "--prefix", "elsewhere"]
    done = subprocess.run(
        [*command, "--redis-url", valkey.url], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (4, "", 1)


def test_exit_codes(windward):
    """3 when no machine fits, 2 for a wrong flag, 1 for a refused call, 4 without an answer."""
    assert windward("place", "--cpu", "1000").returncode == 3
    assert windward("place", "--cpu", "lots").returncode == 2
    assert windward("confirm", "nobody").returncode == 1
    assert windward("confirm").returncode == 2
    unanswered = windward("place", "--cpu", "1", "--timeout", "0.2", WINDWARD_PREFIX="elsewhere")
    assert unanswered.returncode == 4
    assert "is a scorer running" in unanswered.stderr
    assert len(unanswered.stderr.splitlines()) == 1


def test_an_amount_that_is_not_asked_is_told(windward):
    """A batch job without memory is placed, with a warning; not where it was said to be meant."""
    bare = ("place", "--cpu", "1", "--dry-run")
    assert "warning: no memory is asked: no room of it is kept" in windward(*bare).stdout
    assert json.loads(windward(*bare, "--json").stdout)["warnings"][0].startswith("no memory is asked")
    for more in (("--memory", "1G"), ("--maxmemory", "1G"), ("--best-effort",)):
        assert "is asked:" not in windward(*bare, *more).stdout


def test_many_are_confirmed_and_released_by_globs_and_labels(windward):
    """Tried first; a glob of `confirm` means reservations; one that is not there does not stop the others."""
    windward("place", "--id", "many", "--cpu", "1", "--memory", "1M", "--count", "3", "--labels", "team=many",
             "--cluster", "crowd")  # fmt: skip
    ids = [f"many-{number}" for number in (1, 2, 3)]
    tried = windward("confirm", "many-*", "--dry-run")
    assert [line.split()[0] for line in tried.stdout.splitlines()] == ids
    assert tried.stderr == "3 instances: tried only\n"
    shown = json.loads(windward("instances", "--labels", "team=many", "--json").stdout)["instances"]
    assert {one["state"] for one in shown} == {"reserved"}
    assert windward("instances", "-o", "name", "--labels", "team=many").stdout.split() == ids
    assert windward("instances", "-o", "name", "--selector", "team in (many, few)").stdout.split() == ids
    assert windward("instances", "-o", "name", "--selector", "team!=many,team").stdout.split() == []
    assert windward("instances", "-o", "name", "--selector", "cluster=crowd,!role").stdout.split() == ids
    assert "selector" in windward("instances", "--selector", "team in (").stderr
    assert "--labels" not in windward("instances", "list", "--help").stdout
    assert windward("confirm", "many-1").returncode == 0
    done = windward("confirm", "--selector", "team in (many)")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ids[1:]
    for word in (("many-*",), ("--selector", "team=many"), ("--selector", "cluster=crowd")):
        again = windward("confirm", *word)
        assert (again.returncode, again.stdout) == (0, "")
        assert again.stderr == f"3 instances of {word[-1]!r}: confirmed already\n"
    assert windward("confirm", "many-1").stdout.endswith(": confirmed (already)\n")
    assert "no reservation matches 'none-*'" in windward("confirm", "none-*").stderr
    assert windward("release", "*").returncode == 2
    mixed = windward("release", "never-there", "many-[12]", "many-1", "many-3")
    assert (mixed.returncode, [line.split()[0] for line in mixed.stdout.splitlines()]) == (1, ids)
    again = windward("release", "many-*")
    assert (again.returncode, again.stdout) == (0, "")
    assert "no instance matches 'many-*': released already" in again.stderr
    assert windward("release", "many-1").stdout.endswith(": released (already)\n")
    assert windward("release", "many-1", "many-2", "--generation", "1").returncode == 2


def test_members_of_a_cluster_stay_apart(windward):
    """As many as there are machines; the answer says until when all are reserved."""
    asked = ("place", "--cpu", "1", "--memory", "1M", "--cluster", "far")
    placed = windward(*asked, "--apart", "--count", str(len(MACHINES)))
    assert f"{len(MACHINES)} of {len(MACHINES)} instances placed: reserved for 5m" in placed.stdout
    assert windward(*asked, "--apart").returncode == 3
    rows = json.loads(windward("instances", "--cluster", "far", "--json").stdout)["instances"]
    assert len({one["machine"] for one in rows}) == len(MACHINES) == len(rows)
    assert rows[0]["rules"]["anti_affinity"] == [{"instances": {"cluster": "far"}, "topology": "machine"}]
    assert "no machine has the label 'rack'" in windward(*asked, "--apart-by", "rack", "--dry-run").stdout
    assert windward("place", "--cpu", "1", "--memory", "1M", "--apart").returncode == 2
    windward("release", *(one["id"] for one in rows))


def test_what_instances_lists_can_be_imported(windward, tmp_path):
    """Nothing differs; a reservation is left alone; a part of the list is refused. Amounts have one shape."""
    rules = {"anti_affinity": [{"instances": {"app": "x"}}], "limits": {"cpu": 4}, "expected": {"cpu": 0.5}}
    (tmp_path / "query.json").write_text(json.dumps({"labels": {"app": "x"}, "ports": [7], "kind": "k", **rules}))
    full = ("place", "--query", str(tmp_path / "query.json"), "--cpu", "2", "--memory", "1M")
    windward(*full, "--id", "listed-1")
    windward(*full, "--id", "listed-2")
    confirmed = json.loads(windward("confirm", "listed-1", "--json").stdout)
    assert (confirmed["cpu"], confirmed["memory"], confirmed["amounts"][:2]) == (2.0, 1e6, [2.0, 1e6])
    listed = tmp_path / "listed.json"
    listed.write_text(windward("instances", "--json").stdout)
    found = windward("instances", "import", str(listed))
    assert "0 added, 0 changed, 0 gone, " in found.stdout, found
    windward("release", "listed-1")
    assert windward("instances", "import", str(listed), "--apply").returncode == 0
    assert "0 added, 0 changed, 0 gone" in windward("instances", "import", str(listed)).stdout
    listed.write_text(windward("instances", "--limit", "1", "--json").stdout)
    assert "1 of 2 instances: list all" in windward("instances", "import", str(listed)).stderr
    windward("release", "listed-1", "listed-2")


def test_place_tells_the_table_and_the_reason(windward):
    """For people: where, the best machines with their terms, and why others were refused."""
    shown = windward("place", "--cpu", "2", "--dry-run").stdout
    for word in ("would be placed on", "cpu mean", "risk", "10/10 feasible"):
        assert word in shown
    assert "0/10 feasible" in windward("place", "--cpu", "1000").stdout


@pytest.mark.parametrize("command", [("place", "--dry-run"), ("rank",)])
def test_as_many_machines_are_listed_as_were_asked_for(windward, command):
    answer = json.loads(windward(*command, "--cpu", "1", "--json", "--top", "5").stdout)
    assert len(answer["candidates"]) == 5


def test_rank_explains_what_the_scorer_answers(windward):
    """A running scorer's answer is told as one from files; a selector it cannot read is one line, exit 2."""
    shown = windward("rank", "--cpu", "2", "--explain")
    assert shown.returncode == 0
    assert "score  expected_overload" in shown.stdout
    refused = windward("rank", "--cpu", "2", "--selector", "rack in (a")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "selector: cannot read 'rack in (a'" in refused.stderr


def test_a_list_of_unlike_instances_from_a_file(windward, tmp_path):
    file = tmp_path / "query.json"
    file.write_text(json.dumps({"instances": [{"id": "f1", "cpu": 1}, {"id": "f2", "memory": "1G"}]}))
    done = windward("place", "--query", str(file))
    assert done.returncode == 0
    assert "2 of 2 instances placed" in done.stdout
    pages = [
        json.loads(windward("instances", "--limit", "1", "--json", *more).stdout) for more in ((), ("--after", "f1"))
    ]
    assert pages[0]["more"]
    assert pages[1]["instances"][0]["id"] > "f1"


def test_operators_word_is_heard(windward):
    """A cordoned, tainted or labelled machine is treated so at once."""
    assert windward("machines", "cordon", *MACHINES[:9]).returncode == 0
    eventually(lambda: json.loads(windward("place", "--cpu", "1", "--dry-run", "--json").stdout)["feasible"] == 1)
    assert json.loads(windward("place", "--cpu", "1", "--dry-run", "--json").stdout)["machine"] == MACHINES[9]
    windward("machines", "uncordon", *MACHINES[:9])
    assert windward("machines", "label", MACHINES[3], "disk=fast").returncode == 0
    chosen = eventually(
        lambda: json.loads(windward("place", "--best-effort", "--selector", "disk=fast", "--dry-run", "--json").stdout)[
            "machine"
        ]
    )
    assert chosen == MACHINES[3]
    windward("machines", "taint", MACHINES[3], "spare:refuse")
    eventually(lambda: windward("place", "--best-effort", "--selector", "disk=fast", "--dry-run").returncode == 3)
    shown = json.loads(windward("machines", "show", MACHINES[3], "--json").stdout)
    assert shown["labels"] == {"disk": "fast"}
    assert shown["taints"][0]["key"] == "spare"
    assert MACHINES[3] in windward("machines", "--labels", "disk=fast").stdout
    windward("machines", "forget", MACHINES[3], "--force")
    assert windward("machines", "set", MACHINES[3], '{"share": {"cpu": 0.5, "memory": 0.9}}').returncode == 0
    windward("machines", "forget", MACHINES[3], "--force")
    wrong = windward("machines", "set", MACHINES[3], '{"share": {"cpu": 7}}')
    assert wrong.returncode == 2
    assert "share" in wrong.stderr
    assert windward("machines", "label", MACHINES[3], "nonsense").returncode == 2
    assert windward("machines", "frobnicate").returncode == 2


def test_an_operator_s_typo_makes_no_machine(windward):
    """An unknown machine is refused with near names, unless it is said ahead; globs and selectors mean many."""
    wrong = windward("machines", "cordon", MACHINES[0] + "x")
    assert wrong.returncode == 1
    assert f"NOT_FOUND: no machine '{MACHINES[0]}x'; did you mean" in wrong.stderr
    assert MACHINES[0] in wrong.stderr
    assert windward("machines", "taint", "none-*", "a:refuse").returncode == 1
    ahead = windward("machines", "cordon", "to-come", "--ahead")
    assert (ahead.returncode, ahead.stdout) == (0, "to-come: cordoned\n")
    windward("machines", "forget", "to-come")
    eventually(lambda: windward("machines", "list", "-o", "name").stdout.split() == sorted(MACHINES))
    assert windward("machines", "label", MACHINES[3], MACHINES[4], "old-").returncode == 0
    many = windward("machines", "label", "m0*", "half=first")
    assert many.stdout.splitlines() == [f"{name}: label half=first" for name in MACHINES if name.startswith("m0")]
    eventually(
        lambda: (
            len(windward("machines", "list", "-o", "name", "--selector", "half=first").stdout.split())
            == len(many.stdout.splitlines())
        )
    )
    chosen = windward("machines", "label", "--selector", "half=first", "half-")
    assert len(chosen.stdout.splitlines()) == len(many.stdout.splitlines())
    failed = windward("machines", "cordon", "nobody", "--json")
    assert json.loads(failed.stderr)["code"] == "NOT_FOUND"
    wrong = windward("machines", "show", MACHINES[3] + "x")
    assert wrong.returncode == 1
    assert f"NOT_FOUND: no machine '{MACHINES[3]}x'; did you mean" in wrong.stderr


def test_machines_are_sorted_filtered_and_shown_in_columns(windward):
    names = windward("machines", "list", "-o", "name").stdout.split()
    assert names == sorted(MACHINES)
    assert windward("machines", "list", "-o", "name", "--reverse").stdout.split() == names[::-1]
    rows = json.loads(windward("machines", "list", "--sort", "cpu", "--json").stdout)["machines"]
    used = [row["resources"]["cpu"]["utilization"] for row in rows]
    assert used == sorted(used, reverse=True)
    assert windward("machines", "list", "--columns", "machine,age").stdout.split()[:2] == ["machine", "age"]
    assert windward("machines", "list", "--state", "cordoned").stdout.splitlines()[-1] == "0 of 0"
    assert "did you mean memory?" in windward("machines", "list", "--columns", "memroy").stderr


def test_instances_show_age_and_expiry(windward):
    windward("place", "--id", "aged", "--cpu", "1", "--ttl-s", "10m")
    row = next(line for line in windward("instances").stdout.splitlines() if line.startswith("aged "))
    assert "in 10m" in row or "in 9m" in row
    assert "expires" in windward("instances", "show", "aged").stdout
    windward("release", "aged")
    typo = windward("instances", "--machine", "m" + MACHINES[0])
    assert (typo.returncode, typo.stdout) == (1, "")
    assert f"no machine 'm{MACHINES[0]}'; did you mean {MACHINES[0]}" in typo.stderr


def test_top_names_the_process_at_fault_first(windward, valkey):
    """A worker that fell silent, an error; one of two scorers is not counted. Without any, nothing."""
    key, scorers = map(Names(f"commands-{os.getpid()}").processes, ("stream", "scorer"))
    gone = Process(host="h", pid=7, version="1", started=1.0, at=time.time() - 30)
    with redis.Redis.from_url(valkey.url) as server:
        server.hset(scorers, "h-7", gone.encode())
        assert "   1 scorer, " in windward("top", "--once").stdout
        server.hset(key, "h-7", gone.encode())
        assert windward("top", "--once").stdout.startswith("stream: not running: h-7 (process 7 of h), silent for 3")
        server.delete(key)
        server.hdel(scorers, "h-7")
    eventually(lambda: windward("top", "--once").stdout.startswith(f"{len(MACHINES)} machines"))  # the planner is ready


def test_the_machines_that_will_soon_be_hot_are_named(windward):
    """The table has as many machines as are wanted, the JSON all that was answered."""
    shown = windward("machines", "risk", "--top", "2", "--limit", "0.3", "--within", "30m").stdout
    assert re.search(r"^m\S+ +\d+% .*other \d+%$", shown, re.MULTILINE), shown
    assert "above 30% cpu within 30m; of" in shown
    told = json.loads(windward("machines", "risk", "--json").stdout)
    chances = [row["chance"] for row in told["machines"]]
    assert told["limit"] == 0.7
    assert chances == sorted(chances, reverse=True)
    assert chances


def test_a_machine_is_shown_with_all_windows_and_its_last_hour(windward, valkey):
    """What profiles compare is among it: the p95 of an hour; the history ends with the newest slot."""
    text = windward("machines", "show", MACHINES[3]).stdout
    assert re.search(r"cpu +1h +[\d.]+ +[\d.]+ .* \d+% +\d+% +\d+% +100%", text), text
    one = json.loads(windward("machines", "show", MACHINES[3], "--json").stdout)["windows"]["cpu"]["3600"]
    assert set(one) == {"mean", "std", "max", "coverage", "p50", "p90", "p95", "p99"}
    names, ring, head = Names(f"commands-{os.getpid()}"), Ring(), 180_000_000
    ring.add([MACHINES[3]])
    ring.head[0] = head
    for ago in (0, 1, 3):
        ring.n[0, 0, (head - ago) % RING_SLOTS] = 10
        ring.mean[0, 0, (head - ago) % RING_SLOTS] = 8.0 - 2 * ago
    with redis.Redis.from_url(valkey.url) as server:
        server.set(names.vitals(0), encode_vitals(ring))
        for position in range(RING_SLOTS):
            server.set(names.slots(0, position), encode_position(ring, position))
    told = json.loads(windward("machines", "history", MACHINES[3], "--since", "40s", "--json").stdout)
    assert told["slots"]["cpu"] == [2.0, None, 6.0, 8.0]
    assert told["until"] == (head + 1) * 10
    shown = windward("machines", "history", MACHINES[3], "--since", "40s")
    assert re.search(r"cpu .*▂ ▆█  2\.00 \(\d+%\) to 8\.00 \(\d+%\), now 8\.00", shown.stdout), shown
    assert "has no samples of machine" in windward("machines", "history", MACHINES[4]).stderr


def test_explain_is_of_the_machines_listed_or_of_one(windward):
    top = json.loads(windward("rank", "--cpu", "1", "--top", "2", "--explain", "--json").stdout)
    assert [one["machine"] for one in top["machines"]] == [one["machine"] for one in top["candidates"]]
    one = json.loads(windward("rank", "--cpu", "1", "--explain", MACHINES[7], "--json").stdout)
    assert [each["machine"] for each in one["machines"]] == [MACHINES[7]]
    everything = json.loads(windward("rank", "--cpu", "1", "--explain", "--all", "--json").stdout)
    assert len(everything["machines"]) == len(MACHINES)
    assert windward("rank", "--cpu", "1", "--explain", "nobody").returncode == 2


def test_what_a_newer_release_said_of_a_machine_is_kept(windward, valkey):
    """After a rollback the rest of an entry holds and can be changed; what is not known stays as it is."""
    names = Names(f"commands-{os.getpid()}")
    with redis.Redis.from_url(valkey.url) as server:
        server.hset(names.operator, MACHINES[6], json.dumps({"reserve": {"tape": 3}, "labels": {"bay": "6"}}))
        server.incr(names.operator_version)
        assert windward("machines", "cordon", MACHINES[6]).returncode == 0
        stored = json.loads(server.hget(names.operator, MACHINES[6]) or "")
        assert stored == {"reserve": {"tape": 3}, "labels": {"bay": "6"}, "cordon": True}
    wrong = windward("machines", "set", MACHINES[6], '{"share": {"tape": 1}}')
    assert (wrong.returncode, "tape" in wrong.stderr) == (2, True)
    assert windward("machines", "forget", MACHINES[6], "--force").returncode == 0


def test_a_live_machine_is_not_forgotten(windward):
    """It would come back with its next sample, without its rules; with --force it is, and that is said."""
    windward("machines", "label", MACHINES[6], "x=y")
    refused = windward("machines", "forget", MACHINES[6], MACHINES[5])
    assert refused.returncode == 1
    assert f"FAILED_PRECONDITION: agents send for '{MACHINES[6]}' and 1 other (its newest" in refused.stderr
    assert refused.stderr.endswith("stop the agent first, or --force\n")
    assert "label x=y" in windward("machines", "label", MACHINES[6], "y=z").stdout, "its rules are there"
    forced = windward("machines", "forget", MACHINES[6], "--force")
    assert (forced.returncode, forced.stdout) == (0, f"{MACHINES[6]}: forgotten\n")
    assert "the next sample brings each back" in forced.stderr


@pytest.mark.parametrize("facts", [b"[1]", b"\xff", b'{"host_id": 7}'])
def test_a_machine_whose_facts_cannot_be_read_is_forgotten(windward, valkey, facts):
    names = Names(f"commands-{os.getpid()}")
    with redis.Redis.from_url(valkey.url) as server:
        server.hset(names.facts(0), "junk", facts)
        found = windward("machines", "forget", "junk")
        server.hdel(names.facts(0), "junk")
    assert (found.returncode, found.stdout, found.stderr) == (0, "junk: forgotten\n", "")


def test_a_machine_with_instances_is_not_forgotten(windward, valkey):
    """Nor another that is named with it; with --force both are, and the stream app is told when."""
    names = Names(f"commands-{os.getpid()}")
    windward("machines", "label", MACHINES[8], "x=y")
    assert windward("place", "--id", "there", "--cpu", "1", "--machine", MACHINES[7]).returncode == 0
    refused = windward("machines", "forget", MACHINES[8], MACHINES[7])
    assert refused.returncode == 1
    assert "FAILED_PRECONDITION: instances are there: " in refused.stderr
    with redis.Redis.from_url(valkey.url) as server:
        assert server.hexists(names.operator, MACHINES[8])
        before = time.time()
        assert windward("machines", "forget", MACHINES[8], MACHINES[7], "--force").returncode == 0
        assert not server.hexists(names.operator, MACHINES[8])
        moments = {name.decode(): float(raw) for name, raw in server.hgetall(names.forgotten).items()}
        assert moments.keys() >= {MACHINES[7], MACHINES[8]}
        assert all(before - 1 < moments[name] < time.time() + 1 for name in MACHINES[7:9])
        assert 0 < server.ttl(names.forgotten) <= FORGOTTEN_S
    windward("release", "there")


def test_import_shows_the_difference_first(windward, tmp_path):
    """An inventory is compared; only with --apply the ledger is changed, and then it agrees."""
    windward("place", "--id", "known", "--cpu", "1")
    windward("confirm", "known")
    file = tmp_path / "inventory.json"
    file.write_text('{"id":"found","machine":"m02","cpu":2,"memory":"1G","ports":[7000]}\n')
    first = json.loads(windward("instances", "import", str(file), "--json").stdout)
    assert [one["id"] for one in first["added"]] == ["found"]
    assert "known" in [one["id"] for one in first["gone"]]
    assert json.loads(windward("instances", "--json").stdout)["total"] > 0
    assert "nothing was written" in windward("instances", "import", str(file)).stdout
    assert windward("instances", "import", str(file), "--apply").returncode == 0
    after = json.loads(windward("instances", "import", str(file), "--json").stdout)
    assert (after["added"], after["changed"], after["gone"], after["same"]) == ([], [], [], 1)
    shown = json.loads(windward("instances", "show", "found", "--json").stdout)
    assert (shown["machine"], shown["state"], shown["ports"]) == ("m02", "confirmed", [7000])
    file.write_text('{"id":"found","cpu":2}\n')
    wrong = windward("instances", "import", str(file))
    assert wrong.returncode == 2
    assert "line 1" in wrong.stderr


def test_import_writes_a_record_anew_that_cannot_be_read(windward, valkey, tmp_path):
    """As the page of the ledger has it where the change log has the record no more; then the sums are repaired."""
    file, key = tmp_path / "inventory.json", Names(f"commands-{os.getpid()}").ledger("instances")
    file.write_text('{"id":"torn","machine":"m02","cpu":2}\n')
    assert windward("instances", "import", str(file), "--apply").returncode == 0
    with redis.Redis.from_url(valkey.url) as server:
        server.hset(key, "torn", server.hget(key, "torn")[:40])
    done = windward("instances", "import", str(file), "--apply")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "+ torn on m02"), done.stderr
    windward("ledger", "check", "--repair")
    assert windward("ledger", "check").returncode == 0
    assert json.loads(windward("instances", "show", "torn", "--json").stdout)["state"] == "confirmed"
    windward("release", "torn")


def test_a_refused_batch_has_its_reason_once(windward):
    shown = windward("place", "--cpu", "1000", "--memory", "1G", "--count", "2", "--dry-run")
    assert shown.returncode == 3
    assert shown.stdout.count("cpu larger than the machine") == 1, shown.stdout
    assert "2 missing: 0/" in shown.stdout


def test_why_tells_the_terms_of_that_moment(windward, tmp_path):
    """The decision about an instance is found again by its id, alone or in a batch."""
    windward("place", "--id", "asked", "--cpu", "1", "--count", "2")
    told = json.loads(windward("why", "asked-2", "--json").stdout)
    for line in told["answer"]["placed"]:
        shown = windward("why", line["id"]).stdout
        assert f"one of 2 in this request\n{line['id']} placed on {line['machine']}: reserved" in shown
        assert f"{line['machine']}, with the instance:" in shown
        assert sum(line["id"] in shown for line in told["answer"]["placed"]) == 1
    windward("confirm", "asked-2")
    assert "asked-2 is confirmed on m" in windward("why", "asked-2").stdout
    windward("release", "asked-1")
    assert "ago; the decision was:\nplace by" in windward("why", "asked-1").stdout
    machine = windward("why", MACHINES[7])
    assert f"{MACHINES[7]} now, for the newest request (asked-1): cpu 1.00; no rules; profile " in machine.stdout
    assert f"{MACHINES[7]}: feasible, place" in machine.stdout
    assert "and no machine has this name; did you mean" in windward("why", f"{MACHINES[7]}x").stderr
    assert json.loads(windward("why", "asked-1", "--json").stdout)["now"]["state"] == "released"
    assert told["now"]["ended_at"] == 0.0
    assert windward("why", "never").returncode == 1
    placed = json.loads(windward("place", "--id", "a,b", "--cpu", "1", "--json").stdout)
    assert json.loads(windward("why", "a,b", "--json").stdout)["answer"]["machine"] == placed["machine"]
    windward("place", "--id", "elsewhere", "--cpu", "1", "--not-on", MACHINES[7], "--profile", "kubernetes")
    machine = windward("why", MACHINES[7])
    assert "(elsewhere): cpu 1.00; not_on; profile kubernetes;" in machine.stdout
    assert f"{MACHINES[7]}: refused by" in machine.stdout
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps({"instances": [{"id": "listed", "cpu": 1, "not_on": [MACHINES[7]]}, {"cpu": 2}]}))
    windward("place", "--query", str(listed))
    machine = windward("why", MACHINES[7])
    assert "(listed): cpu 1.00; not_on; profile " in machine.stdout, machine.stdout
    target = next(name for name in MACHINES if name != told["answer"]["placed"][1]["machine"])
    assert windward("update", "asked-2", "--machine", target, "--move").returncode == 0
    assert "; the decision was:\nupdate by" in windward("why", "asked-2").stdout
    windward("update", "asked-2", "--cancel-move")
    assert f"; its move to {target} was given up, the decision was:\nupdate by" in windward("why", "asked-2").stdout
    assert windward("place", "--id", "huge", "--cpu", "1000").returncode == 3
    assert "10 cpu larger than the machine" in windward("why", "huge").stdout


def test_drain_cordons_plans_waits_and_is_undone(windward):
    """The plan is of the running fleet; the machine is empty once the ledger was told of the moves."""
    source = MACHINES[3]
    for held in json.loads(windward("instances", "--machine", source, "--json").stdout)["instances"]:
        windward("release", held["id"])  # other tests' reservations: a drain waits for them
    for number in range(3):
        windward("place", "--id", f"leaves-{number}", "--cpu", "1", "--machine", source)
        windward("confirm", f"leaves-{number}")
    tried = json.loads(windward("drain", source, "--json").stdout)
    assert "only planned, nothing is changed without --apply; 3 of 3" in windward("drain", source).stdout
    assert (tried["cordoned"], len(tried["moves"])) == (False, 3)
    assert json.loads(windward("place", "--cpu", "1", "--machine", source, "--dry-run", "--json").stdout)["machine"]
    assert {one["id"] for one in tried["moves"]} == {f"leaves-{number}" for number in range(3)}
    late = windward("drain", source, "--wait", "--wait-s", "4.5")
    assert late.returncode == 4
    assert f"3 instances left: {source} 3\nnone has left for 3 s: does a mover run" in late.stderr
    applied = windward("drain", source, "--apply", "--json")
    assert applied.returncode == 0, applied.stderr
    assert json.loads(applied.stdout)["cordoned"] is True
    eventually(lambda: windward("place", "--cpu", "1", "--machine", source, "--dry-run").returncode == 3)
    assert {one["state"] for one in json.loads(applied.stdout)["moves"]} == {"moving"}
    again = json.loads(windward("drain", source, "--json").stdout)
    assert (again["moves"], again["blocked"], len(again["moving"])) == ([], [], 3)
    undone = json.loads(windward("drain", "--undo", source, "--json").stdout)
    assert (sorted(undone["cancelled"]), undone["uncordoned"]) == ([f"leaves-{n}" for n in range(3)], {source: {}})
    assert windward("drain", source).returncode == 0
    answer = json.loads(windward("drain", source, "--apply", "--json").stdout)
    for one in answer["moves"]:
        assert windward("confirm", one["id"], "--machine", one["target"]).returncode == 0
    waited = windward("drain", source, "--wait")
    assert (waited.returncode, waited.stderr) == (0, "no instance is left\n")
    undone = windward("drain", "--undo", source)
    assert (undone.returncode, undone.stdout) == (0, f"{source}: takes instances again; no operators' rules\n")
    assert windward("drain", "nobody").returncode == 1
    chosen = json.loads(windward("drain", "--consolidate", "1", "--json").stdout)
    assert chosen["cordoned"] is False
    chosen = json.loads(windward("drain", "--consolidate", "1", "--apply", "--json").stdout)
    assert len(chosen["drained"]) <= 1
    assert chosen["cordoned"] is True
    for machine in chosen["drained"]:
        undone = windward("drain", "--undo", machine)
        assert undone.stdout.startswith(f"{machine}: takes instances again; no operators' rules\n")
    for number in range(3):
        windward("release", f"leaves-{number}")


def test_a_plan_is_applied_and_then_there_is_nothing_to_do(windward, tmp_path):
    """Placed, resized, moved and released through the scorer; a second run finds all as wanted."""
    file = tmp_path / "wanted.jsonl"
    scope = ("--prune", "--prune-labels", "app=planned")
    web = {"cpu": 1, "memory": "1G", "labels": {"app": "planned"}}
    wanted = [web | {"id": "planned", "count": 3}, web | {"id": "pinned", "machine": MACHINES[7]}]
    file.write_text("\n".join(map(json.dumps, wanted)))
    assert windward("plan", str(file), *scope).returncode == 1
    assert json.loads(windward("instances", "--labels", "app=planned", "--json").stdout)["total"] == 0
    done = windward("plan", str(file), *scope, "--apply", "--json")
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)["steps"]
    assert [one["id"] for one in steps if one["done"]] == ["planned-1", "planned-2", "planned-3", "pinned"]
    assert steps[3]["target"] == MACHINES[7]
    assert {round(one["until"] - time.time(), -2) for one in steps} == {300.0}
    for one in steps:
        windward("release", one["id"])
    held = windward("plan", str(file), *scope, "--apply", "--ttl-s", "1h")
    assert "4 instances are reserved, the first until" in held.stdout
    assert "(in 59m" in held.stdout or "(in 1h" in held.stdout
    for one in steps:
        windward("release", one["id"])
    done = windward("plan", str(file), *scope, "--apply", "--confirm")
    assert "4 instances are confirmed" in done.stdout
    assert "reserved" not in done.stdout
    assert windward("plan", str(file), *scope).returncode == 0
    changed = [web | {"id": "planned-1", "cpu": 2}, web | {"id": "pinned", "machine": MACHINES[8]}]
    file.write_text("\n".join(map(json.dumps, [*changed, web | {"id": "planned-2"}])))
    shown = windward("plan", str(file), *scope)
    assert shown.stdout.splitlines()[-1].startswith(
        "0 to place, 1 to move, 1 to change, 0 to update, 1 to release, 0 refused, 1 unch"
    )
    assert windward("plan", str(file), *scope, "--apply").returncode == 0
    assert windward("plan", str(file), *scope).returncode == 0  # it is on its way
    assert windward("confirm", "pinned", "--machine", MACHINES[8]).returncode == 0
    rows = json.loads(windward("instances", "--labels", "app=planned", "--json").stdout)["instances"]
    found = {one["id"]: (one["cpu"], one["machine"]) for one in rows}
    assert found.keys() == {"planned-1", "planned-2", "pinned"}
    assert (found["planned-1"][0], found["pinned"][1]) == (2.0, MACHINES[8])
    assert windward("plan", str(file), *scope).returncode == 0
    refused = [web | {"id": "huge", "cpu": 1000}, web | {"id": "one-more"}]
    file.write_text("\n".join(map(json.dumps, refused)))
    assert windward("plan", str(file), "--apply", "--all-or-nothing").returncode == 3
    assert json.loads(windward("instances", "show", "one-more", "--json").stdout or "null") is None
    assert windward("plan", str(file), "--apply").returncode == 3
    assert json.loads(windward("instances", "show", "one-more", "--json").stdout)["state"] == "reserved"
    nobody = {"WINDWARD_REDIS_URL": "redis://127.0.0.1:1/0", "WINDWARD_TIMEOUT": "0.5"}
    assert windward("plan", str(file), **nobody).returncode == 255
    windward("release", "planned-1", "planned-2", "pinned", "one-more")


def test_a_move_in_two_steps(windward):
    """Both machines are held until it is confirmed on the other; each step says so, and so does the list."""
    source, target = MACHINES[6:8]
    windward("place", "--id", "mover", "--cpu", "1", "--machine", source)
    windward("confirm", "mover")
    begun = windward("update", "mover", "--machine", target, "--move", "--ttl-s", "5m").stdout
    assert begun.startswith(f"mover on {source}: updated, moving to {target} until ")
    assert f"moves from {source} to {target}" in windward("why", "mover").stdout
    for machine in (source, target):
        listed = windward("instances", "list", "--machine", machine).stdout
        assert f"moving to {target}" in listed
        assert "in 5m" in listed or "in 4m" in listed
    shown = windward("instances", "show", "mover").stdout
    assert shown.startswith(f"mover on {source}: confirmed, moving to {target} until ")
    again = windward("update", "mover", "--move").stdout
    assert again.startswith(f"mover on {source}: nothing to change, moving to {target} until ")
    cancelled = windward("update", "mover", "--cancel-move")
    assert cancelled.stdout.strip() == f"mover on {source}: updated"
    number = json.loads(windward("update", "mover", "--machine", target, "--move", "--json").stdout)["moving"]["number"]
    other = windward("confirm", "mover", "--machine", target, "--move", str(number + 1))
    assert (other.returncode, "by another move" in other.stderr) == (1, True)
    there = windward("confirm", "mover", "--machine", target, "--move", str(number))
    assert there.stdout.strip() == f"mover on {target}: confirmed"
    assert windward("update", "mover", "--ttl-s", "5m").returncode == 2
    windward("release", "mover")


def test_why_tells_the_last_move(windward):
    windward("place", "--id", "moved", "--cpu", "1", "--machine", MACHINES[4])
    windward("confirm", "moved")
    assert f"moved, moved from {MACHINES[4]}" not in windward("why", "moved").stdout
    windward("update", "moved", "--machine", MACHINES[5])
    windward("update", "moved", "--cpu", "2")
    told = windward("why", "moved").stdout
    assert f"moved from {MACHINES[4]} to {MACHINES[5]}" in told
    assert "1/10 feasible" in told
    windward("release", "moved")
