"""Reading the network interfaces."""

import re

import pytest

from streams.agent.collectors import Nic
from streams.agent.collectors.nic import Traffic, choose, read_link
from streams.agent.rises import NoReadingError
from tests.streams.agent.conftest import Sysfs

GIGABIT = 1e9 / 8


def read_nic(nic, use_proc, elapsed_s=5.0):
    """Return the reading between the two moments of tests/proc."""
    use_proc("before")
    before = nic.read()
    use_proc("after")
    return nic.parse(before, nic.read(), elapsed_s)


def test_nic_is_the_busier_direction_over_the_physical_interfaces(use_proc, sysfs):
    """505 MB were received and 110 MB sent in 5 s over two links of 1 Gbit/s; bridge, veth and lo do not count."""
    sysfs.add("lo", physical=False).add("br0", physical=False).add("vethab", physical=False, speed="10000")
    sysfs.add("eth0", master="br0").add("eth1")
    assert read_nic(Nic(sysfs=sysfs.folder), use_proc) == (pytest.approx(505e6 / 5), 2 * GIGABIT)


def test_nic_counts_a_bond_in_place_of_its_slaves(use_proc, sysfs):
    """The bond has the counters of both slaves and the speed its mode allows; the slaves would count it all twice."""
    sysfs.add("bond0", physical=False, bond=True, speed="1000")
    sysfs.add("eth0", master="bond0").add("eth1", master="bond0")
    assert read_nic(Nic(sysfs=sysfs.folder), use_proc) == (pytest.approx(505e6 / 5), GIGABIT)


@pytest.mark.parametrize(
    ("speed", "speeds", "capacity"),
    [
        pytest.param("-1", {"*": 3e9}, 3e9, id="the kernel does not know, one for all is set"),
        pytest.param(None, {"*": 3e9}, 3e9, id="the kernel fails the read"),
        pytest.param("4294967295", {"*": 3e9}, 3e9, id="the kernel writes -1 as unsigned"),
        pytest.param("1000", {"*": 3e9}, GIGABIT, id="the kernel knows, one for all is set"),
        pytest.param("1000", {"eth0": 3e9}, 3e9, id="the interface's own setting wins"),
        pytest.param("-1", {"eth0": 2e9, "*": 3e9}, 2e9, id="its own before the one for all"),
    ],
)
def test_nic_speed(use_proc, sysfs, speed, speeds, capacity):
    """A speed is the interface's configured one, else the kernel's, else the configured one for all.

    Sources of what the kernel says: node_exporter #1967, zero-os/0-core #713, sysstat_mail_report #1.
    """
    sysfs.add("eth0", speed=speed)
    assert read_nic(Nic(speeds=speeds, sysfs=sysfs.folder), use_proc) == (pytest.approx(1e8), capacity)


def test_nic_without_any_speed_has_no_capacity(use_proc, sysfs):
    """Nobody knows the speed: the capacity is None, so the resource is left out and not idle."""
    sysfs.add("eth0", speed="-1")
    with pytest.raises(NoReadingError, match="set nic_speed"):
        read_nic(Nic(sysfs=sysfs.folder), use_proc)


def test_nic_leaves_an_interface_of_unknown_speed_out(use_proc, sysfs):
    """Its traffic is not held against the others' capacity."""
    sysfs.add("eth0", speed="-1").add("eth1")
    assert read_nic(Nic(sysfs=sysfs.folder), use_proc) == (pytest.approx(100e6 / 5), GIGABIT)


