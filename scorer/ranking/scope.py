"""Scope: what a plugin's values depend on, and so which of them a placement does not change.

A placement changes one machine. A kept ranking serves the next instance only while a new ranking would find the same
values for the other machines (`scorer.placement`). Each plugin states when that holds for it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from scorer.snapshot.arrays import Floats

Scope = Literal["machine", "instances", "means", "fleet"]
"""What the value of a machine depends on, besides the request and the time.

``machine``
    The columns of this machine: its load, what is allocated there, its facts.
``instances``
    These, and which instances are on this machine (`Machines.tally`: ports, clusters, labels). The scope of a plugin
    that states none.
``means``
    The columns of this machine, and means over the fleet in a known way: a score with a method ``parts``.
``fleet``
    Anything: other machines too, or the instances there.
"""

SCOPES: tuple[Scope, ...] = ("machine", "instances", "means", "fleet")


class Parts(NamedTuple):
    """The parts of a score: before it is clipped to 0-100 it is ``own - slopes @ means``.

    K is the number of means. Only ``means`` is the fleet's; one more instance like the requested one on machine i adds
    ``steps[:, i]`` to it, and does not change ``own``, ``slopes`` and ``steps`` of other machines.
    """

    own: Floats
    """[n]"""
    slopes: Floats
    """[K, n]; one more instance does not change them."""
    means: Floats
    """[K]"""
    steps: Floats
    """[K, n]; one more instance does not change them."""
