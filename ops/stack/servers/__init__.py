"""Servers and processes of a local stack: child processes on loopback that never outlive the one that started them."""
