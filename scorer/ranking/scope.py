"""Scope: what a plugin's values depend on, and so which of them a placement leaves as they are.

A placement changes one machine. A kept ranking serves the next instance only while a new ranking would find the same
values for the other machines (`scorer.placement`). Each plugin states when that holds for it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from scorer.snapshot.arrays import Floats

Scope = Literal["machine", "instances", "means", "fleet"]
"""What the value of a machine depends on, beside the request and the time.

``machine``
    The columns of this machine: its load, the sums of what is promised there, its facts.
``instances``
    These, and which instances are on this machine (`Machines.tally`: ports, clusters, labels). What a plugin has that
    states no scope.
``means``
    The columns of this machine, and means over the fleet in a known way: a score with a method ``parts``.
``fleet``
    Anything: other machines too, or the instances there.
"""

SCOPES: tuple[Scope, ...] = ("machine", "instances", "means", "fleet")


class Parts(NamedTuple):
    """A score taken apart: before it is clipped to 0-100 it is ``own - slopes @ means``.

    K is the number of means. Only ``means`` is the fleet's; one more instance like the instance on machine i adds
    ``steps[:, i]`` to it, and changes ``own``, ``slopes`` and ``steps`` of no other machine.
    """

    own: Floats
    """[n]"""
    slopes: Floats
    """[K, n]; one more instance does not change them."""
    means: Floats
    """[K]"""
    steps: Floats
    """[K, n]; one more instance does not change them."""
