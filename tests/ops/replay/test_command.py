"""``windward replay`` from end to end, on a workload of three tables."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from ops.cli.main import main
from tests.ops.replay.report.test_comparison import WORLD
from tests.ops.replay.worlds.test_workload_file import folder


def test_a_workload_is_compared(tmp_path, capsys):
    """The profiles asked for and the three references, with ratios to the first."""
    path = folder(tmp_path / "mine")
    assert main(["replay", str(path), "--profile", "kubernetes", "--profile", "windward", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found["comparison"]["steady"]["mine"]
    assert found["baseline"] == "kubernetes"
    assert [row["policy"] for row in rows] == [
        "kubernetes", "windward", "random feasible", "best fit by true peak", "oracle",
    ]  # fmt: skip
    assert [row["reference"] for row in rows] == [False, False, True, True, True]
    assert rows[0]["ratios"]["std"]["ratio"] == 1.0


def test_the_table_is_for_people(tmp_path, capsys):
    path = folder(tmp_path / "mine")
    assert main(["replay", str(path), "--profile", "windward"]) == 0
    shown = capsys.readouterr().out
    assert "ratios to windward" in shown
    assert "oracle" in shown


def test_a_profile_with_sums_by_class_is_compared(tmp_path, capsys):
    """Instances have a class in the table; the figures are those by class, and the references those of batch."""
    classes = "instance,asked_cores,start_s,end_s,priority_class\nweb,8,0,1200,\ndb,4,300,900,batch\n"
    path, mine = folder(tmp_path / "mine", instances=classes), tmp_path / "classes.toml"
    mine.write_text('[[filters]]\nuse = "fits"\n[filters.classes]\nshare = { cpu = 1.0 }\n')
    assert (
        main(["replay", str(path), "--profile", "kubernetes", "--profile", str(mine), "--evict", "5m", "--markdown"])
        == 0
    )
    shown = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in shown.splitlines() if line.startswith("| ")][:7] == [
        "| policy", "| ---", "| kubernetes", "| classes", "| classes, evict 5 min", "| kubernetes, prod alone",
        "| classes, batch known",
    ]  # fmt: skip
    assert "evictions an instance-hour" in shown


def test_a_world_may_have_batch(tmp_path, capsys):
    trace = tmp_path / "mine.npz"
    load = 30 + 20 * np.sin(np.arange(288) / 20 + np.arange(6)[:, None])
    np.savez(trace, machine=[f"w{n}" for n in range(6)], ts=np.arange(288) * 300.0, cpu_pct=load, cores=np.full(6, 2.0),
             mem_pct=load, mem_capacity_mib=np.full(6, 1024.0))  # fmt: skip
    arguments = ["--machines", "2", "--days", "1", "--seeds", "1", "--load", "0.3", "--batch", "1.5", "--lives", "200"]
    assert main(["replay", str(trace), *arguments, "--profile", "kubernetes", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["comparison"]["steady"]["all"]
    hosted = {row["policy"]: row["figures"]["hosted_batch"] for row in rows}
    assert hosted["kubernetes"] > hosted["kubernetes, prod alone"] == 0.0
    assert main(["replay", str(trace), *arguments, "--batch-every", "1h", "--profile", "kubernetes", "--json"]) == 0
    worlds = {one["policy"]: one for one in json.loads(capsys.readouterr().out)["worlds"]}
    assert worlds["kubernetes"]["refusals"]["too much cpu promised"] > 0
    assert worlds["kubernetes"]["steady"]["waits_batch"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a trace, a workload or a recording"),
        (["nothing.npz"], "nothing.npz cannot be read"),
        (["mine/usage.json"], "mine/usage.json cannot be read"),
        (["mine", "--profile", "none"], "none"),
        (["none.json"], "there are no results in these files"),
        (["mine", "--evict", "5m", "--profile", "seed"], "evict: no profile counts by class"),
        (["mine", "--evict", "5"], "evict: expected whole minutes, such as 5m, got 5s"),
        (["mine", "--retry", "90s"], "retry: expected whole minutes, such as 5m, got 1m30s"),
        (
            ["mine", "--profile", "seed", "--profile", "seed.toml"],
            "seed and seed.toml are both named 'seed'; rename one",
        ),
        (["mine", "a/mine"], "sources: mine and a/mine are both named 'mine'; rename one"),
        (["mine", "--last", "7d"], "last: none of the sources is a recording"),
        (["mine", "--lives", "1e300"], "lives: expected a number of at most 1000"),
        (["one.json", "--baseline", "none"], "baseline: no policy 'none' in these files; there are p"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    folder(tmp_path / "mine")
    (tmp_path / "a").mkdir()
    folder(tmp_path / "a/mine")
    (tmp_path / "none.json").write_text('{"worlds": []}')
    (tmp_path / "one.json").write_text(json.dumps({"worlds": [WORLD]}))
    (tmp_path / "seed.toml").write_text('[[filters]]\nuse = "fits"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["replay", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_baseline_may_be_a_file(tmp_path, monkeypatch, capsys):
    """The others are compared with the profile in it, and moved."""
    folder(tmp_path / "mine")
    (tmp_path / "base.toml").write_text('[[filters]]\nuse = "fits"\n')
    monkeypatch.chdir(tmp_path)
    given = ["--profile", "kubernetes", "--baseline", "base.toml", "--rebalance", "5", "--rebalance", "5", "--json"]
    assert main(["replay", "mine", *given]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found["comparison"]["steady"]["all"]
    assert found["baseline"] == "base"
    assert [row["policy"] for row in rows][:3] == ["base", "kubernetes", "kubernetes + 5 %/h"]
    assert all(row["ratios"] for row in rows)


def test_results_of_parts_are_put_together(tmp_path, capsys):
    """What two runs printed with --json is one comparison of both worlds."""
    path = folder(tmp_path / "mine")
    assert main(["replay", str(path), "--profile", "windward", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    second = json.loads(json.dumps(first).replace('"seed": 0', '"seed": 1'))
    for name, found in (("a", first), ("b", second)):
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    assert main(["replay", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["comparison"]["steady"]["all"]
    assert [row["ratios"]["std"]["worlds"] for row in rows] == [2, 2, 2, 2]
    assert main(["replay", str(tmp_path / "a.json"), "--baseline", "oracle"]) == 0  # any row may be the baseline
    assert "ratios to oracle" in capsys.readouterr().out


ROOT = Path(__file__).parents[3]
RESULTS = "\n".join(path.read_text() for path in sorted((ROOT / "docs/results").glob("*.md")))
BLOCK = re.compile(r"<!-- windward (replay [^>]*) -->\n(.*?)\n<!-- end -->", re.DOTALL)
SHOWN = BLOCK.findall(RESULTS)


@pytest.mark.parametrize(("command", "tables"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_tables_are_those_of_the_command(command, tables, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(command.split()) == 0
    assert capsys.readouterr().out.strip() == tables.strip()


def test_every_result_is_shown():
    shown = {command.split()[1] for command, _ in SHOWN}
    assert shown == {str(path.relative_to(ROOT)) for path in (ROOT / "docs/results").glob("*.json")}
