"""A made-up machine below a folder: control groups, processes, units and disks, as files."""

GROUPS = "sys/fs/cgroup"
MIB = 2**20


class Tree:
    """Writes what `streams.agent.instances` reads. Written again, a group or process has moved on."""

    def __init__(self, root):
        self.root = root
        self.groups = root / GROUPS
        self.groups.mkdir(parents=True)
        (self.groups / "cgroup.controllers").write_text("cpu io memory pids\n")
        (root / "proc").mkdir()
        self.network(1, 0, 0)

    def group(self, path, cpu_s=0.0, memory=MIB, cache=0, io="", pids=()):
        """Add or change a control group; ``memory`` or ``io`` None: that controller is off."""
        folder = self.groups / path
        folder.mkdir(parents=True, exist_ok=True)
        used = int(cpu_s * 1e6)
        (folder / "cpu.stat").write_text(f"usage_usec {used}\nuser_usec {used}\nsystem_usec 0\nnr_periods 0\n")
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        if memory is not None:
            (folder / "memory.current").write_text(f"{memory}\n")
            (folder / "memory.stat").write_text(f"anon {memory - cache}\nfile {cache}\ninactive_file {cache}\n")
        if io is not None:
            (folder / "io.stat").write_text(io)

    def unit(self, name, folder="usr/lib/systemd/system"):
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / folder / name).write_text("[Service]\n")

    def process(self, pid, parent=1, *, cpu_ticks=0, pages=10, start=0, command="sleep 1", group="", environ=""):
        """Add or change a process; its name has what a parser trips over."""
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = ["S", parent, *[0] * 9, cpu_ticks, 0, 0, 0, 20, 0, 1, 0, start or pid, 0, pages, *[0] * 20]
        (folder / "stat").write_text(f"{pid} (a (b) c) {' '.join(map(str, fields))}\n")
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
        (folder / "environ").write_bytes(environ.replace(" ", "\0").encode() + b"\0")
        (folder / "cgroup").write_text(f"1:name=systemd:/\n0::/{group}\n")

    def network(self, pid, received, sent):
        """Add or change the network that a process sees."""
        path = self.root / "proc" / str(pid) / "net/dev"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ["Inter-|  Receive", " face |bytes", "    lo: 99 0 0 0 0 0 0 0 99 0 0"]
        path.write_text("\n".join([*lines, f"  eth0: {received} 1 0 0 0 0 0 0 {sent} 1 0"]) + "\n")

    def share_network(self, pid):
        """Have a process see the machine's own network."""
        path = self.root / "proc" / str(pid) / "net/dev"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.hardlink_to(self.root / "proc/1/net/dev")

    def disk(self, name, device, sectors, busy_ms):
        (self.root / "sys/block" / name / "device").mkdir(parents=True, exist_ok=True)
        path = self.root / "proc/diskstats"
        lines = [line for line in (path.read_text() if path.exists() else "").splitlines() if f" {name} " not in line]
        major, minor = device.split(":")
        lines.append(f"   {major}       {minor} {name} 1 0 {sectors} 1 1 0 0 1 0 {busy_ms} 1 0 0 0 0")
        path.write_text("\n".join(lines) + "\n")
