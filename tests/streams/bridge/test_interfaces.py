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


BY_NAMES = """
Calico: ens192 / vxlan.calico vxlan-v6.calico cali0a1b2c3d4e5 tunl0 wireguard.cali wg-v6.cali bpfin.cali bpfout.cali
Cilium: eth0 enX0 / cilium_net cilium_host cilium_vxlan cilium_wg0 cilium_geneve lxc_health lxc0123456789ab
EKS: eth0 ens6 / eni0f2b1c3d4e5 vlan.eth.1 dummy0 pod-id-link0
AKS: eth0 / azv1234567890a azvdeadbeef012 enP30832s1 enP5310s1np0 enP827s1
GKE: eth0 eth1 / gke52a1b3c4d5e cbr0 nodelocaldns cilium_vxlan veth1234
Kube-OVN: eth0 / ovn0 mirror0 ovs-system br-int br-provider 0a1b2c3d4e5f_h 0a1b2c3d4e5f678 vxlan_sys_4789
Antrea, Weave: ens3 / antrea-gw0 antrea-tun0 coredns--3f2d1a nginx-6d-aa21c0 genev_sys_6081 weave vxlan-6784
k3s, kube-router: eth0 / flannel.1 cni0 kube-ipvs0 kube-bridge kube-dummy-if tun-10.0.0.1
clusters of clusters: eth0 / vx-submariner submariner liqo.host liqo-tunnel wt0 nm-tun0 k6t-eth0 netbird0
Docker, podman, Nomad: enp1s0 / docker0 docker_gwbridge br-18285ad7f418 podman1 cni-podman0 nomad nerdctl0 hassio
Huawei CCE: eth0 eth1 / gw_11cbf51a vetha1 vxlan_sys_4789
Cloud Foundry, nspawn: eth0 / wbrdg-0aff0000 s-010255001002 silk-vtep ve-web vb-db vz-zone mv-enp1s0
libvirt, LXD: enp3s0 / virbr0 virbr0-nic vnet7 macvtap0 lxdbr0 lxdbr0-mtu tapdeadbeef incusbr0 lxdovn1 incusovn1
Kata, Firecracker: eth0 / br0_kata tap0_kata vmtap0 fc-1-tap0 fc-tap-1 fcbr0
OpenStack: bond0 eth0 / brq1234-56 qbr1234 qvo1234 qvb1234 tap1234 qg-12 o-hm0 o-bhm0 br-tun
Proxmox: eno1 ens18 / vmbr0 vmbr0v100 fwpr100p0 fwln100i0 ln_zone1 pr_zone1 vrf_z1 vrfbr_z1 vrfvx_z1
CloudStack, oVirt: enp1s0 / cloud0 cloudbr0 breth0-100 brbond0-200 vnet12 ovirtmgmt ;vdsmdummy;
Harvester, Nutanix: ens3f0 eth1 / mgmt-br vlan-br br0 br0.local br.mx virbr0 tap0
OpenShift, Talos: ens192 / br0 vxlan_sys_4789 tun0 kubespan siderolink teql0
BlueField: p0 p1 oob_net0 / pf0hpf en3f0pf0sf0 tmfifo_net0
VyOS: eth0 eth1 / dum0 peth0 pim6reg wg01 geneve0
on a NIC: eth0 ens1f0np0 / macsec0 hsr0 prp0 slirp0 defguard0 ens1f0np0_7
Xen, ESXi: eth0 vmnic1 / xenbr0 xapi0 vif1.0 vmk0 vmk1
Contrail: eth0 / vhost0 pkt0 pkt1 tapdeadbeef-12
servers at home: eth0 bond1 / shim-br0 ovs_eth0 qvs0 tun1000 docker0 br0 sit0 vhost0
OpenWrt: eth0 phy0-ap0 wlan0 / br-lan eth0.1 pppoe-wan ifb4eth0 gre4t-office wlan0mon
switches: Ethernet0 et1 ma1 swp1 / Bridge Vlan10 Loopback0 vlan10 mirror1 pimreg docker0
functions by udev: eth0 eth10 ens1f0np0 / eth0v0 eth1v12 eth0vf3 ens1f0v3 enp8s0f0npf0vf0 enp8s0f0np0r3
PCI domains: enP2p3s0 enP48p1s0f0 enP32789p1s0 enP5s1f0 / lo
IBM Z: enccw0.0.0600 enc600 / enc600.7
GPUs: eth1 gpu0rdma0 ibp65s0 hsn3 / ib0.8001
macOS: en0 en5 / lo0 gif0 stf0 anpi0 ap1 anri0 awdl0 llw0 utun0 bridge100 vmenet0 vmnet8 feth4823 XHC20 pktap0 vnic0
FreeBSD: igb0 ix0 vtnet0 lagg0 / lo0 pflog0 pfsync0 enc0 epair0a e0a_web vm-public tap0 vnet0.12 usbus0 ng0_web ngeth0
pfSense, OPNsense: igb1 vmx0 / ovpns1 ovpnc2 enc0 ipsec1 tun_wg0 vlan01 igc0_vlan10 vlan0.0002
OpenBSD, NetBSD: em0 vio0 wm0 vioif0 / vether0 pair0 veb0 vport0 tpmr0 carp0 svlan0 etherip0 nvgre0 egre0 npflog0
illumos: e1000g0 net0 p2p1_1 / lo0 vnic1
tunnels: eth0 green0 / wg0 awg0 tailscale0 ztabcdefgh gre0 erspan0 ip6tnl0 xfrm0 vti0 nordlynx cscotun0 gpd0
more tunnels: eth0 / 6in4-wan bat0 nat64 eth0:1 ygg0 CloudflareWARP outline-tun0 vpn_vpn
still more tunnels: eth0 / wg0-mullvad zcctun0 clash0 vrf-blue
buses: eth0 end0 / can0 vcan0 slcan0 hwsim0 p2p-dev-wlp2s0
names of the kernel and of systemd: eno1 enp0s31f6 enx001122334455 enP1p3s0 enP2s1f0 wlp2s0 ib0 hsn0 team0 em1 env3
names of one's own: lan0 wan0 mgmt0 nic0 public storage uplink0 dmz bond-mgmt eth-mgmt srv0 site-a enxfeedbeef0001 / lo
"""
WINDOWS = (
    ["Ethernet", "Ethernet 2", "Wi-Fi"],
    ["vEthernet (WSL)", "Loopback Pseudo-Interface 1", "Local Area Connection* 1", "Bluetooth Network Connection",
     "Teredo Tunneling Pseudo-Interface", "VMware Network Adapter VMnet8", "VirtualBox Host-Only Network"],
)  # fmt: skip


