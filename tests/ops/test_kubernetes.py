"""The Kubernetes manifests: what the API's schema takes, and what our processes are told by them."""

import re
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest

from ops.cli.main import COMMANDS
from ops.exporter.settings import ExporterSettings
from ops.record.__main__ import RecordSettings
from schemas.process.settings import load_settings
from scorer.kubernetes.evictor.__main__ import EvictorSettings
from scorer.kubernetes.extender.__main__ import ExtenderSettings
from scorer.kubernetes.load_watcher.__main__ import LoadWatcherSettings
from scorer.kubernetes.pods.__main__ import PodsSettings
from scorer.planner.settings import PlannerSettings
from scorer.settings import ScorerSettings
from streams.agent.settings import AgentSettings
from streams.worker.settings import StreamSettings
from tests.ops.yaml_files import read_all_yaml, read_yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "ops/kubernetes"
SETTINGS = {
    "agent": AgentSettings, "stream": StreamSettings, "scorer": ScorerSettings, "exporter": ExporterSettings,
    "planner": PlannerSettings, "record": RecordSettings,
    "load-watcher": LoadWatcherSettings, "pods": PodsSettings, "extender": ExtenderSettings,
}  # fmt: skip
KINDS = ("DaemonSet", "Deployment", "StatefulSet")
CUSTOMIZATION = read_yaml((FOLDER / "kustomization.yaml").read_text())
OBJECTS = {
    f"{each['kind']}/{each['metadata']['name']}": each
    for name in CUSTOMIZATION["resources"]
    for each in read_all_yaml((FOLDER / name).read_text())
}
WORKLOADS = {name: each for name, each in OBJECTS.items() if each["kind"] in KINDS}
VERSIONS = ("1.29", "1.33", "1.37")


def pod(workload):
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OBJECTS)
def test_the_schema_of_the_api_takes_each_object(name, version):
    """Strictly: a field that the API does not know is refused as well."""
    kubernetes_validate.validate(OBJECTS[name], version, strict=True)


def test_each_workload_runs_on_linux():
    """Also those beside the base: a DaemonSet that tolerates all taints is started on Windows nodes, too."""
    pods = {
        f"{path.relative_to(FOLDER)}/{each['metadata']['name']}": pod(each)
        for path in FOLDER.rglob("*.yaml")
        for each in read_all_yaml(path.read_text())
        if "template" in each.get("spec", {})
    }
    assert len(pods) >= 12
    assert [name for name, each in pods.items() if each.get("nodeSelector") != {"kubernetes.io/os": "linux"}] == []


