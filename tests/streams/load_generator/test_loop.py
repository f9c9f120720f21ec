"""The loop over intervals: the past at once, up to the last full interval of each machine."""

import threading
import time
from collections import Counter

import msgspec

from streams.load_generator.loop import Fleet, Printer
from streams.load_generator.settings import FleetSettings
from streams.load_generator.source.generator import Generator
from streams.load_generator.source.messages import Messages
from streams.load_generator.source.source import Replay


def test_the_past_is_published_at_once_and_each_machine_ends_with_its_last_interval(capsys):
    settings = FleetSettings(dry_run=True, once=True, machines=3, backfill_s=60.0)
    source = Generator(3, seed=1)
    replay = Replay(source, settings.interval_s, settings.reading_s)
    messages = Messages(source.machines, 0, settings.interval_s, extra_labels={})
    sink = Printer()
    Fleet(settings, replay, messages, sink, threading.Event()).run(time.time())
    told = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    samples = Counter(one["machine"] for one in told if "seq" in one)
    assert list(samples.values()) == [replay.intervals(60.0)] * 3
    assert len(told) - samples.total() == 3  # the facts of each
    assert sink.counts.delivered == len(told)
