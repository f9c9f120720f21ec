"""The resources Windward measures, in the order of every resource axis.

| name   | unit    | what is measured                                             |
|--------|---------|--------------------------------------------------------------|
| cpu    | cores   | busy time over the reading interval                          |
| memory | bytes   | total less available                                         |
| nic    | bytes/s | the busier of received and sent, over the physical interfaces |
"""

from __future__ import annotations

RESOURCES = ("cpu", "memory", "nic")
CPU, MEMORY, NIC = range(len(RESOURCES))
UNITS = {"cpu": "cores", "memory": "bytes", "nic": "bytes/s"}

PRIORITY_CLASSES = ("prod", "mid", "batch", "free")
"""Koordinator's priority classes, in falling order; a sample may split its usage by them."""
