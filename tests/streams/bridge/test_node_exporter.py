"""node_exporter's pages and Prometheus' answers as samples."""

import json
import re
import socket
import threading
import time
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.sample import MachineFacts, Message, Sample
from schemas.process.settings import SettingsError
from streams.bridge.__main__ import bridge, main
from streams.bridge.formats.assembler import Assembler
from streams.bridge.formats.node_exporter import CPU, IDLE, name_of, points, query_of, read_answer, read_page
from streams.bridge.formats.points import Point, UnreadableError
from streams.bridge.scraping import Asker, How, Page, Scraper, Target
from streams.bridge.settings import BridgeSettings
from tests.dripping import dripping
from tests.support.pages import Answering, serving

T = 1_795_000_000
GIB = 2.0**30


def page(busy_s, total_s, *, cores=2, received=0.0, extra=""):
    """Return a page of a machine of 16 GiB, of which 12 are available, with these sums over its cores."""
    each, idle = busy_s / cores, (total_s - busy_s) / cores
    lines = ["# HELP node_cpu_seconds_total Seconds the CPUs spent.", "# TYPE node_cpu_seconds_total counter"]
    for core in range(cores):
        for mode, value in (
            ("idle", idle * 0.75),
            ("iowait", idle * 0.25),
            ("user", each * 0.5),
            ("steal", each * 0.5),
        ):
            lines.append(f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {value:.9g}')
    lines += [
        'node_cpu_guest_seconds_total{cpu="0",mode="user"} 900',
        f"node_memory_MemTotal_bytes {16 * GIB:.9e}",
        f"node_memory_MemAvailable_bytes {12 * GIB:.9e}",
        f'node_network_receive_bytes_total{{device="eth0"}} {received:.9e}',
        'node_network_receive_bytes_total{device="lo"} 9e+12',
        'node_network_transmit_bytes_total{device="eth0"} 0',
        'node_network_speed_bytes{device="eth0"} 1.25e+08',
        'node_network_speed_bytes{device="wlan0"} -125000',
        'node_disk_io_time_seconds_total{device="sda"} 0',
        'node_uname_info{domainname="(none)",machine="x86_64",nodename="db1",release="6",version="1"} 1',
        "node_load1 3.5",
        extra,
    ]
    return "\n".join(lines).encode()


def assembled(found):
    """Return the messages of moments that came one after the other."""
    assembler, done = Assembler(1), list[Message]()
    for number, moment in enumerate(found):
        done += assembler.take(moment, number * 10.0)
    return done + assembler.flush(1e6)


def samples(messages):
    return [one for one in messages if isinstance(one, Sample)]


def test_counters_become_means_at_the_pace_of_the_scrapes():
    """One core of two is busy for ten seconds, then none: one reading a sample, its maximum the mean."""
    pages = [page(100, 1_000), page(110, 1_020, received=1e9), page(110, 1_040, received=1e9)]
    found = assembled([points("db1", T + 10 * number, read_page(raw)) for number, raw in enumerate(pages)])
    facts = next(one for one in found if isinstance(one, MachineFacts))
    assert facts.capacity["memory"] == pytest.approx(16 * GIB)
    both = samples(found)
    assert [(one.cpu.n, one.cpu.mean, one.cpu.max) for one in both if one.cpu] == [
        (1, pytest.approx(1.0), pytest.approx(1.0)),
        (1, pytest.approx(0.0), pytest.approx(0.0)),
    ]
    assert [one.memory.mean for one in both if one.memory] == [pytest.approx(4 * GIB)] * 2
    assert [one.nic.mean for one in both if one.nic] == [pytest.approx(1e8), 0.0]


@given(busy=st.lists(st.floats(0.0, 20.0), min_size=2, max_size=8), reboot=st.integers(0, 8))
def test_a_reboot_loses_what_came_before_it_and_no_more(busy, reboot):
    """Counters begin at 0 again: the mean is that since the boot, never above the cores. They were larger before."""
    sums, total, moments = 1_000.0, 5_000.0, []
    for number, each in enumerate(busy):
        sums, total = sums + each, total + 20.0
        if number == reboot:
            sums, total = each, 20.0
        moments.append(points("db1", T + 10 * number, read_page(page(sums, total))))
    means = [one.cpu.mean for one in samples(assembled(moments)) if one.cpu]
    assert means == [pytest.approx(each / 10, abs=1e-4) for each in busy[1:]]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "this is no page of node_exporter"),
        (b"<html>hello</html>", "this is no page of node_exporter"),
        (b'node_cpu_seconds_total{cpu="0",mode="idle"} many', "this is no page of node_exporter"),
        (b"\xff\xfe\x00", "this is no page of node_exporter"),
    ],
    ids=["empty", "another page", "no number", "bytes"],
)
def test_what_is_no_page_of_node_exporter_is_told(raw, said):
    with pytest.raises(UnreadableError, match=said):
        read_page(raw)