def test_certificates_made_as_told_pass_a_strict_client(tmp_path):
    """Python 3.13 and newer are strict by default: an authority says that it signs certificates."""
    page = (ROOT / "docs/kubernetes.md").read_text()
    told = re.findall(r"^openssl req.*?^done$", page, re.MULTILINE | re.DOTALL)
    made = re.sub(r"^ *kubectl [^&]*?(?=^done)", "", told[0], flags=re.MULTILINE | re.DOTALL)
    verify = "openssl verify -x509_strict -CAfile ca.crt extender.crt scheduler.crt"
    done = subprocess.run(["sh", "-ec", f"{made}\n{verify}"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["extender.crt:", "OK", "scheduler.crt:", "OK"], done.stderr


def test_the_schema_refuses_a_mistake():
    """The check above would see one: a field in the wrong place."""
    wrong = OBJECTS["DaemonSet/windward-agent"] | {"replicas": 3}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_every_file_is_applied():
    """The customization lists all files of the folder; all objects are in the namespace, and none is moved there."""
    assert {path.name for path in FOLDER.glob("*.yaml")} == {"kustomization.yaml", *CUSTOMIZATION["resources"]}
    for each in OBJECTS.values():
        if each["kind"] not in ("Namespace", "ClusterRole", "ClusterRoleBinding"):
            assert each["metadata"]["namespace"] == "windward"
    assert "namespace" not in CUSTOMIZATION


def test_the_agent_is_on_every_node_and_the_rest_by_number():
    """Recorder, load watcher, pods, extender have no replicas until scaled; no disk is taken before."""
    always = ["Deployment/windward-" + name for name in ("stream", "scorer", "exporter", "planner")]
    off = ["StatefulSet/windward-record"]
    off += ["Deployment/windward-" + name for name in ("load-watcher", "pods", "extender")]
    assert set(WORKLOADS) == {"DaemonSet/windward-agent", *always, *off}
    assert [name for name, each in WORKLOADS.items() if each["spec"].get("replicas") == 0] == off
    assert not [name for name in OBJECTS if name.startswith("PersistentVolumeClaim")]


def test_the_recorder_writes_to_its_own_disk():
    """The folder that it is told is the mounted claim, with room for the most that it keeps."""
    workload = WORKLOADS["StatefulSet/windward-record"]
    ((container,), (claim,)) = pod(workload)["containers"], workload["spec"]["volumeClaimTemplates"]
    (folder,) = [one["value"] for one in container["env"] if one["name"] == "WINDWARD_RECORD_DIR"]
    assert {one["mountPath"]: one["name"] for one in container["volumeMounts"]}[folder] == claim["metadata"]["name"]
    gib = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))
    assert gib * 2**30 > RecordSettings.__dataclass_fields__["record_bytes"].default
    assert f"Service/{workload['spec']['serviceName']}" in OBJECTS


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_selects_its_own_pods(name):
    """Its selector, and that of its disruption budget, are labels that its pods have."""
    labels = WORKLOADS[name]["spec"]["template"]["metadata"]["labels"]
    assert WORKLOADS[name]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    budget = OBJECTS.get(f"PodDisruptionBudget/{name.partition('/')[2]}")
    if budget:
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_has_no_right_that_it_does_not_need(name):
    """It is nobody in particular, cannot become more, writes to /tmp only, and is bounded in memory."""
    spec = pod(WORKLOADS[name])
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is (name == "Deployment/windward-pods")
    assert ("serviceAccountName" in spec) is spec["automountServiceAccountToken"]
    for container in spec["containers"]:
        rights = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == rights
        assert "memory" in container["resources"]["limits"]


def test_who_follows_pods_may_list_and_watch_them():
    """And nothing else, in any namespace: no secret is read, and nothing is written."""
    (right,) = OBJECTS["ClusterRole/windward-pods"]["rules"]
    assert right == {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}
    binding = OBJECTS["ClusterRoleBinding/windward-pods"]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("ClusterRole", "windward-pods")
    (subject,) = binding["subjects"]
    account = pod(WORKLOADS["Deployment/windward-pods"])["serviceAccountName"]
    assert (subject["kind"], subject["name"], subject["namespace"]) == ("ServiceAccount", account, "windward")
    assert f"ServiceAccount/{account}" in OBJECTS
    assert [name for name, each in OBJECTS.items() if each["kind"] == "ClusterRole"] == ["ClusterRole/windward-pods"]


def component_of(name):
    """Return a component and its objects, which the API takes."""
    component = read_yaml((FOLDER / name / "kustomization.yaml").read_text())
    objects = [one for file in component["resources"] for one in read_all_yaml((FOLDER / name / file).read_text())]
    for version in VERSIONS:
        for each in objects:
            kubernetes_validate.validate(each, version, strict=True)
    return component, objects


def account_with(objects, *rights):
    """Return the name of the account that has these rights and no other."""
    account, role, binding = objects
    assert [(one["resources"], one["verbs"]) for one in role["rules"]] == list(rights)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [one["name"] for one in binding["subjects"]] == [account["metadata"]["name"]]
    return account["metadata"]["name"]


def test_the_extender_that_binds_may_read_a_pod_and_bind_it():
    """By the component alone, which changes a container that there is; without it there is no token."""
    component, objects = component_of("extender-bind")
    patch = read_yaml((FOLDER / "extender-bind" / component["patches"][0]["path"]).read_text())
    base = WORKLOADS[f"{patch['kind']}/{patch['metadata']['name']}"]
    (changed,), (container,) = pod(patch)["containers"], pod(base)["containers"]
    assert changed["name"] == container["name"]
    assert [one["name"] for one in changed["env"]] == ["WINDWARD_MODE"]
    assert "WINDWARD_MODE" in [one["name"] for one in container["env"]]
    account = account_with(objects, (["pods"], ["get"]), (["pods/binding"], ["create"]))
    assert pod(patch)["serviceAccountName"] == account


