"""The chart: Helm renders it, a real API server takes it, and the operator's account can do its work and no more."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import yaml

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION, REPORTER_ROLE, REPORTER_VERBS
from tests.integration.operator.stage import APPLICATIONS, Stage, cluster
from tests.support.dashboard import FILE
from tests.support.fixtures import kept_open
from tests.support.go import executable
from tests.support.kube import PODS, Api, ApiError, KubeCluster, KubeError
from tests.support.kube_programs import HELM, spark_operator_crds
from tests.support.operator import CHART, CONFIG_MAPS, CRD_FOLDER, RIGHTS_FILE, rendered, rights_file
from tests.support.places import ROOT
from tests.support.ports import reserve_ports
from tests.support.supervise import Process, last_lines
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("a matrix of rights")

DEFINITIONS = "apiextensions.k8s.io/v1/customresourcedefinitions"
DRIVER = "drivers[0].namespace=jobs,drivers[0].name=spark"
MATRIX = {
    "the defaults": [],
    "namespaces": ["namespaces={jobs,more}"],
    "cluster-wide": ["clusterWide=true"],
    "drivers, with the policy": [DRIVER, "admissionPolicy.driverReports=true"],
    "Apache's restarts": ["apacheRestart.namespaces={jobs}"],
    "one bare replica": [
        "replicas=1",
        "networkPolicy.create=false",
        "podDisruptionBudget.create=false",
        "admissionPolicy.create=false",
        "crds.install=false",
    ],
    "everything of a pod": [
        "image.digest=sha256:" + "0" * 64,
        "imagePullSecrets[0].name=pull",
        "priorityClassName=system-cluster-critical",
        "podLabels.team=data",
        "podAnnotations.note=x",
        "nodeSelector.pool=small",
        "tolerations[0].key=spot,tolerations[0].operator=Exists",
        "operator.workers=8,operator.leaseDuration=30s,operator.gather=5s",
        "operator.logFormat=json,operator.logLevel=debug",
        "metrics.dashboard.create=true",
        "metrics.from[0].namespaceSelector.matchLabels.team=monitoring",
        "serviceAccount.create=false,serviceAccount.name=own",
    ],
}


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the objects of one kind."""
    return [manifest for manifest in objects if manifest["kind"] == kind]


