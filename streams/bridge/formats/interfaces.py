"""Which interfaces of a scraped page count: no traffic twice. Pure.

A page has no /sys of its host, but some of the facts from there. They decide first, a rule of names last:

    operstate         an interface that is down has nothing to say
    flags             loopback; a tunnel from point to point; a part of a bond, or a function below a cloud's interface
    iface_link        other than its own number: a VLAN, a container's link, a port behind another interface
    address           several with one address are one link: the bond or team, else what is no bridge by its name
    name_assign_type  a program has made it, and it is no bond: a bridge, a vxlan, a dummy
    speed             where some speeds are known, an interface of unknown speed is none that leaves the machine
    name              `NOT_PHYSICAL`, or what ``--excluded`` gives in its place

Without the last of these a bridge, a dummy and the end of a vxlan have facts like those of a NIC, but for their names.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

_BEGINS = (
    # containers and Kubernetes: Docker, podman, CNI, Calico, Cilium, Azure, GKE, Antrea, Weave, kube-router, nspawn
    "docker|podman|cni|flannel|cali|vxlan|lxc|cilium|azv|gke[0-9a-f]{8}|antrea|weave|nodelocaldns|v[bez]-|mv-|silk|gw_|"
    "kube|kilo|netmaker|eni[0-9a-f]{8}|hassio|nerdctl|nomad|pod-id-link|submariner|pkt\\d|"
    # virtual machines: libvirt, Proxmox, Xen, OpenStack, LXD, OVN, oVirt, CloudStack, ESXi, Windows
    "fwln|fwpr|vif|xapi|qvb|qvo|qvs|qg-|qr-|o-b?hm|lxd|incus|ovs|ovirt|cloud\\d|;vdsm|ln_|pr_|vm-|vmk|"
    "k6t-|ovn|genev|patch-|epair|e\\d+[ab]_|ipvl|macvlan|vboxnet|vhost|vmnet|vEthernet|Bluetooth|VirtualBox|"
    # tunnels and what carries nothing
    "a?wg|tailscale|zt|erspan|ip_vti|ip6|sit\\d|nlmon|ifb|teql|pan\\d|pppo?e?|l2tp|nebula|netbird|clash|mihomo|"
    "6in4|6to4|bat\\d|gif|gpd|ipsec|nat64|nordlynx|stf|[tT]eredo|tinc|vti|xfrm|vrf|pim6?reg|proton|ygg|ham\\d|"
    "vx-|wt\\d|liqo|bpf|wireguard|n?pflog|pfsync|mirror|(sl|vx?)?can\\d|canloop|hwsim|p2p-dev|macsec|hsr\\d|prp\\d|"
    "siderolink|slirp|defguard|tmfifo|dum\\d|peth\\d|"
    # pseudo-devices of macOS and of BSD
    "an[pr]i\\d|ap\\d|awdl|llw|vmenet|feth|XHC|vnic\\d|enc\\d$|vether\\d|etherip|usbus|ng\\d|ngeth|pair\\d|veb\\d|vport|tpmr|carp|"
    # disks: what lies on other ones, and what is none
    "loop|z?ram\\d|dm-|md[\\d_]|sr\\d|fd\\d|bcache|drbd|zd\\d"
)
_HAS = r"tun|tap|vpn|vlan|Vlan|veth|vnet|vtep|dummy|br\d|brdg|[-_]br|gre[-_\d]|WARP|Loopback|Pseudo-I|VMnet|tion\*"
NOT_PHYSICAL = (
    rf"lo\d*|all|[Bb]r.*|({_BEGINS}).*|.*({_HAS}).*|(?!enccw).*[.:]\d+|.+-[0-9a-f]{{6,}}|[0-9a-f]{{12,15}}(_.*)?|"
    r"en.+[vr_]\d+|eth\d+vf?\d+|enP\d{3,}s\d+.*|.*pf\d+(hpf|[vs]f\d+)|wl.+mon"
)
"""Interfaces and disks whose traffic passes another one as well, or none; ``enP30832s1`` is below Azure's ``eth0``."""
_BY_NAME = re.compile(NOT_PHYSICAL)
_DOWN = ("down", "lowerlayerdown", "notpresent")
_BY_USER = 3
"""``NET_NAME_USER``: who made the interface named it. A driver's is named by the kernel, or renamed by udev."""
_LOOPBACK, _POINT_TO_POINT, _MASTER, _SLAVE = 0x8, 0x10, 0x400, 0x800