def test_nic_counts_every_interface_when_the_capacity_is_given(use_proc, sysfs):
    sysfs.add("eth0", speed="-1").add("eth1", speed="-1")
    reading = read_nic(Nic(sysfs=sysfs.folder, capacity_given=True), use_proc)
    assert reading == (pytest.approx(505e6 / 5), None)


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        pytest.param(None, None, ["eth0", "eth1"], id="physical and up"),
        pytest.param(None, "eth1", ["eth0"], id="one excluded"),
        pytest.param("br0|eth1", None, ["br0", "eth1"], id="included by name, physical or not"),
        pytest.param("eth.*", "eth0", ["eth1"], id="both"),
        pytest.param(".*", None, ["br0", "eth0", "eth1", "vf0"], id="never lo, never one that is down"),
        pytest.param("eth", None, [], id="the whole name must match"),
    ],
)
def test_nic_choice(use_proc, sysfs, include, exclude, names):
    """Include replaces the physical interfaces, exclude takes away; a virtual function is not physical."""
    sysfs.add("lo", physical=False).add("br0", physical=False).add("eth0").add("eth1").add("eth2", state="down")
    sysfs.add("vf0", virtual_function=True)
    nic = Nic(re.compile(include) if include else None, re.compile(exclude) if exclude else None, sysfs=sysfs.folder)
    use_proc("before")
    nic.read()
    assert [link.name for link in nic._links] == names
    decided = "settings" if include else "kernel"
    assert nic.interfaces() == ({decided: ", ".join(names)} if names else {})


@pytest.mark.parametrize(
    ("before", "now", "usage"),
    [
        pytest.param(None, Traffic({"a": 5}, {"a": 5}, 9.0), None, id="first read"),
        pytest.param(
            Traffic({"a": 5}, {"a": 5}, 9.0), Traffic({"a": 7, "b": 999}, {"a": 6, "b": 999}, 9.0), 1.0, id="one new"
        ),
        pytest.param(
            Traffic({"a": 5, "b": 9}, {"a": 5, "b": 9}, 9.0), Traffic({"a": 7}, {"a": 9}, 9.0), 2.0, id="one gone"
        ),
        pytest.param(
            Traffic({"a": 2**32 - 6}, {"a": 0}, 9.0), Traffic({"a": 4}, {"a": 0}, 9.0), 5.0, id="a counter of 32 bits"
        ),
    ],
)
def test_nic_counters(before, now, usage):
    """A counter of 32 bits that wraps is exact; an interface that came or went is not counted across its change."""
    reading = Nic().parse(before, now, elapsed_s=2.0)
    assert (reading and reading.usage) == usage


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("received reset", Traffic({"a": 5}, {"a": 5}, 9.0), Traffic({"a": 4}, {"a": 6}, 9.0)),
        ("sent reset", Traffic({"a": 5}, {"a": 5}, 9.0), Traffic({"a": 6}, {"a": 4}, 9.0)),
        ("a leap", Traffic({"a": 5}, {"a": 5}, 9.0), Traffic({"a": 9_000}, {"a": 5}, 9.0)),
        (
            "a leap of both, within what all links carry",
            Traffic({"a": 5, "b": 5}, {}, 18.0),
            Traffic({"a": 55, "b": 55}, {}, 18.0),
        ),
        ("a leap of one of two", Traffic({"a": 5, "b": 5}, {}, 18.0), Traffic({"a": 90, "b": 5}, {}, 18.0)),
        ("a leap, speed unknown", Traffic({"a": 5}, {"a": 5}, None), Traffic({"a": 10**13}, {"a": 5}, None)),
        ("no interface", Traffic({}, {}, None), Traffic({}, {}, None)),
    ],
)
def test_nic_has_no_reading(name, before, now):
    """A counter that went back, or rose by more than its link carries; nothing that counts.

    Sources: node_exporter #1318, Diamond #663 (interfaces are reset); the leaps are made.
    """
    with pytest.raises(NoReadingError):
        Nic().parse(before, now, elapsed_s=2.0)


