"""Profiles of one's own in a running scorer: chosen by the query, read again on SIGHUP, not replaced by a bad file."""

import signal
import time

import pytest

from scorer.client import Client, WindwardError
from tests.integration.scorer.test_rpc import MACHINES, scorer_process
from tests.support.pages import eventually
from tests.window_tables import publish, window_table

MINE = """
[[filters]]
use = "fits"
[[scores]]
use = "{score}"
"""


def test_a_good_file_is_taken_and_a_bad_one_is_not(valkey, names, tmp_path, capfd):
    """Each query names its profile; after SIGHUP a changed file counts, an unreadable one changes nothing."""
    publish(valkey.url, names, [window_table(MACHINES, at=time.time() + 5)])
    mine = tmp_path / "mine.toml"
    mine.write_text(MINE.format(score="least_allocated"))

    with (
        scorer_process(valkey.url, names, "--profiles", str(tmp_path), "--log-level", "info") as process,
        Client(valkey.url, names.prefix, timeout_s=60) as client,
    ):

        def scores(profile):
            return set(client.rank(cpu=1, profile=profile)["candidates"][0]["scores"])

        def logged(event):
            shown = []

            def look():
                shown.append(capfd.readouterr().err)
                return next((line for line in "".join(shown).splitlines() if event in line), "")

            return str(eventually(look))

        eventually(lambda: client.health()["ready"])
        assert scores("mine") == {"least_allocated"}
        assert "expected_overload" in scores("")
        assert scores("seed") == {"global_variance", "load_variation_risk"}

        mine.write_text(MINE.format(score="most_allocated"))
        assert scores("mine") == {"least_allocated"}
        process.send_signal(signal.SIGHUP)
        logged("scorer.profiles.reloaded")
        assert scores("mine") == {"most_allocated"}

        for bad, said in (
            (MINE.format(score="nothing"), "mine.toml, line 5: scores[1].use: no score 'nothing'"),
            ("[[scores]]\nuse = 'spread'\nweight = -1", "mine.toml, line 3: scores[1].weight: expected a number"),
            ("= 3", "mine.toml: Invalid"),
            ("x = " + "[" * 100_000, "scorer.profiles.refused"),
        ):
            mine.write_text(bad)
            process.send_signal(signal.SIGHUP)
            assert said in logged("scorer.profiles.refused")
            assert scores("mine") == {"most_allocated"}

        with pytest.raises(WindwardError, match=r"no profile 'nobody'; there are .*mine.*windward"):
            scores("nobody")
        mine.unlink()
        process.send_signal(signal.SIGHUP)
        logged("scorer.profiles.reloaded")
        with pytest.raises(WindwardError, match="no profile 'mine'"):
            scores("mine")
