"""The whole stack on this machine: `windward up`."""