def test_labels_are_read_as_prometheus_writes_them():
    """Quotes, backslashes, commas and braces within a value; a timestamp after the number; NaN."""
    extra = (
        'node_network_receive_bytes_total{device="a\\"b\\\\,c}d"} 7 1795000000000\n'
        'node_network_receive_bytes_total{device="eth9"} NaN'
    )
    values = read_page(page(1, 2, extra=extra))
    assert [one.value for one in values if one.labels.get("device") == 'a"b\\,c}d'] == [7.0]
    assert name_of(values) == "db1"
    assert "eth9" not in {point.part for point in points("db1", T, values)}


@given(st.binary(max_size=200))
def test_no_bytes_end_the_reader(raw):
    """They are refused, or ignored where the page is one."""
    with pytest.raises(UnreadableError):
        read_page(raw)
    assert read_page(page(1, 2) + b"\n" + raw) or True


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("letters in braces", CPU.encode() + b"{" + b"a" * 300_000 + b"} 1"),
        ("letters", b"a" * 300_000),
        ("braces", CPU.encode() + b"{" + b"} " * 150_000 + b"x"),
        ("names and =", CPU.encode() + b"{" + b"a=" * 150_000 + b"} 1"),
        ("quotes", CPU.encode() + b"{" + b'a="' * 100_000 + b"} 1"),
        ("backslashes", CPU.encode() + b'{a="' + b"\\" * 300_000 + b"} 1"),
        ("backslashes and quotes", CPU.encode() + b'{a="' + b'\\"a=' * 75_000 + b"} 1"),
        ("spaces", CPU.encode() + b" " * 300_000 + b"\n"),
        ("spaces after the number", CPU.encode() + b" 1" + b" " * 300_000 + b"x"),
        ("digits", CPU.encode() + b" " + b"1" * 300_000),
        ("a time of many digits", CPU.encode() + b" 1 " + b"1" * 300_000),
        ("many lines of letters", (CPU.encode() + b"{" + b"a" * 60_000 + b"} 1\n") * 20),
    ],
)
def test_a_page_is_read_in_time(name, line):
    """Each line costs what its length does, whatever is in it; the others of the page are read."""
    begun_s = time.process_time()
    values = read_page(line + b"\n" + page(1, 2))
    assert time.process_time() - begun_s < 0.5, name
    assert name_of(values) == "db1"


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["head", "body"])
def test_an_answer_that_drips_is_none(first):
    """There is a deadline for the whole of it, not for each byte."""
    with dripping(first) as where:
        begun_s = time.monotonic()
        with pytest.raises(TimeoutError):
            Page(f"http://{where}/metrics", How(0.3, 0.3)).get()
        assert time.monotonic() - begun_s < 1.0


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("a target", {"target": ("http://user:secret@db1:9100",)}),
        ("a named target", {"target": ("db1=http://user:secret@db1:9100",)}),
        ("HOST:PORT", {"target": ("user:secret@db1:9100",)}),
        ("one slash of two", {"target": ("http:/user:secret@db1:9100",)}),
        ("a user alone", {"target": ("http://secret@db1:9100",)}),
        ("no URL", {"target": ("ftp://user:secret@db1",)}),
    ],
)
def test_a_target_with_a_password_is_refused(name, given):
    with pytest.raises(SettingsError) as error:
        _ = BridgeSettings(**given).targets
    assert "secret@" not in str(error.value) and "user:" not in str(error.value), name


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ("--prometheus http://user:secret@prometheus:9090", "no part of a URL"),
        ("--prometheus prometheus:9090", "expected http://HOST:PORT"),
        ("--prometheus http://p:9090 --target db1", "goes without --target"),
        ("--target db1 --scrape-username u", "WINDWARD_SCRAPE_PASSWORD, or the same with _FILE"),
        ("--targets-file /nowhere", "targets_file: /nowhere: "),
        ("", "which node_exporters"),
    ],
)
def test_what_cannot_be_scraped_is_refused_at_the_start(argv, why):
    with pytest.raises(SettingsError, match=why) as error:
        main(["node-exporter", *argv.split()], {})
    assert "secret@" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "given", "sent"),
    [
        ("a user", {"scrape_username": "u", "scrape_password": "p"}, "Basic dTpw"),
        ("a token", {"scrape_password": "t"}, "Bearer t"),
        ("neither", {}, ""),
    ],
)
def test_credentials_are_sent_and_never_shown(name, given, sent):
    how = BridgeSettings(**given).how
    assert how.authorization == sent, name
    assert not sent or sent not in repr(how)


