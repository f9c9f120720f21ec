"""What counters cannot have done: pages and messages with values that no machine has.

Each row changes one collection of a machine of four cores, one of them busy, an interface of 10 Gbit/s with 1e8 bytes/s
and a disk that is busy for a hundredth of the time.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.sample import MachineFacts, Message, Sample
from streams.agent.rises import BITS_32, rise_of
from streams.bridge.formats import telegraf
from streams.bridge.formats.assembler import Assembler
from streams.bridge.formats.node_exporter import points, read_page

T = 1_795_000_000
SPEED = 1.25e9
LONG_S = 9e5
"""What the counters had before."""
Page = dict[str, float]


def collection(number):
    """Return the values of one collection, 10 s after the one before."""
    passed_s = 10.0 * number
    values = {f"idle{core}": LONG_S + passed_s * (core > 0) for core in range(4)}
    values |= {f"user{core}": LONG_S + passed_s * (core == 0) for core in range(4)}
    values |= {f"steal{core}": LONG_S for core in range(4)}
    return values | {"received": 9e12 + 1e8 * passed_s, "sent": 5e12, "disk": LONG_S + 0.01 * passed_s}


def page(values):
    """Return the lines of a page; what is not among the values it does not have."""
    lines = [
        f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {values[f"{mode}{core}"]!r}'
        for core in range(4)
        for mode in ("idle", "user", "steal")
        if f"{mode}{core}" in values
    ]
    lines += ["node_memory_MemTotal_bytes 1e10", "node_memory_MemAvailable_bytes 6e9"]
    lines += [f'node_network_receive_bytes_total{{device="eth0"}} {values["received"]!r}']
    lines += [f'node_network_transmit_bytes_total{{device="eth0"}} {values["sent"]!r}']
    lines += [f'node_network_speed_bytes{{device="eth0"}} {SPEED!r}']
    lines += [f'node_disk_io_time_seconds_total{{device="sda"}} {values["disk"]!r}']
    return "\n".join(lines).encode()


def bridged(pages):
    assembler, done = Assembler(1), list[Message]()
    for number, values in enumerate(pages):
        done += assembler.take(points("m", T + 10 * number, read_page(page(values)), "m:9100"), number * 10.0)
    done += assembler.flush(1e6)
    return [one for one in done if isinstance(one, Sample)], assembler


FROM_NOW = [
    # name, resource without a reading, change of the third collection and those after it
    ("idle time of a busy core falls by 20 h", "cpu", lambda v: v | {"idle0": v["idle0"] - 72_000}),
    # node_exporter #1903, "idle counter jumped backwards"; #742, stolen time
    ("idle time of a busy core falls by 5 s", "cpu", lambda v: v | {"idle0": v["idle0"] - 5}),
    ("user time of an idle core falls by 5 s", "cpu", lambda v: v | {"user1": v["user1"] - 5}),
    ("user time rises by three times the time", "cpu", lambda v: v | {"user2": v["user2"] + 30}),
    ("idle time rises by 20 h", "cpu", lambda v: v | {"idle1": v["idle1"] + 72_000}),
    ("stolen time falls by 8e7 s", "cpu", lambda v: v | {"steal2": v["steal2"] - 8e5}),
    ("stolen time of a busy core falls by 8 s", "cpu", lambda v: v | {"steal0": v["steal0"] - 8}),
    ("user time becomes stolen time", "cpu", lambda v: v | {"user0": v["user0"] - 18, "steal0": v["steal0"] + 18}),
    ("stolen time rises by 8e7 s", "cpu", lambda v: v | {"steal2": v["steal2"] + 8e7}),
    ("user time of two cores swapped", "cpu", lambda v: v | {"user1": v["user1"] - 500, "user0": v["user0"] + 500}),
    ("a counter is 1 kB lower", "nic", lambda v: v | {"received": v["received"] - 1e10}),
    ("bytes of 2^64", "nic", lambda v: v | {"sent": v["sent"] + 2.0**64}),
    ("a leap of the bytes", "nic", lambda v: v | {"sent": 3.9e14}),
    ("twice what the link carries", "nic", lambda v: v | {"sent": v["sent"] + 2 * SPEED * 10}),
    ("the disk 0.1 s lower", "disk", lambda v: v | {"disk": v["disk"] - 0.3}),
    ("the disk busy for longer than the time", "disk", lambda v: v | {"disk": v["disk"] + 14}),
]


@pytest.mark.parametrize(("name", "resource", "change"), FROM_NOW)
def test_an_impossible_rise_is_no_reading(name, resource, change):
    """Of its resource, once; it is counted and told. The others, and the collections after it, are as before."""
    pages = [collection(number) if number < 2 else change(collection(number)) for number in range(5)]
    made, assembler = bridged(pages)
    truth = {"cpu": 1.0, "memory": 4e9, "nic": 1e8, "disk": 0.01}
    for number, one in enumerate(made):
        for other, value in truth.items():
            found = getattr(one, other)
            if (number, other) == (1, resource) or found is None:
                assert (found, other) == (None, resource), name
            else:
                assert found.mean == pytest.approx(value, rel=1e-3), (name, number, other)
    assert [number for number, one in enumerate(made) if getattr(one, resource) is None] == [1], name
    assert assembler.counts["impossible"] >= 1
    assert [(machine, told) for machine, told, _ in assembler.lacking] == [("m", resource)]


@pytest.mark.parametrize(
    ("name", "resource", "value"), [("sent", "nic", 3.9e14), ("disk", "disk", 9e6), ("steal1", "cpu", 9e9)]
)
def test_a_leap_that_is_put_right_is_no_reset(name, resource, value):
    """What falls after an impossible rise is that value put right: no reading either, and none of it as a rise."""
    pages = [collection(number) for number in range(6)]
    pages[2][name] = value
    made, _ = bridged(pages)
    assert [number for number, one in enumerate(made) if getattr(one, resource) is None] == [1, 2]


@pytest.mark.parametrize(
    ("name", "dropped", "busy"),
    [
        # Prometheus' relabelling drops modes to keep fewer series (metric_relabel_configs)
        ("all modes", (), 1.0),
        ("idle alone", ("user", "steal"), 1.0),
        ("no idle time", ("idle",), None),
        ("idle and steal", ("user",), 0.0),
    ],
)
def test_modes_that_a_page_lacks_are_no_share(name, dropped, busy):
    """Idle time alone tells how busy the cores were; without it nothing does."""
    pages = [
        {key: value for key, value in collection(number).items() if not key.startswith(dropped or ("-",))}
        for number in range(3)
    ]
    made, assembler = bridged(pages)
    assert [one.cpu and one.cpu.mean for one in made] == [busy and pytest.approx(busy)] * 2, name
    assert [resource for _, resource, _ in assembler.lacking] == ["cpu"] * (busy is None), name


@pytest.mark.parametrize(
    ("name", "rises", "busy"),
    [
        ("idle time of busy cores, node_exporter #1903", {"idle": -0.02, "user": 10.0}, 4.0),
        ("user time of idle cores, node_exporter #1090", {"idle": 10.0, "user": -0.01}, 0.0),
    ],
)
def test_time_that_falls_a_little_is_no_loss(name, rises, busy):
    """Kernels put it right by some ticks: the cores are as busy, or as idle, as they can be."""
    pages = [
        collection(0) | {f"{mode}{core}": LONG_S + rise * number for core in range(4) for mode, rise in rises.items()}
        for number in range(3)
    ]
    made, assembler = bridged(pages)
    assert [one.cpu and one.cpu.mean for one in made] == [busy] * 2, name
    assert assembler.counts["impossible"] == 0


def test_cores_that_are_off_are_no_capacity():
    """Their lines stay on the page, and stand still: two busy cores of four that were there are 2.0 of 2."""
    pages = [collection(0) | {f"user{core}": LONG_S + 10.0 * number for core in range(2)} for number in range(3)]
    made, _ = bridged(pages)
    assert [(one.cpu.mean, one.cpu.capacity) for one in made if one.cpu] == [(2.0, 2.0)] * 2


def test_a_core_that_a_page_leaves_out_counts_over_its_own_time():
    """And one whose counters began again: each core has a share of the time that it counted."""
    pages = [collection(number) for number in range(6)]
    for mode in ("idle", "user", "steal"):
        del pages[2][f"{mode}3"]
        for number in (4, 5):
            pages[number][f"{mode}1"] = 5.0 + 10.0 * (number - 4) if mode == "idle" else 0.0
    made, _ = bridged(pages)
    assert [one.cpu.mean for one in made if one.cpu] == [1.0] * 5


def test_a_counter_of_32_bits_is_exact():
    """It wraps twice in this minute: no bytes are lost, and no time of the disk."""
    pages = [collection(number) for number in range(7)]
    for number, values in enumerate(pages):
        values["received"] = (BITS_32 - 5e8 + 1e9 * number) % BITS_32
        values["disk"] = (BITS_32 / 1000 - 1.0 + 0.1 * number * 5) % (BITS_32 / 1000)
    made, assembler = bridged(pages)
    assert [one.nic.mean for one in made if one.nic] == pytest.approx([1e8] * 6)
    assert [one.disk.mean for one in made if one.disk] == pytest.approx([0.05] * 6)
    assert assembler.counts["impossible"] == 0


def test_a_reboot_is_a_reset():
    """All counters are small: their values are the rise, also of one that could have wrapped."""
    pages = [collection(number) for number in range(2)]
    pages[0]["received"], pages[1]["received"] = 4.0e9, 4.1e9
    after = {name: value - LONG_S if value < 1e8 else 0.0 for name, value in collection(1).items()}
    made, assembler = bridged([*pages, after | {"received": 1e9}])
    last = made[-1]
    assert (last.cpu.mean, last.nic.mean, last.disk.mean) == (1.0, 1e8, pytest.approx(0.01))
    assert assembler.counts["impossible"] == 0


@given(st.floats(0, 1e18), st.floats(0, 1e18), st.floats(0, 1e16), st.sampled_from([0.0, BITS_32]), st.booleans())
def test_no_rise_is_more_than_the_time_allows(before, now, most, wraps_at, resets):
    """Whatever the counter did, and never below 0; a rise that is allowed is exact."""
    found = rise_of(before, now, most, wraps_at=wraps_at, resets=resets)
    assert found is None or 0 <= found <= most
    if now >= before:
        assert found == (now - before if now - before <= most else None)


def message(fields, number, **tags):
    said = {"name": "cpu", "tags": {"cpu": "cpu-total", "host": "m"} | tags, "fields": fields}
    return json.dumps(said | {"timestamp": T + 10 * number}).encode()


TELEGRAF = [
    # name, fields of three collections of four cores, cores busy
    ("idle and waiting", [{"usage_idle": 70.0, "usage_iowait": 5.0}] * 3, 1.0),
    ("active alone", [{"usage_active": 90.0}] * 3, 3.6),
    ("idle time alone", [{"time_idle": 100.0 + 4.0 * n} for n in range(3)], 3.6),
    ("idle time and waiting", [{"time_idle": 100.0 + 3.0 * n, "time_iowait": 1.0 * n} for n in range(3)], 3.6),
    ("idle time, one other", [{"time_idle": 100.0 + 4.0 * n, "time_nice": 5.0} for n in range(3)], 3.6),
    # proc(5): iowait is not reliable, and may fall
    ("waiting below 0", [{"usage_idle": 97.0, "usage_iowait": -40.0}] * 3, None),
    ("idle above 100, waiting below 0", [{"usage_idle": 150.0, "usage_iowait": -60.0}] * 3, None),
    ("stolen below 0", [{"usage_idle": 93.75, "usage_iowait": 0.0, "usage_steal": -25.0}] * 3, None),
    ("stolen below 0, active", [{"usage_active": 6.25, "usage_steal": -25.0}] * 3, None),
    ("stolen time that falls", [
        {"time_idle": 1e6 + 30.0 * n, "time_user": 1e4 + 10.0 * n, "time_system": 0.0, "time_steal": 1e3 - 8.0 * n}
        for n in range(3)], None),
    ("shares of parts", [{"usage_user": 12.0, "usage_system": 3.0}] * 3, None),
    # telegraf, plugins/inputs/cpu: report_active adds time_active
    ("active and idle time", [{"time_active": 10.0 * n, "time_idle": 100.0 + 30.0 * n} for n in range(3)], 1.0),
    ("active time alone", [{"time_active": 10.0 * n} for n in range(3)], None),
    ("a null for the time", [{"time_idle": None, "usage_idle": 75.0}] * 3, 1.0),
    ("guest time that leaps", [
        {"time_idle": 30.0 * n, "time_user": 10.0 * n, "time_system": 0.0, "time_guest": 8e8 * n} for n in range(3)],
     1.0),
    ("a null", [{"usage_idle": None}] * 3, None),
    ("a text", [{"usage_idle": "97"}] * 3, None),
    ("true", [{"usage_idle": True}] * 3, None),
    ("user alone", [{"usage_user": 12.0}] * 3, None),
    ("nothing", [{}] * 3, None),
    ("idle below 0", [{"usage_idle": -1305.0}] * 3, None),
    ("idle above 100", [{"usage_idle": 30_000.0}] * 3, None),
    ("active above 100", [{"usage_active": 2_400.0}] * 3, None),
    ("a hair above 100", [{"usage_idle": 100.0000001}] * 3, 0.0),
    ("idle time that rises by a day", [{"time_idle": 100.0 + 86_400.0 * n} for n in range(3)], None),
    ("idle time that begins again", [{"time_idle": value} for value in (1e6, 20.0, 4.0)], None),
    ("idle time that falls", [{"time_idle": 1e6 - 50.0 * n} for n in range(3)], None),
    ("stolen time that leaps", [
        {"time_idle": 1e6 + 30.0 * n, "time_user": 1e4 + 10.0 * n, "time_system": 0.0, "time_steal": 8e7 * n}
        for n in range(3)], None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields", "busy"), TELEGRAF)
def test_the_cpu_of_telegraf_is_read_or_told(name, fields, busy):
    """Never 0 of what is not known; the machine is told once, and its facts have the reason."""
    assembler, done = Assembler(1, cores=4.0, facts_interval_s=10.0), list[Message]()
    for number, each in enumerate(fields):
        memory = message({"total": 100, "available": 60}, number).replace(b'"cpu"', b'"mem"', 1)
        for raw in (message(each, number), memory):
            done += assembler.take(telegraf.read_points(raw), 10.0 * number)
    done += assembler.flush(1e6)
    made = [one for one in done if isinstance(one, Sample)]
    assert [one.cpu and pytest.approx(one.cpu.mean) for one in made] == [busy] * len(made), name
    assert ("cpu" in [resource for _, resource, _ in assembler.lacking]) == (busy is None), name
    facts = [one for one in done if isinstance(one, MachineFacts)]
    assert ("cpu" in facts[-1].lacks) == (busy is None), name
