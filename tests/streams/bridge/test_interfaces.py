"""Which interfaces of a page count: no traffic twice, on hosts as they are."""

import json
from typing import Any

import pytest

from schemas.messages.sample import MachineFacts
from streams.bridge.formats import telegraf
from streams.bridge.formats.assembler import Assembler
from streams.bridge.formats.interfaces import NOT_PHYSICAL, counts
from streams.bridge.formats.node_exporter import interfaces, points, read_page
from streams.bridge.formats.points import Point

UP, MASTER, SLAVE, POINT = 0x1003, 0x1403, 0x1803, 0x10D1


def page(*links):
    """A page of some interfaces; each says what is given of it, and has traffic."""
    lines = ["node_memory_MemTotal_bytes 1e9"]
    for name, more in links:
        lines.append(f'node_network_receive_bytes_total{{device="{name}"}} 5')
        info = ",".join(f'{key}="{more[key]}"' for key in ("address", "operstate") if key in more)
        if info:
            lines.append(f'node_network_info{{broadcast="ff",device="{name}",duplex="",ifalias="",{info}}} 1')
        metrics = {"flags": "flags", "number": "iface_id", "link": "iface_link", "named": "name_assign_type"}
        for key, metric in metrics.items():
            if key in more:
                lines.append(f'node_network_{metric}{{device="{name}"}} {more[key]}')
        if "speed" in more:
            lines.append(f'node_network_speed_bytes{{device="{name}"}} {more["speed"]}')
    return "\n".join(lines).encode()


def names(*links, speed=None):
    """Interfaces of which the page has the name alone, or one speed for all as well."""
    return [(name, {} if speed is None else {"speed": speed}) for name in links]