@pytest.mark.parametrize("token", ["a\nb", "a\x7f", "\u20ac"])
def test_a_token_that_no_header_can_carry_is_refused(token):
    """At the start: the library refuses it at each request."""
    with pytest.raises(SettingsError, match="printable ASCII"):
        _ = BridgeSettings(scrape_password=token).how


def test_a_scrape_carries_its_credentials():
    asked = list[str]()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(4096).decode())
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        thread = threading.Thread(target=serve)
        thread.start()
        found = Page(f"http://127.0.0.1:{listener.getsockname()[1]}/", How(5.0, 5.0, authorization="Bearer t"))
        assert found.get() == b"ok"
        thread.join()
        found.close()
    assert "Authorization: Bearer t\r\n" in asked[0]


# ---- Prometheus


def answer(*scrapes, **labels):
    """Return what Prometheus answers that scraped these pages of these targets last."""
    rows = list[dict[str, Any]]()

    for instance, at, raw in scrapes:
        row = partial(_row, rows, {"instance": instance, "job": "node"} | labels)
        values = read_page(raw)
        idle_s, cores = 0.0, set[str]()
        for one in values:
            if one.metric == CPU:
                idle_s += one.value if one.labels["mode"] in IDLE else 0.0
                cores.add(one.labels["cpu"])
            else:
                row(one.value, __name__=one.metric, **one.labels)
        if cores:
            row(idle_s, windward="idle_s")
            row(len(cores), windward="cores")
        row(at, windward="scraped_at")
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()


def _row(rows, labels, value, **more):
    rows.append({"metric": labels | more, "value": [0, str(value)]})


def asked(*answers, machine_key=""):
    """Return what a bridge reads of these answers, one after the other."""
    asker = Asker("http://p:9090", "", machine_key, How(15.0, 5.0))
    return asker, [asker.read(raw) for raw in answers]


