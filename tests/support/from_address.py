"""Runs a module of Python whose connections come from an address of its own.

python -m tests.support.from_address ADDRESS MODULE [ARGUMENT ...]
"""

import runpy
import socket
import sys


def come_from(address):
    """Have every later TCP connection of this process come from an address of this host."""

    class Bound(socket.socket):
        def connect(self, there):
            if self.family == socket.AF_INET:
                self.bind((address, 0))
            super().connect(there)

    socket.socket = Bound


if __name__ == "__main__":
    _, own, module, *rest = sys.argv
    come_from(own)
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