NAMED = """
eth0 eno1 ens5 enp0s31f6 enx001122334455 enP1p3s0 enP2s1f0 wlp2s0 ib0 hsn0 team0 em1 end0 env3 enp0s20u1c2 vtnet0
p2p1_1
"""
HOSTS = {
    "Calico, vxlan": (names("lo", "ens192", "vxlan.calico", "cali0a1b2c3d4e5", "tunl0"), ["ens192"]),
    "Calico, with speeds of links of containers": (
        [("ens192", {"speed": 1.25e9}), ("cali0a1b2c3d4e5", {"speed": 1.25e9}), ("vxlan.calico", {})],
        ["ens192"],
    ),
    "Cilium": (
        names("lo", "eth0", "cilium_net", "cilium_host", "cilium_vxlan", "lxc_health", "lxc0123456789ab"),
        ["eth0"],
    ),
    "EKS": (names("lo", "eth0", "ens6", "eni0f2b1c3d4e5", "vlan.eth.1", "dummy0"), ["ens6", "eth0"]),
    "AKS": (names("lo", "eth0", "azv1234567890a", "azvdeadbeef012"), ["eth0"]),
    "AKS, accelerated": (
        [
            ("eth0", {"address": "00:0d:3a:01:02:03", "operstate": "up", "flags": UP, "speed": 6.25e9}),
            ("enP30832s1", {"address": "00:0d:3a:01:02:03", "operstate": "up", "flags": SLAVE, "speed": 6.25e9}),
            ("azv1234567890a", {"address": "aa:aa:aa:aa:aa:aa", "operstate": "up", "speed": 1.25e9}),
        ],
        ["eth0"],
    ),
    "GKE": (names("lo", "eth0", "gke52a1b3c4d5e", "cbr0", "nodelocaldns"), ["eth0"]),
    "OVN-Kubernetes": (
        [
            ("ens3", {"address": "fa:16:3e:00:00:01", "operstate": "up", "speed": 1.25e9}),
            ("br-ex", {"address": "fa:16:3e:00:00:01", "operstate": "unknown"}),
            *names("ovs-system", "br-int", "ovn-k8s-mp0", "genev_sys_6081", "0a1b2c3d4e5f6_3"),
        ],
        ["ens3"],
    ),
    "Proxmox": (
        [
            ("eno1", {"address": "d0:50:99:00:00:01", "operstate": "up", "speed": 1.25e8, "number": 2, "link": 2}),
            ("vmbr0", {"address": "d0:50:99:00:00:01", "operstate": "up", "speed": 1.25e8, "number": 3, "link": 3}),
            *names("tap100i0", "fwbr100i0", "fwpr100p0", "fwln100i0", "veth101i0", speed=1.25e9),
        ],
        ["eno1"],
    ),
    "podman": (names("lo", "enp1s0", "podman0", "cni-podman0", "veth0", "podman1"), ["enp1s0"]),
    "Docker, swarm": (names("lo", "eth0", "docker0", "docker_gwbridge", "br-18285ad7f418", "vethe6cdee0"), ["eth0"]),
    "libvirt": (names("lo", "enp3s0", "virbr0", "virbr0-nic", "vnet7", "macvtap0"), ["enp3s0"]),
    "LXD": (names("lo", "eth0", "lxdbr0", "lxdbr0-mtu", "tapdeadbeef", "incusbr0"), ["eth0"]),
    "OpenStack": (names("lo", "bond0", "brq1234-56", "qbr1234", "qvo1234", "qvb1234", "tap1234", "qg-12"), ["bond0"]),
    "k3s, flannel": (names("lo", "eth0", "flannel.1", "cni0", "kube-ipvs0", "kube-bridge"), ["eth0"]),
    "Antrea, Weave": (names("lo", "eth0", "antrea-gw0", "antrea-tun0", "weave", "vxlan-6784"), ["eth0"]),
    "tunnels": (names("lo", "eth0", "wg0", "tailscale0", "ztabcdefgh", "gre0", "erspan0", "ip6tnl0", "sit0"), ["eth0"]),
    # systemd.net-naming-scheme: v for virtual functions, r for representors
    "virtual functions and representors": (
        names("ens1f0np0", "ens1f0v3", "enp8s0f0npf0vf0", "enp8s0f0npf0sf88", "enp8s0f0np0r3", speed=1.25e9),
        ["ens1f0np0"],
    ),
    # documentation of Contrail, Nomad, nerdctl, Amazon ECS, Home Assistant, FreeBSD's epair(4)
    "other bridges and ends": (
        names("lo0", "eth0", "vhost0", "nomad", "nerdctl0", "pod-id-link0", "hassio", "epair0a", "macvlan0", "ipvl_1"),
        ["eth0"],
    ),
    "other tunnels": (
        names("eth0", "xfrm0", "vti0", "ipsec0", "nordlynx", "cscotun0", "gpd0", "6in4-wan", "bat0", "nat64", "eth0:1"),
        ["eth0"],
    ),
    # documentation of Calico (WireGuard, eBPF), Submariner, Liqo, NetBird, NetworkManager, KubeVirt; systemd: a hotplug
    # slot of another PCI domain is a function below Azure's interface, and a channel device of IBM Z has dots
    "Calico, WireGuard and eBPF": (
        names("eth0", "wireguard.cali", "wg-v6.cali", "bpfin.cali", "bpfout.cali"),
        ["eth0"],
    ),
    "ends of clusters and meshes": (
        names("eth0", "vx-submariner", "liqo.host", "liqo-tunnel", "wt0", "nm-tun0", "k6t-eth0", "vrf-blue", "pflog0"),
        ["eth0"],
    ),
    # Firecracker, Cloud Hypervisor; OVN-Kubernetes and Kube-OVN name a pod's end after its container
    "ends by their makers": (names("eth0", "vmtap0", "fc-1-tap0", "0a1b2c3d4e5f678", "0a1b2c3d4e5f_h"), ["eth0"]),
    "Azure, by names": (names("eth0", "enP30832s1", "enP5310s1np0", speed=6.25e9), ["eth0"]),
    "Azure, without flags": (
        [("eth0", {"address": "00:0d", "speed": 6.25e9}), ("enP30832s1", {"address": "00:0d", "speed": 6.25e9})],
        ["eth0"],
    ),
    "IBM Z": (names("lo", "enccw0.0.0600", "enc600", "enc600.7"), ["enc600", "enccw0.0.0600"]),
    "a tunnel under any name": (
        [("eth0", {"flags": UP}), ("office", {"flags": POINT}), ("lo", {"flags": 0x9})],
        ["eth0"],
    ),
    "a VLAN and a container's link under any name": (
        [
            ("eth0", {"number": 2, "link": 2}),
            ("storage", {"number": 5, "link": 2}),
            ("a1b2c3d4", {"number": 9, "link": 3}),
        ],
        ["eth0"],
    ),
    "a bond": (
        [
            ("bond0", {"address": "d0:01", "operstate": "up", "flags": MASTER, "speed": 2.5e9}),
            ("eno1", {"address": "d0:01", "operstate": "up", "flags": SLAVE, "speed": 1.25e9}),
            ("eno2", {"address": "d0:01", "operstate": "up", "flags": SLAVE, "speed": 1.25e9}),
            ("eno3", {"address": "d0:03", "operstate": "up", "flags": UP, "speed": 1.25e9}),
        ],
        ["bond0", "eno3"],
    ),
    "a bond whose members keep their addresses": (
        [
            ("bond0", {"address": "d0:01", "flags": MASTER}),
            ("ib0", {"address": "d0:01", "flags": SLAVE}),
            ("ib1", {"address": "d0:02", "flags": SLAVE}),
        ],
        ["bond0"],
    ),
    "a bond under a bridge and a VLAN": (
        [
            ("bond0", {"address": "d0:01", "flags": MASTER, "number": 4, "link": 4}),
            ("vmbr0", {"address": "d0:01", "flags": UP, "number": 6, "link": 6}),
            ("bond0.7", {"address": "d0:01", "flags": UP, "number": 7, "link": 4}),
            ("eno1", {"address": "d0:01", "flags": SLAVE, "number": 2, "link": 2}),
        ],
        ["bond0"],
    ),
    "a port without a cable": (
        [("eno1", {"operstate": "up", "speed": 1.25e8}), ("eno2", {"operstate": "down", "speed": 1.25e9})],
        ["eno1"],
    ),
    "Waydroid, a bridge of one's own, and a bond": (
        [
            ("wlp2s0", {"address": "d0:01", "named": 4}),
            ("eth1", {"address": "d0:02", "named": 1}),
            ("waydroid0", {"address": "00:16", "named": 3}),
            ("lan", {"address": "d0:05", "named": 3}),
            ("bond0", {"address": "d0:03", "flags": MASTER, "named": 3}),
        ],
        ["bond0", "eth1", "wlp2s0"],
    ),
    "a team, whose ports have its address": (
        [
            ("team0", {"address": "d0:01", "flags": UP, "named": 3, "number": 9, "speed": 2.5e9}),
            ("eno1", {"address": "d0:01", "flags": UP, "named": 4, "number": 2, "speed": 1.25e9}),
            ("eno2", {"address": "d0:01", "flags": UP, "named": 4, "number": 3, "speed": 1.25e9}),
        ],
        ["team0"],
    ),
    "a bridge that is named like a NIC": (
        [("eno1", {"address": "d0:01", "speed": 1.25e8}), ("lan", {"address": "d0:01"})],
        ["eno1"],
    ),
    "what is unknown beside a known speed": ([("eno1", {"speed": 1.25e8}), ("mystery", {"speed": -125000})], ["eno1"]),
    "a virtual machine: no speed is known": (names("lo", "eth0", "eth1"), ["eth0", "eth1"]),
    "two ports": (names("eno1", "eno2", speed=1.25e9), ["eno1", "eno2"]),
    "names of the kernel and of systemd": (names(*NAMED.split()), sorted(NAMED.split())),
}
"""By host: what its page says, and the interfaces that count. Sources: netclass_linux.go and fixtures/sys of
node_exporter; ABI/testing/sysfs-class-net; documentation of the network plugins named; issues 18185, 18384 of netdata,
1184 of rezolus."""