def test_a_scrape_that_prometheus_keeps_is_read_once_at_its_own_time():
    """Asked more often than it scrapes, each scrape counts once; the machine is what it calls itself."""
    scrapes = [
        ("10.0.0.7:9100", T + 15.0 * number, page(100 + 15 * number, 1_000 + 30 * number)) for number in range(4)
    ]
    _, moments = asked(*(answer(scrapes[number // 2]) for number in range(8)))
    assert {point.machine for moment in moments for point in moment} == {"db1"}
    assert [sorted({point.at for point in moment}) for moment in moments] == [
        [T + 15.0 * (number // 2)] if number % 2 == 0 else [] for number in range(8)
    ]
    assert [one.cpu.mean for one in samples(assembled(moments)) if one.cpu] == [pytest.approx(1.0)] * 3


def test_a_core_that_leaves_is_no_busy_time():
    """The sum over the cores falls, or rises by a core's whole past: that is no reading of CPU."""
    sums = [
        (4, 1_000, 4_000),
        (4, 1_010, 4_040),
        (2, 500, 2_030),
        (2, 505, 2_050),
        (4, 1_015, 4_090),
        (4, 1_025, 4_130),
    ]
    pages = [page(busy, total, cores=cores) for cores, busy, total in sums]
    _, moments = asked(*(answer(("a:9100", T + 10.0 * at, raw)) for at, raw in enumerate(pages)))
    found = [one.cpu and one.cpu.mean for one in samples(assembled(moments))]
    assert found == [pytest.approx(1.0), None, pytest.approx(0.5), None, pytest.approx(1.0)]


def test_a_label_may_name_the_machine():
    """One without it is counted; without uname the name is the instance without its port."""
    scrape = ("10.0.0.7:9100", float(T), page(1, 2))
    assert {point.machine for point in asked(answer(scrape, host="h7"), machine_key="host")[1][0]} == {"h7"}
    asker, found = asked(answer(scrape), machine_key="host")
    assert (asker.counts["nameless"], found) == (1, [[]])
    bare = ("10.0.0.7:9100", float(T), page(1, 2).replace(b"node_uname_info", b"other"))
    assert {point.machine for point in asked(answer(bare))[1][0]} == {"10.0.0.7"}


def test_a_label_of_the_target_is_none_of_the_metric():
    """``machine`` of node_uname_info is "x86_64"; a target's own label is kept apart."""
    raw = answer(("a:9100", float(T), page(1, 2)), machine="rack-7")
    raw = raw.replace(b'"machine": "x86_64"', b'"exported_machine": "x86_64", "machine": "rack-7"')
    scrape = read_answer(raw, "machine")
    assert [(one.target, one.machine) for one in scrape] == [("instance=a:9100,job=node,machine=rack-7", "rack-7")]
    assert name_of(scrape[0].values) == "db1"


def test_one_machine_under_two_targets_is_counted_and_the_first_keeps_it(caplog):
    """A cloned host's counters are not mixed in. When the first is silent the other takes its place, with no jump."""
    assembler, done = Assembler(1, hand_over_s=30.0), list[Message]()
    for number in range(12):
        for source, busy in (("one", 1_000 + 10 * number), ("two", 90_000 + 5 * number)):
            if source == "one" and number >= 6:
                continue
            values = read_page(page(busy, 200_000 + 20 * number, received=busy * 1e6))
            done += assembler.take(points("db1", T + 10 * number, values, source), number * 10.0)
            done += assembler.flush(number * 10.0)
    assert assembler.taken == {"db1": ("one", "two")}
    assert assembler.counts["name-taken"] == 8 * len(points("db1", T, read_page(page(1, 2))))
    found = samples(done + assembler.flush(1e6))
    assert [one.cpu and round(one.cpu.mean, 6) for one in found] == [1.0] * 5 + [None] + [0.5] * 3
    assert max(one.nic.mean for one in found if one.nic) == pytest.approx(1e6)
    source = Recorded([points("db1", T, read_page(page(1, 2)), one) for one in ("one", "two", "two")])
    with caplog.at_level("WARNING", "windward.bridge"):
        bridge(source, Assembler(1), Published(), threading.Event())
    records = [one.values for one in caplog.records if one.message == "bridge.name.taken"]
    assert [(one["machine"], one["read"], one["left_out"]) for one in records] == [("db1", "one", "two")]


class Recorded:
    def __init__(self, moments):
        self.counts = Counter[str]()
        self._moments = moments

    def run(self, stop, take):
        for moment in self._moments:
            take(moment)


class Published:
    def publish(self, records):
        """Take records."""


def without(raw, *metrics):
    return b"\n".join(line for line in raw.split(b"\n") if not line.startswith(tuple(one.encode() for one in metrics)))


CHANGED_LINES = [
    # name, metric, what its lines become, resource without a reading
    ("no time", CPU, "", "cpu"),
    ("no free memory", "node_memory_MemAvailable_bytes", "", "memory"),
    ("no speed", "node_network_speed_bytes", "", "nic"),
    ("no disk", "node_disk_io_time_seconds_total", "", "disk"),
    ("time that is none", CPU, r"\1 NaN", "cpu"),
    ("memory that is none", "node_memory_MemTotal_bytes", r"\1 NaN", "memory"),
    ("more free memory than there is", "node_memory_MemAvailable_bytes", r"\1 1e15", "memory"),
    # netclass of virtio: the kernel's -1
    ("an unknown speed", "node_network_speed_bytes", r"\1 -125000", "nic"),
    ("a disk on another", "node_disk_io_time_seconds_total", 'node_disk_io_time_seconds_total{device="md0"} 1', "disk"),
    ("a text", "node_disk_io_time_seconds_total", r"\1 many", "disk"),
    ("a torn line", "node_disk_io_time_seconds_total", "node_disk_io_time_sec", "disk"),
    ("a name that is no text", "node_disk_io_time_seconds_total", 'node_disk_io_time_seconds_total{device="\udcff"} 1',
     "disk"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "metric", "changed", "left_out"), CHANGED_LINES)
def test_what_a_page_lacks_is_told_once_and_the_rest_is_used(name, metric, changed, left_out):
    """Absent, or of no use: of Prometheus as of a page. One broken line costs only itself."""
    line = re.compile(rf"^({metric}\S*) .*$", re.MULTILINE)
    pages = [
        line.sub(changed, page(100 + 10 * at, 1_000 + 20 * at, received=1e9 * at).decode()).encode(
            errors="surrogateescape"
        )
        for at in range(3)
    ]
    _, moments = asked(*(answer(("a:9100", T + 10.0 * at, raw)) for at, raw in enumerate(pages)))
    for found in (moments, [points("db1", T + 10 * at, read_page(raw), "a") for at, raw in enumerate(pages)]):
        assembler, done = Assembler(1), list[Message]()
        for number, moment in enumerate(found):
            done += assembler.take(moment, number * 10.0)
        last = samples(done + assembler.flush(1e6))[-1]
        assert {one for one in ("cpu", "memory", "nic", "disk") if getattr(last, one) is None} == {left_out}, name
        assert [resource for _, resource, _ in assembler.lacking] == [left_out], name


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"<html>", "not an answer of Prometheus' HTTP API"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', "Prometheus: parse error"),
        (b'{"status":"success"}', "Prometheus: success"),
    ],
    ids=["another server", "a query it refuses", "no data"],
)
def test_an_answer_that_is_none_is_told(raw, said):
    with pytest.raises(UnreadableError, match=said):
        read_answer(raw, "")


def test_the_query_has_a_row_a_mode_and_not_one_a_core():
    """The matchers are in each part of it, and `promql-parser` reads it."""
    for selector in ("", 'job="node"'):
        query = query_of(selector)
        promql_parser.parse(query)
        assert query.count(f",{selector}}}") == (4 if selector else 0)
    assert "sum without (cpu, mode)" in query


# ---- scraping


class Exporter(Answering, BaseHTTPRequestHandler):
    """Answers by path: a page that counts, an error, or nothing for a long time."""

    def do_GET(self):
        if self.path.startswith("/slow"):
            self.server.released.wait(30)
        ok = self.path.startswith("/metrics")
        self.answer(200 if ok else 503, page(time.monotonic(), 2 * time.monotonic()) if ok else b"no")


@pytest.fixture
def exporter():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    server.released = threading.Event()
    server.handle_error = lambda *_: None
    with serving(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.released.set()


def test_a_target_that_does_not_answer_holds_up_no_other(exporter):
    """One waits, one refuses, one is away: the good one is read again and again, and each failure is counted."""
    targets = [
        Target(f"{exporter}/metrics"),
        Target(f"{exporter}/slow"),
        Target(f"{exporter}/broken"),
        Target("http://127.0.0.1:1/x"),
    ]
    scraper, stop, taken = Scraper(targets, How(0.1, 20.0)), threading.Event(), list[Point]()

    def take(found):
        taken.extend(found)
        counts = scraper.counts
        if counts["read"] >= 5 and counts["unreadable"] >= 2 and counts["away"] >= 2 and counts["late"] >= 2:
            stop.set()

    running = threading.Thread(target=scraper.run, args=(stop, take), daemon=True)
    running.start()
    assert stop.wait(30), scraper.counts
    assert {point.machine for point in taken} == {"db1"}


def test_a_dry_run_says_which_interfaces_count(exporter, capsys):
    """And why others do not, without a broker; a target that cannot be read is told."""
    assert main(["node-exporter", "--target", f"{exporter}/metrics", "--dry-run"], {}) == 0
    lines = [line.split(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    assert [line[1:3] for line in lines[1:]] == [["eth0", "yes"], ["lo", "no"]]
    assert main(["node-exporter", "--target", "127.0.0.1:1", "--dry-run"], {}) == 1
    with pytest.raises(SettingsError, match="dry_run"):
        main(["otel", "--dry-run"], {})


@pytest.mark.parametrize("drips", [False, True])
def test_a_lost_rack_holds_up_no_other(exporter, drips):
    """Of 60 targets 50 hang or drip: the others are read at their pace once each of those has failed."""
    targets = [Target(f"{exporter}/metrics?{number}", f"m{number}") for number in range(10)]
    moments, stop = [], threading.Event()

    def take(_):
        if scraper.counts["away"] >= 50:
            moments.append((time.monotonic(), scraper.counts["read"]))
            if moments[-1][0] - moments[0][0] > 2.0:
                stop.set()

    with dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n") as where:
        lost = f"http://{where}" if drips else exporter
        scraper = Scraper([*(Target(f"{lost}/slow?{number}") for number in range(50)), *targets], How(0.5, 0.4))
        threading.Thread(target=scraper.run, args=(stop, take), daemon=True).start()
        assert stop.wait(30), scraper.counts
    (begun_s, before), (ended_s, after) = moments[0], moments[-1]
    assert after - before > 0.7 * 10 * (ended_s - begun_s) / 0.5


def test_a_prometheus_that_refuses_is_asked_again(exporter):
    asker, stop = Asker(exporter, "", "", How(0.05, 5.0)), threading.Event()

    def take(found):
        assert not found
        if asker.counts["unreadable"] >= 3:
            stop.set()

    threading.Thread(target=asker.run, args=(stop, take), daemon=True).start()
    assert stop.wait(30)


@pytest.mark.parametrize(
    ("text", "url", "name"),
    [
        ("db1:9100", "http://db1:9100/metrics", ""),
        ("db1", "http://db1:9100/metrics", ""),
        ("one=10.0.0.7:9101", "http://10.0.0.7:9101/metrics", "one"),
        ("https://db1:9443/node", "https://db1:9443/node", ""),
        ("one=http://[::1]:9100", "http://[::1]:9100/metrics", "one"),
        # node_exporter's README: collect[] filters collectors
        ("one=http://db1:9100/metrics?collect[]=cpu", "http://db1:9100/metrics?collect[]=cpu", "one"),
        ("http://db1:9100?collect[]=cpu&x=1", "http://db1:9100/metrics?collect[]=cpu&x=1", ""),
        ("db1:9100/metrics?collect[]=cpu", "http://db1:9100/metrics?collect[]=cpu", ""),
        ("db1?collect[]=cpu", "http://db1:9100/metrics?collect[]=cpu", ""),
        ("db1:", "http://db1:9100/metrics", ""),
    ],
)
def test_targets(text, url, name):
    assert Target.read(text) == Target(url, name)


@pytest.mark.parametrize("text", ["", "ftp://a", "a b", "http://", "one="])
def test_what_is_no_target_is_refused(text):
    with pytest.raises(SettingsError, match="target: "):
        _ = BridgeSettings(target=(text,)).targets


def test_targets_of_a_file(tmp_path):
    """One a line; comments and empty lines are none; one that is given twice is refused."""
    path = tmp_path / "targets"
    path.write_text("# ours\ndb1:9100\n\ntwo=db2\n")
    assert [target.name for target in BridgeSettings(targets_file=path).targets] == ["", "two"]
    with pytest.raises(SettingsError, match=r"http://db1:9100/metrics is given twice"):
        _ = BridgeSettings(targets_file=path, target=("db1",)).targets
