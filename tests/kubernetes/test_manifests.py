"""The manifests, as a real API server takes them: each object, validated strictly, and nothing is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_trimaran import BINARY

pytestmark = test_trimaran.pytestmark

FOLDER = Path(__file__).parents[2] / "ops/kubernetes"
NO_OBJECTS = ("Kustomization", "Component")


def test_the_api_server_takes_every_object(tmp_path: Path) -> None:
    """With a field that it does not know, it takes none."""
    objects = [
        one
        for path in sorted(FOLDER.rglob("*.yaml"))
        if path.name != "extender.yaml" or path.parent == FOLDER  # the other is a patch of it
        for one in yaml.safe_load_all(path.read_text())
        if one["kind"] not in NO_OBJECTS
    ]
    assert len(objects) > 20
    with Cluster(BINARY, tmp_path) as cluster:
        cluster.try_to_make(next(one for one in objects if one["kind"] == "Namespace"))
        cluster.apply()
        for one in objects:
            if one["kind"] != "Namespace":
                cluster.try_to_make(one)
        deployment = next(one for one in objects if one["kind"] == "Deployment")
        deployment["spec"]["replica"] = 2
        with pytest.raises(AssertionError, match="unknown field"):
            cluster.try_to_make(deployment)