@pytest.mark.parametrize("links, wanted", HOSTS.values(), ids=HOSTS)
def test_no_traffic_is_counted_twice(links, wanted):
    """What the page tells decides first; a rule of names last."""
    found = counts(interfaces(read_page(page(*links))), NOT_PHYSICAL)
    assert sorted(name for name, why in found.items() if not why) == wanted, found


_NET = json.dumps(
    {"name": "net", "tags": {"host": "m", "interface": "eth0"}, "fields": {"bytes_recv": 5}, "timestamp": 1}
)
_AZURE = HOSTS["AKS, accelerated"][0]
_MADE = [("dmz", {"address": "d0:07", "named": 3, "speed": 1e9})]

CHOICES = [
    # name, points of one moment, settings of the bridge, what the facts say
    ("a page that tells", points("m", 1.0, read_page(page(*_AZURE))), {}, {"page": "eth0"}),
    ("its rule replaced", points("m", 1.0, read_page(page(*_AZURE))), {"excluded": "lo"},
     {"page": "azv1234567890a, eth0"}),
    ("names and speeds", points("m", 1.0, read_page(page(*names("eth0", "br0", speed=1e9)))), {}, {"names": "eth0"}),
    ("made by a program", points("m", 1.0, read_page(page(*_MADE))), {}, {}),
    ("made by a program, and chosen", points("m", 1.0, read_page(page(*_MADE)), excluded="lo"), {"excluded": "lo"},
     {"page": "dmz"}),
    ("without a speed", points("m", 1.0, read_page(page(*names("eth0")))), {}, {}),
    ("a speed that is set", points("m", 1.0, read_page(page(*names("eth0")))), {"nic_speed": 1e9}, {"names": "eth0"}),
    ("Telegraf", telegraf.read_points(_NET.encode()), {"nic_speed": 1e9}, {"names": "eth0"}),
    ("a rule of one's own", telegraf.read_points(_NET.encode()), {"nic_speed": 1e9, "excluded": "lo"},
     {"settings": "eth0"}),
    ("any text as a name", [Point("m", 1.0, "received", name, 1.0) for name in ("a\x1b", "b" * 300)],
     {"nic_speed": 1e9}, {"names": "a?, " + "b" * 196}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "found", "settings", "said"), CHOICES)
def test_the_facts_say_which_interfaces_count(name, found, settings, said):
    """And what decided it: the page, the rule of names, or a rule that the bridge was given."""
    memory = [Point("m", 1.0, "memory_total", "", 2.0), Point("m", 1.0, "memory_used", "", 1.0)]
    assembler = Assembler(1, **settings)
    done = assembler.take([*found, *memory], 0.0) + assembler.flush(1e6)
    (facts,) = [one for one in done if isinstance(one, MachineFacts)]
    assert facts.interfaces == said, name


def test_facts_of_a_moment_without_the_network_keep_what_was_known():
    """Some agents send each resource at a time of its own."""
    assembler = Assembler(1, nic_speed=1e9, facts_interval_s=10.0)
    done = list[Any]()
    for at in (0.0, 20.0):
        done += assembler.take([Point("m", at, "memory_total", "", 2.0), Point("m", at, "memory_used", "", 1.0)], at)
        done += assembler.take([Point("m", at + 5.0, "received", "eth0", 1.0)], at + 5.0)
    assert [one.interfaces for one in done if isinstance(one, MachineFacts)] == [{}, {"names": "eth0"}]