def rules_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rules of all Roles and ClusterRoles that are bound to the operator."""
    bound = {grant["roleRef"]["name"] for grant in objects if grant["kind"] in ("RoleBinding", "ClusterRoleBinding")}
    roles = [
        manifest
        for manifest in objects
        if manifest["kind"] in ("Role", "ClusterRole") and manifest["metadata"]["name"] in bound - {REPORTER_ROLE}
    ]
    return [rule for role in roles for rule in role["rules"]]


def test_lint_finds_nothing() -> None:
    subprocess.run([executable(HELM), "lint", "--strict", "--kube-version", "1.37.1", CHART], check=True)


@pytest.fixture(scope="module")
def kube(pytestconfig: pytest.Config) -> Iterator[KubeCluster]:
    """Start an empty cluster: Helm takes over no definitions that other tests have applied."""
    made = KubeCluster("chart")
    with kept_open(pytestconfig, pytestconfig.stash, [made]):
        yield made.start()


@pytest.fixture(scope="module")
def jobs(kube: KubeCluster) -> Iterator[str]:
    """Return a namespace for the objects of the matrix."""
    name = kube.new_namespace("jobs")
    yield name
    kube.delete_namespace(name)


@pytest.mark.parametrize("what", MATRIX)
def test_a_real_api_server_takes_every_object(what: str, kube: KubeCluster, jobs: str) -> None:
    objects = rendered("kafkastream-operator", jobs, *(setting.replace("jobs", jobs) for setting in MATRIX[what]))
    for manifest in objects:
        manifest["metadata"]["namespace"] = jobs  # those for a namespace `more`, which is not there
    kube.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump_all(objects),
    )


MISTAKES = {
    "an unknown value": (["replica=3"], "additional properties 'replica' not allowed"),
    "a namespace that is none": (["namespaces={Jobs}"], "namespaces"),
    "a log that nothing writes": (["operator.logFormat=yaml"], "logFormat"),
    "a duration without a unit": (["operator.gather=5x"], "gather"),
    "a Lease of less than a second": (["operator.leaseDuration=500ms"], "leaseDuration"),
    "no time for a restart": (["operator.confirm=0s"], "confirm"),
    "no time for a live change": (["operator.confirmLive=999ms"], "confirmLive"),
    "a duration of more than a century": (["operator.betweenRestarts=99999d"], "betweenRestarts"),
    "a runbook that is no address": (["metrics.rules.runbookUrl=docs/how-to/runbooks.md"], "runbookUrl"),
    "a driver without a namespace": (["drivers[0].name=spark"], "namespace"),
    "the whole cluster without a policy": (
        ["clusterWide=true", "admissionPolicy.create=false"],
        "set admissionPolicy.create=true, or list namespaces",
    ),
    "the whole cluster and namespaces": (["clusterWide=true", "namespaces={jobs}"], "set one of the two"),
    "a policy for no driver": (["admissionPolicy.driverReports=true"], "list the accounts of drivers"),
    "a scrape interval without a unit": (["metrics.podMonitor.interval=30"], "interval"),
    "no account": (["serviceAccount.create=false"], "serviceAccount.name"),
}


@pytest.mark.deep("a matrix of mistakes")
@pytest.mark.parametrize("what", MISTAKES)
def test_helm_refuses_values_with(what: str) -> None:
    settings, message = MISTAKES[what]
    with pytest.raises(ValueError, match=re.escape(message)):
        rendered("kafkastream-operator", "jobs", *settings)


def test_the_rights_without_helm_are_those_of_the_chart() -> None:
    assert RIGHTS_FILE.read_text() == rights_file(), "run `make rights`"


@pytest.mark.parametrize("settings", [[], ["clusterWide=true"]], ids=["namespaced", "cluster-wide"])
def test_the_operators_roles_have_no_dangerous_rights(settings: list[str]) -> None:
    rules = rules_of(rendered("kafkastream-operator", "jobs", *settings))
    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], yaml.safe_dump(rule)
        assert "secrets" not in rule["resources"]
        assert "rbac.authorization.k8s.io" not in rule["apiGroups"]
    pods = [rule for rule in rules if "pods" in rule["resources"]]
    assert [rule["verbs"] for rule in pods] == [["get", "list", "watch", "patch"]]
    assert not [rule for rule in rules if "kafkastreams" in rule["resources"] and "update" in rule["verbs"]]
    leases = [rule for rule in rules if "leases" in rule["resources"]]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in leases] == [
        (["kafkastream-operator"], ["get", "update"])
    ]


def test_apaches_restarts_are_a_right_of_their_own() -> None:
    plain = rules_of(rendered("kafkastream-operator", "jobs"))
    with_it = rules_of(rendered("kafkastream-operator", "jobs", "apacheRestart.namespaces={jobs}"))
    more = [rule for rule in with_it if rule not in plain]
    assert more == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]


def test_the_chart_has_the_role_of_drivers() -> None:
    objects = rendered("kafkastream-operator", "jobs", DRIVER)
    (role,) = [manifest for manifest in of_kind(objects, "Role") if manifest["metadata"]["name"] == REPORTER_ROLE]
    (binding,) = [grant for grant in of_kind(objects, "RoleBinding") if grant["roleRef"]["name"] == REPORTER_ROLE]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": list(REPORTER_VERBS)}]
    assert binding["metadata"]["name"] == f"{REPORTER_ROLE}-spark"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "spark", "namespace": "jobs"}]


class Installed:
    """A release on the test cluster, in a namespace of its own, which serves another one."""

    def __init__(self, kube: KubeCluster) -> None:
        self.kube, self.name = kube, "kafkastream-operator"
        self.namespace, self.jobs = kube.new_namespace("system"), kube.new_namespace("jobs")
        self.values = [
            f"namespaces={{{self.jobs}}}",
            f"drivers[0].namespace={self.jobs},drivers[0].name=spark",
            "admissionPolicy.driverReports=true",
        ]

    def helm(self, *arguments: str) -> str:
        """Run Helm as the administrator."""
        return self.kube.helm(*arguments, "--namespace", self.namespace)

    def install(self, *settings: str) -> str:
        """Install the chart, or upgrade it."""
        given = [f"--set={setting}" for setting in [*self.values, *settings]]
        return self.helm("upgrade", "--install", self.name, str(CHART), *given)

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment as the API server has it."""
        return self.kube.api.get("apps/v1/deployments", self.name, self.namespace)

    def account(self) -> Api:
        """Return a client with the rights of the operator."""
        return self.kube.client(self.kube.kubeconfig_of(self.namespace, self.name))

    def pod(self, name: str, **metadata: Any) -> dict[str, Any]:
        """Create a pod of a driver."""
        spec = {"serviceAccountName": "spark", "containers": [{"name": "driver", "image": "spark:1"}]}
        return self.kube.api.create(PODS, {"metadata": {"name": name, **metadata}, "spec": spec}, self.jobs)


