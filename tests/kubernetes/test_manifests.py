"""The manifests, as kubectl renders them and a real API server takes them; what their accounts may do.

The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

import shutil

import pytest
import yaml

from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import MANIFESTS
from tests.kubernetes.test_trimaran import BINARY

pytestmark = test_trimaran.pytestmark

COMPONENTS = sorted(path.parent.name for path in MANIFESTS.glob("*/kustomization.yaml"))
WITH = [[], *([one] for one in COMPONENTS), COMPONENTS]
EXTENDER, EVICTOR, FOLLOWER = "windward-extender", "windward-evictor", "windward-pods"
RIGHTS = {
    EXTENDER: {"pods get", "pods/binding create"},
    EVICTOR: {"pods get", "pods/eviction create"},
    FOLLOWER: {"pods list", "pods watch", "nodes list", "nodes watch"},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(BINARY, tmp_path_factory.mktemp("cluster")) as made:
        made.apply()
        yield made


def chosen(folder, components):
    """Choose components as the page says: by a line in the customization."""
    copy = folder / "kubernetes"
    shutil.copytree(MANIFESTS, copy)
    with (copy / "kustomization.yaml").open("a") as file:
        file.write(f"components: [{', '.join(components)}]\n")
    return copy


@pytest.mark.parametrize("components", WITH, ids="+".join)
def test_the_api_server_takes_what_kubectl_renders(components, cluster, tmp_path):
    """Every object, validated strictly: base, each component, all of them."""
    folder = chosen(tmp_path, components)
    rendered = cluster.kubectl("kustomize", folder)
    assert rendered.returncode == 0, rendered.stderr
    objects = list(yaml.safe_load_all(rendered.stdout))
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "--kustomize", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("server dry run") == len(objects) > 20
    names = {f"{one['kind']}/{one['metadata']['name']}" for one in objects}
    assert ("Deployment/windward-evictor" in names) is ("evictor" in components)
    assert ("Deployment/windward-scheduler" in names) is ("second-scheduler" in components)
    modes = {one["value"] for one in _environ(objects, EXTENDER) if one["name"] == "WINDWARD_MODE"}
    assert modes == {"bind" if "extender-bind" in components else "score"}
    readers = [one for one in objects if one["metadata"].get("namespace") == "kube-system"]
    assert [one["roleRef"]["name"] for one in readers] == (
        ["extension-apiserver-authentication-reader"] if "second-scheduler" in components else []
    )


def test_a_field_that_is_not_known_is_refused(cluster, tmp_path):
    folder = chosen(tmp_path, [])
    path = folder / "extender.yaml"
    path.write_text(path.read_text().replace("  replicas: 0\n", "  replicas: 0\n  replica: 2\n"))
    done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "--kustomize", folder)
    assert done.returncode != 0
    assert "replica" in done.stderr


def test_an_account_may_do_what_it_needs_and_nothing_else(cluster, tmp_path):
    """As the API server says when it is asked as that account, beyond what any account may; in every namespace."""
    done = cluster.kubectl("apply", "--validate=strict", "--kustomize", chosen(tmp_path, COMPONENTS))
    assert done.returncode == 0, done.stderr
    for namespace in ("windward", "default", "kube-system"):
        every = cluster.rights("windward-none", namespace)
        for account, wanted in RIGHTS.items():
            assert cluster.rights(account, namespace) - every == wanted, (account, namespace)
    scheduler = cluster.rights("windward-scheduler", "default") - cluster.rights("windward-none", "default")
    assert {"pods/binding create", "pods list", "nodes watch", "events create"} <= scheduler
    assert not {right for right in scheduler if right.split()[0] in ("*", "secrets", "configmaps", "deployments.apps")}
    mine = cluster.rights("windward-scheduler", "windward")
    assert "leases.coordination.k8s.io/windward-scheduler update" in mine


def _environ(objects, name):
    (found,) = (one for one in objects if one["kind"] == "Deployment" and one["metadata"]["name"] == name)
    return found["spec"]["template"]["spec"]["containers"][0]["env"]