@pytest.mark.parametrize("line", [*BY_NAMES.strip().splitlines(), WINDOWS])
def test_which_interfaces_count_by_their_names_alone(line):
    """The documentation of each kind of host, and systemd.net-naming-scheme."""
    kinds = line if isinstance(line, tuple) else [part.split() for part in line.split(": ")[1].split(" / ")]
    wanted, others = [*kinds, []][:2]
    found = counts(interfaces(read_page(page(*names(*wanted, *others)))), NOT_PHYSICAL)
    assert {name for name, why in found.items() if not why} == set(wanted)


HOSTS = {
    "Calico, with speeds of links of containers": (
        [("ens192", {"speed": 1.25e9}), ("cali0a1b2c3d4e5", {"speed": 1.25e9}), ("vxlan.calico", {})],
        ["ens192"],
    ),
    "AKS, accelerated": (
        [
            ("eth0", {"address": "00:0d:3a:01:02:03", "operstate": "up", "flags": UP, "speed": 6.25e9}),
            ("enP30832s1", {"address": "00:0d:3a:01:02:03", "operstate": "up", "flags": SLAVE, "speed": 6.25e9}),
            ("azv1234567890a", {"address": "aa:aa:aa:aa:aa:aa", "operstate": "up", "speed": 1.25e9}),
        ],
        ["eth0"],
    ),
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
    # systemd.net-naming-scheme: v for virtual functions, r for representors
    "virtual functions and representors": (
        names("ens1f0np0", "ens1f0v3", "enp8s0f0npf0vf0", "enp8s0f0npf0sf88", "enp8s0f0np0r3", speed=1.25e9),
        ["ens1f0np0"],
    ),
    "Azure, by names": (names("eth0", "enP30832s1", "enP5310s1np0", speed=6.25e9), ["eth0"]),
    "Azure, without flags": (
        [("eth0", {"address": "00:0d", "speed": 6.25e9}), ("enP30832s1", {"address": "00:0d", "speed": 6.25e9})],
        ["eth0"],
    ),
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
    "two ports": (names("eno1", "eno2", speed=1.25e9), ["eno1", "eno2"]),
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