@pytest.fixture(scope="module")
def installed(kube: KubeCluster) -> Iterator[Installed]:
    """Install the chart by Helm."""
    kube.install_crds(spark_operator_crds())
    release = Installed(kube)
    kube.api.create("v1/serviceaccounts", {"metadata": {"name": "spark"}}, release.jobs)
    release.install()
    yield release
    release.helm("uninstall", release.name)
    assert kube.api.find(DEFINITIONS, "kafkastreams.kafkastream.dev") is not None


def test_its_pods_are_accepted_as_restricted(installed: Installed) -> None:
    kube, namespace = installed.kube, installed.namespace
    kube.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    (test,) = of_kind(rendered(installed.name, namespace), "Pod")
    address = f"/api/v1/namespaces/{namespace}/pods"
    for spec in (installed.deployment()["spec"]["template"]["spec"], test["spec"]):
        pod = {"metadata": {"name": "as-the-controller-makes-it", "namespace": namespace}, "spec": spec}
        kube.api.request("POST", address, pod, query={"dryRun": "All"})
        spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        with pytest.raises(ApiError, match="restricted"):
            kube.api.request("POST", address, pod, query={"dryRun": "All"})


def test_the_installed_command_serves_with_its_rights(installed: Installed, tmp_path: Path) -> None:
    kube, (port, metrics) = installed.kube, reserve_ports(2)
    (content,) = installed.deployment()["spec"]["template"]["spec"]["containers"]
    assert content["command"][:2] == ["python", "-m"]
    assert f"--namespace={installed.jobs}" in content["args"]
    arguments = [argument.replace(":8080", f":{port}").replace(":8081", f":{metrics}") for argument in content["args"]]
    kubeconfig = kube.kubeconfig_of(installed.namespace, installed.name)
    command = [sys.executable, *content["command"][1:], *arguments, "--kubeconfig", str(kubeconfig)]
    environment = kube.environment(kubeconfig) | {variable["name"]: variable["value"] for variable in content["env"]}
    environment["PYTHONPATH"] = f"{ROOT / 'operator'}:{ROOT / 'spark_app'}"
    process = Process("The operator", tmp_path / "operator.log")
    process.launch(command, environment)
    stage = Stage(kube, installed.jobs)

    def lives() -> None:
        assert process.running, last_lines(process.log)

    try:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            url = f"http://127.0.0.1:{port}{content[probe]['httpGet']['path']}"
            wait_until(lambda url=url: answers(url), "a probe", failed=lives)  # type: ignore[misc]
        assert answers(f"http://127.0.0.1:{metrics}/metrics")
        stage.stream("orders", cluster("east"))
        stage.application()
        stage.subscription(updateStrategy="Restart")
        stage.wait_document({"east/orders": "Active"})
        process.stop()
        assert not re.search("forbidden|Traceback", process.log.read_text()), process.log.read_text()
        # The Lease is the chart's, and was released, so that the next operator need not wait.
        lease = kube.api.get("coordination.k8s.io/v1/leases", installed.name, installed.namespace)
        assert lease["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert not lease["spec"]["holderIdentity"]
    finally:
        process.kill()


def answers(url: str) -> bool:
    """Return whether a probe would succeed."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return 200 <= int(answer.status) < 400
    except (URLError, OSError):
        return False


REFUSED = {
    "read a Secret": ("GET", "/api/v1/namespaces/{jobs}/secrets/login", None),
    "list Secrets": ("GET", "/api/v1/namespaces/{jobs}/secrets", None),
    "create a pod": ("POST", "/api/v1/namespaces/{jobs}/pods", {"metadata": {"name": "x"}}),
    "run a command in a pod": ("POST", "/api/v1/namespaces/{jobs}/pods/driver/exec?command=sh", None),
    "delete a pod": ("DELETE", "/api/v1/namespaces/{jobs}/pods/driver", None),
    "create a Job": ("POST", "/apis/batch/v1/namespaces/{jobs}/jobs", {"metadata": {"name": "x"}}),
    "write a Role": (
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{jobs}/roles",
        {"metadata": {"name": "x"}, "rules": []},
    ),
    "bind a Role": (
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{jobs}/rolebindings",
        {
            "metadata": {"name": "x"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        },
    ),
    "get a token of another account": (
        "POST",
        "/api/v1/namespaces/{jobs}/serviceaccounts/spark/token",
        {"spec": {"expirationSeconds": 600}},
    ),
    "read a stream of another namespace": (
        "GET",
        "/apis/kafkastream.dev/v1alpha1/namespaces/default/kafkastreams",
        None,
    ),
    "read a ConfigMap of kube-system": ("GET", "/api/v1/namespaces/kube-system/configmaps", None),
    "write a ConfigMap of kube-system": (
        "POST",
        "/api/v1/namespaces/kube-system/configmaps",
        {"metadata": {"name": "x-kafkastreams"}},
    ),
    "write any ConfigMap": ("POST", "/api/v1/namespaces/{jobs}/configmaps", {"metadata": {"name": "settings"}}),
    "create a Lease": (
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
        {"metadata": {"name": "another"}},
    ),
    "read a foreign Lease": ("GET", "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/another", None),
    "write a foreign Lease": (
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/another",
        {"metadata": {"name": "another"}},
    ),
    "make a namespace": ("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}}),
    "change its own policy": (
        "DELETE",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/kafkastream-operator.{namespace}.pods",
        None,
    ),
}


@DEEP
@pytest.mark.parametrize("what", REFUSED)
def test_the_operators_account_may_not(what: str, installed: Installed) -> None:
    method, address, body = REFUSED[what]
    with pytest.raises(ApiError) as refused:
        installed.account().request(method, address.format(jobs=installed.jobs, namespace=installed.namespace), body)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_the_operators_account_may_not_impersonate(installed: Installed) -> None:
    kubeconfig = installed.kube.kubeconfig_of(installed.namespace, installed.name)
    answer = installed.kube.kubectl("auth", "can-i", "--list", "-n", installed.jobs, config=kubeconfig)
    assert not re.search("impersonate|escalate|bind|secrets|exec", answer), answer


def may(installed: Installed, user: str, verb: str, kind: str, namespace: str, *, part: str = "") -> bool:
    """Return what the API server answers when the administrator impersonates a user. A part is a subresource."""
    what = (f"{kind}.kafkastream.dev", f"--subresource={part}", "--namespace", namespace)
    command = ("auth", "can-i", verb, *what, "--as", user)
    try:
        return installed.kube.kubectl(*command).strip() == "yes"
    except KubeError:
        return False


WRITES = ("create", "update", "patch", "delete")


def test_viewers_and_editors_get_the_rights_of_their_roles(installed: Installed, tmp_path: Path) -> None:
    kube, jobs = installed.kube, installed.jobs
    for role in ("view", "edit", "admin"):
        kube.kubectl("create", "rolebinding", role, "--clusterrole", role, "--user", role, "--namespace", jobs)
    for kind in ("kafkastreams", "kafkastreamsubscriptions"):
        # A controller aggregates the roles a moment after their creation.
        wait_until(lambda kind=kind: may(installed, "admin", "patch", kind, jobs), "the roles")  # type: ignore[misc]
        for role in ("view", "edit", "admin"):
            assert all(may(installed, role, verb, kind, jobs) for verb in ("get", "list", "watch"))
            assert {may(installed, role, verb, kind, jobs) for verb in WRITES} == {role != "view"}
            assert not any(may(installed, role, verb, kind, jobs, part="status") for verb in WRITES)
            assert not may(installed, role, "get", kind, installed.namespace)

    file = tmp_path / "stream.yaml"
    body = {"apiVersion": "kafkastream.dev/v1alpha1", "kind": "KafkaStream", "metadata": {"name": "by-hand"}}
    file.write_text(yaml.safe_dump({**body, "spec": {"clusters": [cluster("east")]}}))
    apply = ("apply", "--namespace", jobs, "-f", str(file), "--as")
    with pytest.raises(KubeError, match="forbidden"):
        kube.kubectl(*apply, "view")
    kube.kubectl(*apply, "edit")
    kube.kubectl("delete", "kst", "by-hand", "--namespace", jobs, "--as", "edit")


def test_the_roles_of_people_can_be_left_out() -> None:
    with_them, without = rendered("op", "jobs"), rendered("op", "jobs", "aggregateRoles.create=false")
    people = [role for role in with_them if role not in without]
    assert [role["metadata"]["name"].rpartition(".")[2] for role in people] == ["view", "edit"]
    assert "aggregate-to" not in str(without)


@pytest.fixture(scope="module")
def policed(installed: Installed) -> Installed:
    """Wait until the API server enforces the policies, which it reads a moment after their creation."""
    installed.pod("first")

    def refuses() -> bool:
        try:
            patch(installed.account(), installed, "first", {"metadata": {"labels": {"a": str(id(patch))}}}, dry=True)
        except ApiError:
            return True
        return False

    wait_until(refuses, "the policy to be in force")
    return installed


def patch(
    client: Api, installed: Installed, name: str, change: dict[str, Any], *, dry: bool = False, resource: str = ""
) -> dict[str, Any]:
    """Patch a pod, or an object of another resource."""
    address = resource or f"/api/v1/namespaces/{installed.jobs}/pods"
    query = {"dryRun": "All"} if dry else {}
    return client.request(
        "PATCH", f"{address}/{name}", change, content_type="application/strategic-merge-patch+json", query=query
    )


POD_CHANGES: dict[str, dict[str, Any]] = {
    "its image": {"spec": {"containers": [{"name": "driver", "image": "evil:1"}]}},
    "its deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "a label": {"metadata": {"labels": {"spark-role": "driver"}}},
    "another annotation": {"metadata": {"annotations": {"note": "changed"}}},
    "an annotation away": {"metadata": {"annotations": {"note": None}}},
    "a finalizer": {"metadata": {"finalizers": ["a.b/c"]}},
    "an owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}},
}


@DEEP
@pytest.mark.parametrize("what", POD_CHANGES)
def test_of_a_pod_the_operator_may_not_change(what: str, policed: Installed) -> None:
    name = f"driver-{list(POD_CHANGES).index(what)}"
    policed.pod(name, annotations={"note": "kept"}, labels={"team": "data"})
    with pytest.raises(ApiError, match="may change only the annotation"):
        patch(policed.account(), policed, name, POD_CHANGES[what])


def test_of_a_pod_the_operator_may_change_its_annotation(policed: Installed) -> None:
    policed.pod("refreshed", annotations={"note": "kept"})
    change = {"metadata": {"annotations": {"kafkastream.dev/refresh": "1"}}}
    assert patch(policed.account(), policed, "refreshed", change)["metadata"]["annotations"]["note"] == "kept"


@pytest.fixture
def restarting(policed: Installed) -> Iterator[Installed]:
    """Give the operator the right to delete pods, as restarts of Apache's applications need it."""
    policed.install(f"apacheRestart.namespaces={{{policed.jobs}}}")
    account, asked = policed.account(), {"verb": "delete", "resource": "pods", "namespace": policed.jobs}

    def may_delete() -> bool:
        address = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = account.request("POST", address, {"spec": {"resourceAttributes": asked}})
        return bool(answer["status"]["allowed"])

    wait_until(may_delete, "the right to be in force")
    yield policed
    policed.install()


def test_of_pods_the_operator_may_delete_apaches_drivers(restarting: Installed) -> None:
    Stage(restarting.kube, restarting.jobs).application("shop")
    shop = restarting.kube.api.get(APPLICATIONS, "shop", restarting.jobs)["metadata"]["uid"]
    owner = {"kind": "SparkApplication", "name": "shop", "uid": shop}
    kubeflow, apache = (
        {**owner, "apiVersion": api_version} for api_version in ("sparkoperator.k8s.io/v1beta2", "spark.apache.org/v1")
    )
    pods: dict[str, dict[str, Any]] = {
        "any-pod": {},
        "unowned-driver": {"labels": {"spark-role": "driver"}},
        "kubeflows-driver": {"labels": {"spark-role": "driver"}, "ownerReferences": [kubeflow]},
        "apaches-executor": {"labels": {"spark-role": "executor"}, "ownerReferences": [apache]},
        "apaches-own-pod": {"ownerReferences": [apache]},
    }
    account = restarting.account()
    for name, metadata in pods.items():
        restarting.pod(name, **metadata)
        with pytest.raises(ApiError, match="may delete only drivers of Apache"):
            account.delete(PODS, name, restarting.jobs)
        assert restarting.kube.api.find(PODS, name, restarting.jobs) is not None
    restarting.pod("apaches-driver", labels={"spark-role": "driver"}, ownerReferences=[apache])
    account.delete(PODS, "apaches-driver", restarting.jobs)
    assert restarting.kube.api.find(PODS, "apaches-driver", restarting.jobs) is None


def test_only_the_pods_own_account_may_change_its_report(policed: Installed) -> None:
    kube = policed.kube
    policed.pod("reporting")
    kube.api.create("v1/serviceaccounts", {"metadata": {"name": "other"}}, policed.jobs)
    kube.kubectl(
        *("create", "rolebinding", "other", f"--role={REPORTER_ROLE}", f"--serviceaccount={policed.jobs}:other"),
        *("--namespace", policed.jobs),
    )
    change = {"metadata": {"annotations": {REPORT_ANNOTATION: "{}"}}}
    own, other = (kube.client(kube.kubeconfig_of(policed.jobs, name)) for name in ("spark", "other"))
    for client in (other, policed.account()):
        with pytest.raises(ApiError, match=r"only the (account|annotation)"):
            patch(client, policed, "reporting", change)
    with pytest.raises(ApiError, match="only the account of a driver"):
        # A write of a pod's status may change its annotations.
        patch(kube.api, policed, "reporting/status", change)
    patch(own, policed, "reporting", change)


SPARK_CHANGES: dict[str, dict[str, Any]] = {
    "its image": {"image": "evil:1"},
    "its file": {"mainApplicationFile": "https://evil/x.py"},
    "its driver's account": {"driver": {"serviceAccount": "admin"}},
    "another annotation of its driver": {"driver": {"annotations": {"note": "x"}}},
    "any setting of Spark": {"sparkConf": {"spark.plugins": "evil.Plugin"}},
    "the place of a Secret": {"sparkConf": {"spark.kubernetes.driver.secrets.login": "/opt/spark"}},
    "a setting away": {"sparkConf": {"spark.a": None}},
}


@DEEP
@pytest.mark.parametrize("what", SPARK_CHANGES)
def test_of_an_application_the_operator_may_not_change(what: str, policed: Installed) -> None:
    Stage(policed.kube, policed.jobs).application("shop", sparkConf={"spark.a": "1"})
    with pytest.raises(ApiError, match="the operator may"):
        policed.account().patch(APPLICATIONS, "shop", policed.jobs, {"spec": SPARK_CHANGES[what]})


def test_of_an_application_the_operator_may_set_its_keys(policed: Installed) -> None:
    Stage(policed.kube, policed.jobs).application("shop", sparkConf={"spark.a": "1"})
    conf = {
        "spark.kubernetes.driverEnv.KAFKASTREAMS_REVISION": "a/1",
        "spark.kubernetes.driver.annotation.kafkastream.dev/revision": "a/1",
        "spark.kubernetes.executor.secrets.login": "/etc/kafkastreams-secrets/login",
    }
    own = {"kafkastream.dev/revision": "a/1", "kafkastream.dev/attempt": "1"}
    change = {"sparkConf": conf, "driver": {"annotations": own}}
    patched = policed.account().patch(APPLICATIONS, "shop", policed.jobs, {"spec": change})
    assert patched["spec"]["sparkConf"] == {"spark.a": "1", **conf}


def test_a_second_release_cannot_serve_the_same_namespace(installed: Installed) -> None:
    second = Installed(installed.kube)
    second.name = "second-kafkastream-operator"
    second.values = ["crds.install=false", f"namespaces={{{second.jobs},{installed.jobs}}}"]
    refusal = f'Role "kafkastream-operator" in namespace "{installed.jobs}" exists and cannot be imported'
    with pytest.raises(KubeError, match=refusal):
        second.install()
    assert second.helm("list", "--all", "--short") == ""
    for namespace in (second.namespace, second.jobs):
        installed.kube.delete_namespace(namespace)


@pytest.mark.deep("upgrades")
def test_upgrade_rollback_and_uninstall_keep_what_counts(kube: KubeCluster) -> None:
    release = Installed(kube)
    release.name = "second-kafkastream-operator"
    # The definitions belong to the first release, where a test of this file has installed it.
    first = kube.api.find(DEFINITIONS, "kafkastreams.kafkastream.dev")
    own = "crds.install=" + str(first is None).lower()
    release.install(own)
    stage = Stage(kube, release.jobs)
    kube.install_crds(CRD_FOLDER)
    stage.stream("orders", cluster("east"))
    lease = {"spec": {"holderIdentity": "somebody", "leaseTransitions": 3}}
    kube.api.patch("coordination.k8s.io/v1/leases", release.name, release.namespace, lease)

    release.install(own, "replicas=3", "image.tag=2.0.0")
    assert release.deployment()["spec"]["replicas"] == 3
    release.helm("rollback", release.name, "1")
    assert release.deployment()["spec"]["replicas"] == 2
    held = kube.api.get("coordination.k8s.io/v1/leases", release.name, release.namespace)
    assert held["spec"]["holderIdentity"] == "somebody"  # an upgrade takes the Lease from nobody

    release.helm("uninstall", release.name)
    assert kube.api.find("apps/v1/deployments", release.name, release.namespace) is None
    assert kube.api.find(DEFINITIONS, "kafkastreams.kafkastream.dev") is not None
    assert kube.kubectl("get", "kst", "orders", "-n", release.jobs, "-o", "name")
    left = kube.kubectl("get", "clusterrole,clusterrolebinding,validatingadmissionpolicy", "-o", "name")
    assert release.namespace not in left
    kube.delete_namespace(release.namespace)
    kube.delete_namespace(release.jobs)


def test_its_deployment_is_available_and_limited() -> None:
    objects = rendered("kafkastream-operator", "system")
    (deployment,), (budget,), (service,) = (
        of_kind(objects, kind) for kind in ("Deployment", "PodDisruptionBudget", "Service")
    )
    spec = deployment["spec"]
    selected = spec["selector"]["matchLabels"]
    assert (spec["replicas"], budget["spec"]["minAvailable"]) == (2, 1)
    assert selected.items() <= spec["template"]["metadata"]["labels"].items()
    assert budget["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == selected
    pod = spec["template"]["spec"]
    assert [entry["metadata"]["name"] for entry in of_kind(objects, "ServiceAccount")] == [pod["serviceAccountName"]]
    assert pod["securityContext"]["runAsNonRoot"]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert [flag for flag in container["args"] if flag.startswith("--lease")] == ["--lease=system/kafkastream-operator"]
    (policy,) = of_kind(objects, "NetworkPolicy")
    assert {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]} == {53, 443, 6443}


def test_nothing_of_the_prometheus_operator_is_made_unasked() -> None:
    objects = rendered("kafkastream-operator", "system")
    assert [part["kind"] for part in objects if "monitoring" in part["apiVersion"] or part["kind"] == "ConfigMap"] == []


def test_the_monitor_scrapes_the_port_that_the_operator_serves() -> None:
    settings = ["metrics.podMonitor.create=true", "metrics.podMonitor.labels.release=prometheus"]
    settings += ["metrics.from[0].namespaceSelector.matchLabels.team=monitoring"]
    objects = rendered("kafkastream-operator", "system", *settings)
    (monitor,), (deployment,), (service,), (policy,) = (
        of_kind(objects, kind) for kind in ("PodMonitor", "Deployment", "Service", "NetworkPolicy")
    )
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (port,) = [container_port for container_port in container["ports"] if container_port["name"] == "metrics"]
    assert f"--metrics=http://0.0.0.0:{port['containerPort']}/metrics" in container["args"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["honorLabels"]) == ("metrics", "/metrics", True)
    assert "metrics" in [service_port["targetPort"] for service_port in service["spec"]["ports"]]
    probes, scrapes = policy["spec"]["ingress"]
    assert [policy_port["port"] for rule in (probes, scrapes) for policy_port in rule["ports"]] == ["health", "metrics"]
    assert "from" not in probes
    assert scrapes["from"] == [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]


def test_the_chart_has_the_alerts_and_the_dashboard_unchanged() -> None:
    settings = ["metrics.rules.create=true", "metrics.dashboard.create=true"]
    objects = rendered("kafkastream-operator", "system", *settings)
    (rule,) = of_kind(objects, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))
    (dashboard,) = of_kind(objects, "ConfigMap")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["data"]["kafkastream.json"] + "\n" == FILE.read_text(encoding="utf-8")