VIRTUAL = {"physical": False}
HOSTS = {
    "Azure: the virtual function is under the synthetic interface": (
        [("eth0", {"ifindex": "2", "iflink": "2"}), ("enP30832s1", {"master": "eth0", "virtual_function": False})],
        ["eth0"],
    ),
    "net_failover: standby and primary are under one": (
        [("ens3", {}), ("ens3nsby", {"master": "ens3"}), ("ens4", {"master": "ens3"})],
        ["ens3"],
    ),
    "switchdev: representors of functions beside the uplink": (
        [
            ("ens1f0np0", {"phys_port_name": "p0"}),
            ("ens1f0npf0vf0", {"phys_port_name": "pf0vf0"}),
            ("ens1f0npf0sf88", {"phys_port_name": "pf0sf88"}),
            ("eth5", {"phys_port_name": "c1pf0vf3"}),
            ("eth6", {"phys_port_name": "pf0vfr3"}),  # ice_repr.c
            ("eth7", {"phys_port_name": "p0pf0vf3"}),  # sfc, ef100_rep.c
        ],
        ["ens1f0np0"],
    ),
    # devlink-port documentation: the host's function, as the processor of the card itself has it
    "a card with a processor of its own: the port and the representors of the host": (
        [
            ("p0", {"phys_port_name": "p0"}),
            ("pf0hpf", {"phys_port_name": "c1pf0"}),
            ("en3f0pf0sf0", {"phys_port_name": "pf0sf0"}),
            ("pf1", {"phys_port_name": "pf1"}),
        ],
        ["p0"],
    ),
    "a port that is split": ([("swp1s0", {"phys_port_name": "p1s0"})], ["swp1s0"]),
    "two ports of one card have port names, too": (
        [("ens1f0np0", {"phys_port_name": "p0"}), ("ens1f1np1", {"phys_port_name": "p1"})],
        ["ens1f0np0", "ens1f1np1"],
    ),
    "a subfunction of a card": ([("ens1np0", {}), ("enp8s0f0s88", {"sfnum": "88"})], ["ens1np0"]),
    "a virtual function of a parent that is here": ([("eno1", {}), ("eno1v0", {"virtual_function": True})], ["eno1"]),
    "a Xen host: back ends of guests have a device": (
        [("eth0", {"subsystem": "pci"}), ("vif7.0", {"subsystem": "xen-backend"}), ("xenbr0", VIRTUAL)],
        ["eth0"],
    ),
    "a Xen guest": ([("eth0", {"subsystem": "xen"})], ["eth0"]),
    "ports of a switch (DSA) behind an interface": (
        [
            ("eth0", {"ifindex": "2", "iflink": "2"}),
            ("lan1", {"ifindex": "3", "iflink": "2"}),
            ("wan", {"ifindex": "4", "iflink": "2"}),
        ],
        ["eth0"],
    ),
    "InfiniBand with a child": (
        [("ib0", {"ifindex": "5", "iflink": "5"}), ("ib0.8001", {"ifindex": "6", "iflink": "5"})],
        ["ib0"],
    ),
    "a bond under a bridge, with a VLAN": (
        [
            ("vmbr0", VIRTUAL),
            ("bond0", {"physical": False, "bond": True, "master": "vmbr0"}),
            ("eno1", {"master": "bond0"}),
            ("eno2", {"master": "bond0"}),
            ("bond0.100", VIRTUAL),
        ],
        ["bond0"],
    ),
    "a team is no bond: its ports count": (
        [("team0", VIRTUAL), ("eno1", {"master": "team0"}), ("eno2", {"master": "team0"})],
        ["eno1", "eno2"],
    ),
    "Open vSwitch over a port": (
        [("ovs-system", VIRTUAL), ("br-ex", VIRTUAL), ("ens3", {"master": "ovs-system"})],
        ["ens3"],
    ),
    "names mean nothing": ([("br-lan", {}), ("veth-uplink", {}), ("eth0", VIRTUAL)], ["br-lan", "veth-uplink"]),
}
"""By host: its interfaces, and those that count. Sources: the kernel's drivers netvsc_drv.c (netvsc_vf_join),
failover.c, Documentation/networking/{switchdev,representors,dsa}, mlx5 devlink port naming, xen-netback, ipoib."""


@pytest.mark.parametrize("number, links, names", [(n, *row) for n, row in enumerate(HOSTS.values())], ids=HOSTS)
def test_the_kernel_says_which_interfaces_are_the_same_traffic(tmp_path, number, links, names):
    sysfs = Sysfs(tmp_path / str(number) / "net")
    for name, more in links:
        sysfs.add(name, **more)
    found = choose([read_link(path) for path in sorted(sysfs.folder.iterdir())], None, None)
    assert sorted(link.name for link in found) == names


def test_a_virtual_function_whose_parent_has_no_interface_counts(sysfs):
    """Its parent is given to another driver, so nothing else here counts the traffic."""
    sysfs.add("eth0", virtual_function=True)
    (sysfs.folder / "eth0/device/physfn/net").mkdir()
    assert read_link(sysfs.folder / "eth0").physical
