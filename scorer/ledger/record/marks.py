"""Labels that say how an instance, or a machine, is treated. Deployers may set them, too."""

from __future__ import annotations

MOVABLE = "movable"
"""An instance whose label of this name is ``false`` is never moved."""
DAEMON = "daemon"
"""An instance whose label of this name is ``true`` is of its machine: it ends with it. An empty one may have some."""
CLUSTER = "kubernetes"
"""The label that says which cluster of Kubernetes an instance, or a machine, is of."""
PODS = "kubernetes-pods"
"""The label of a machine that says how many pods it takes."""