def test_the_alerts_of_a_release_are_its_own() -> None:
    settings = ["metrics.rules.create=true", "metrics.podMonitor.create=true", "metrics.rules.runbookUrl=https://w/r"]
    (rule,) = of_kind(rendered("kafkastream-operator", "system", *settings), "PrometheusRule")
    alerts = {alert_rule["alert"]: alert_rule for alert_rule in rule["spec"]["groups"][0]["rules"]}
    own = 'absent(kafkastream_operator_serving{job="system/kafkastream-operator"})'
    assert own in alerts["KafkaStreamOperatorStale"]["expr"]
    for name, alert in alerts.items():
        assert alert["annotations"]["runbook_url"] == f"https://w/r#{name.lower()}"
        assert "runbook" not in alert["annotations"]


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{chart["appVersion"]}"' in pyproject


def test_documents_are_the_only_config_maps_it_writes(policed: Installed) -> None:
    account = policed.account()
    account.create(CONFIG_MAPS, {"metadata": {"name": "shop-kafkastreams"}}, policed.jobs)
    policed.kube.api.create(CONFIG_MAPS, {"metadata": {"name": "users-own"}}, policed.jobs)
    with pytest.raises(ApiError, match="may write only the ConfigMaps"):
        account.delete(CONFIG_MAPS, "users-own", policed.jobs)
    account.delete(CONFIG_MAPS, "shop-kafkastreams", policed.jobs)