@dataclass
class Interface:
    """The metrics of one interface on a page."""

    operstate: str = ""
    address: str = ""
    flags: int = 0
    number: float = 0.0
    link: float = 0.0
    """The number of the interface below; its own where there is none, 0 where it is elsewhere."""
    named: int = 0
    """The kernel's ``name_assign_type``; 0 where it is unknown."""
    speed: float = 0.0
    """Bytes/s, not above 0 where it is unknown."""

    @property
    def why_not(self) -> str:
        """The reason why it does not count, from its own metrics; "" without one."""
        if self.operstate in _DOWN:
            return f"it is {self.operstate}"
        if self.flags & _LOOPBACK:
            return "loopback"
        if self.flags & _POINT_TO_POINT:
            return "a tunnel"
        if self.number and self.link and self.number != self.link:
            return "on another interface, or the end of a container's link"
        return ""


def left_out(interfaces: Mapping[str, Interface], excluded: str = NOT_PHYSICAL) -> dict[str, str]:
    """Return by name why an interface does not count, without the rule of names.

    With a rule of one's own, ``excluded``, what a program has made counts: a host's NIC may be such a one.

    >>> left_out({"eth0": Interface(address="0a"), "enP1s1": Interface(address="0a", flags=0x800)})
    {'enP1s1': 'the same link as eth0'}
    """
    why = {name: reason for name, one in interfaces.items() if (reason := one.why_not)}
    bonded = any(one.flags & _MASTER for name, one in interfaces.items() if name not in why)
    links = defaultdict[str, list[str]](list)
    for name, one in interfaces.items():
        if name in why:
            continue
        if bonded and one.flags & _SLAVE:
            why[name] = "a part of a bond"
        elif one.address.strip("0:"):
            links[one.address].append(name)
    for names in links.values():
        made = [name for name in names if interfaces[name].named == _BY_USER]
        team = len(made) == 1 and len(names) > 2 and interfaces[made[0]].speed > 0
        best = made[0] if team else min(names, key=lambda name: _place(name, interfaces[name]))
        why |= {name: f"the same link as {best}" for name in names if name != best}
    shared = {name for names in links.values() if len(names) > 1 for name in names}
    for name, one in interfaces.items() if excluded == NOT_PHYSICAL else ():
        if name not in why and name not in shared and one.named == _BY_USER and not one.flags & _MASTER:
            why[name] = "a program has made it"
    left = [name for name in interfaces if name not in why and not _BY_NAME.fullmatch(name)]
    if any(interfaces[name].speed > 0 for name in left):
        why |= {name: "its speed is unknown" for name in left if interfaces[name].speed <= 0}
    return why


def counts(interfaces: Mapping[str, Interface], excluded: str) -> dict[str, str]:
    """Return by name why an interface does not count, "" if it counts. ``excluded``: the rule of names."""
    why, pattern = left_out(interfaces, excluded), re.compile(excluded)
    return {name: why.get(name, "its name" if pattern.fullmatch(name) else "") for name in interfaces}


def _place(name: str, one: Interface) -> tuple[bool, bool, bool, bool, float, str]:
    """Return the sort key of interfaces with one address: the first of them counts for all."""
    virtual = _BY_NAME.fullmatch(name) is not None
    return bool(one.flags & _SLAVE), not one.flags & _MASTER, virtual, one.speed <= 0, one.number, name
