"""The collectors of the agent, one per file; a new one is a file here and an entry in the tuple."""

from streams.agent.collectors.base import Collector, Reading
from streams.agent.collectors.cpu import Cpu
from streams.agent.collectors.disk import Disk
from streams.agent.collectors.memory import Memory
from streams.agent.collectors.nic import Nic

COLLECTORS: tuple[type[Collector], ...] = (Cpu, Memory, Nic, Disk)

__all__ = ["COLLECTORS", "Collector", "Cpu", "Disk", "Memory", "Nic", "Reading"]