def test_the_evictor_may_read_a_pod_and_evict_it():
    """By the component alone, and by dry run until that is changed; its settings are settings of the command."""
    _, (*granted, workload) = component_of("evictor")
    account = account_with(granted, (["pods"], ["get"]), (["pods/eviction"], ["create"]))
    spec = pod(workload)
    (container,) = spec["containers"]
    assert (spec["serviceAccountName"], container["args"]) == (account, ["evictor"])
    environ = {one["name"]: one["value"] for one in container["env"] if not one["name"].endswith("_FILE")}
    assert not load_settings(EvictorSettings, "evictor", [], environ).apply


def test_the_second_scheduler_is_configured_as_the_page_says():
    """It has the rights of Kubernetes' own scheduler, the lease that its configuration names, and files that it has."""
    _, objects = component_of("second-scheduler")
    (text,) = (one["data"]["config.yaml"] for one in objects if one["kind"] == "ConfigMap")
    assert f"```yaml\n{text}```" in (ROOT / "docs/kubernetes.md").read_text()
    configuration = read_yaml(text)
    lease = configuration["leaderElection"]
    (role,) = (one for one in objects if one["kind"] == "Role")
    assert role["metadata"]["namespace"] == lease["resourceNamespace"]
    assert role["rules"][1]["resourceNames"] == [lease["resourceName"]]
    roles = {one["roleRef"]["name"] for one in objects if one["kind"].endswith("Binding")}
    assert roles >= {"system:kube-scheduler", "system:volume-scheduler", role["metadata"]["name"]}
    (workload,) = (one for one in objects if one["kind"] == "Deployment")
    (container,) = pod(workload)["containers"]
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert {str(Path(file).parent) for file in configuration["extenders"][0]["tlsConfig"].values()} <= mounts
    assert str(Path(container["args"][0].partition("=")[2]).parent) in mounts


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_process_takes_the_settings_it_is_given(name, tmp_path):
    """Every variable is a setting of that command, with a value that it takes."""
    (container,) = pod(WORKLOADS[name])["containers"]
    (command,) = container["args"]
    assert command in COMMANDS
    (tmp_path / "password").write_text("secret")
    environ = dict(OBJECTS["ConfigMap/windward"]["data"])
    for one in container["env"]:
        value = one.get("value", "10.0.0.1").replace("$(POD_IP)", "10.0.0.1")
        environ[one["name"]] = value.replace("/run/secrets/redis", str(tmp_path))
    settings = load_settings(SETTINGS[command], command, [], environ)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert getattr(settings, "metrics_port") == ports["metrics"]  # noqa: B009
    if "verbs" in ports:
        assert getattr(settings, "listen_port") == ports["verbs"]  # noqa: B009
    known = {field.upper() for kind in SETTINGS.values() for field in kind.__dataclass_fields__}
    mine = {field.upper() for field in SETTINGS[command].__dataclass_fields__}
    for variable in container["env"]:
        if variable["name"].startswith("WINDWARD_"):
            field = variable["name"].removeprefix("WINDWARD_")
            assert field in mine or field.removesuffix("_FILE") in mine
    for variable in OBJECTS["ConfigMap/windward"]["data"]:
        assert variable.removeprefix("WINDWARD_") in known


def test_the_agent_reads_the_nodes_control_groups():
    """They are mounted, unchangeable, where it is told to look; of them pods alone are instances."""
    spec = pod(WORKLOADS["DaemonSet/windward-agent"])
    (container,) = spec["containers"]
    environ = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    found = load_settings(AgentSettings, "agent", [], environ | {"WINDWARD_METRICS_HOST": "10.0.0.1"}).found
    assert found.pods_only
    (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == str(found.cgroup_root)]
    assert mount["readOnly"] is True
    (volume,) = [one for one in spec["volumes"] if one["name"] == mount["name"]]
    assert volume["hostPath"] == {"path": "/sys/fs/cgroup", "type": "Directory"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_probes_ask_pages_that_exist(name):
    """Readiness and liveness are what the processes serve, on a port of the container's."""
    (container,) = pod(WORKLOADS[name])["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "metrics"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/live", "port": "metrics"}
    assert "metrics" in [port["name"] for port in container["ports"]]
