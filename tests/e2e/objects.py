"""The objects in the cluster of the stories: pods, Deployments, rights, and the state that messages show."""

from __future__ import annotations

from collections.abc import Sequence

from dynamic_kafka.contract.kubernetes_names import RENDERED_ROLE, ROLE_LABEL
from tests.e2e import large
from tests.e2e.application import Application
from tests.e2e.install import NAMESPACE, OPERATOR, OPERATOR_NAMESPACE
from tests.support.kube import APPLICATIONS, PODS, KubeCluster, KubeError
from tests.support.operator import CONFIG_MAPS, STREAMS, SUBSCRIPTIONS
from tests.support.resources import condition

_GROUPS = ["system:authenticated", "system:serviceaccounts"]
_SHOWN = (
    ("get", "pods", "-A", "-o", "wide"),
    ("get", "sparkapplications,kst,kss", "-n", NAMESPACE, "-o", "wide"),
    ("get", "events", "-n", NAMESPACE, "--sort-by=.lastTimestamp"),
    ("logs", "-n", NAMESPACE, "-l", "spark-role=driver", "--tail=25", "--prefix"),
)


class Objects:
    """The objects in the cluster; each call asks the API server."""

    def __init__(self, cluster: KubeCluster, applications: Sequence[Application]) -> None:
        """Ask nothing yet."""
        self._cluster, self._applications = cluster, applications

    def pods(self, application: Application, role: str) -> list[str]:
        """Return the names of the running pods of a role: `driver` or `executor`."""
        labels = f"spark-role={role},sparkoperator.k8s.io/app-name={application.name}"
        listed = self._cluster.api.list(PODS, NAMESPACE, labelSelector=labels)
        alive = [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]
        return [pod["metadata"]["name"] for pod in alive if pod["status"]["phase"] == "Running"]

    def scale(self, namespace: str, deployment: str, replicas: int) -> None:
        """Scale a Deployment, without waiting for its pods."""
        self._cluster.kubectl("--namespace", namespace, "scale", deployment, f"--replicas={replicas}")

    def has_replicas(self, namespace: str, deployment: str, replicas: int) -> bool:
        """Return whether the pods of a scaled Deployment have come or gone."""
        jsonpath = "{.status.replicas}={.status.readyReplicas}"
        wanted = f"{replicas}={replicas}" if replicas else "="
        return self._cluster.kubectl("-n", namespace, "get", deployment, f"--output=jsonpath={jsonpath}") == wanted

    def can_i(self, account: str, verb: str, resource: str, namespace: str) -> str:
        """Return `yes` or `no`, as `kubectl auth can-i` answers for an account."""
        question = {"verb": verb, "namespace": namespace}
        kind, _, question["subresource"] = resource.partition("/")
        question["resource"], _, question["group"] = kind.partition(".")
        review = {"spec": {"user": account, "groups": _GROUPS, "resourceAttributes": question}}
        answer = self._cluster.api.create("authorization.k8s.io/v1/subjectaccessreviews", {"metadata": {}} | review)
        return "yes" if answer["status"]["allowed"] else "no"

    def are_at_rest(self) -> bool:
        """Return whether the operator has nothing to do for any stream and any subscription.

        The first report of a new driver changes the status once more, so all drivers have reported.
        """
        api = self._cluster.api
        reported = [
            condition(api.get(SUBSCRIPTIONS, application.name, NAMESPACE), "Reporting").get("status") == "True"
            for application in self._applications
        ]
        return all(reported) and all(
            manifest.get("status", {}).get("observedGeneration") == manifest["metadata"]["generation"]
            and condition(manifest, "Ready").get("status") == "True"
            and condition(manifest, "Reconciling").get("status") == "False"
            for resource in (STREAMS, SUBSCRIPTIONS)
            for manifest in api.list(resource, NAMESPACE)
        )

    def written(self) -> dict[str, str]:
        """Return version and status of each object that the operator writes, without those that others write, too.

        Without the large stream's subscription, which a story changes. For an application it is the version of the
        spec, since Kubeflow's operator writes the status.
        """
        api = self._cluster.api
        objects = [(STREAMS, stream) for stream in api.list(STREAMS, NAMESPACE)]
        objects += [(SUBSCRIPTIONS, subscription) for subscription in api.list(SUBSCRIPTIONS, NAMESPACE)]
        documents = api.list(CONFIG_MAPS, NAMESPACE, labelSelector=f"{ROLE_LABEL}={RENDERED_ROLE}")
        objects += [(CONFIG_MAPS, document) for document in documents]
        versions = {
            f"{kind} {entry['metadata']['name']}": f"{entry['metadata']['resourceVersion']} {entry.get('status')}"
            for kind, entry in objects
        }
        versions.pop(f"{SUBSCRIPTIONS} {large.NAME}", None)
        for shop_app in self._applications:
            application = api.get(APPLICATIONS, shop_app.name, NAMESPACE)
            versions[f"spec of {shop_app.name}"] = str(application["metadata"]["generation"])
        return versions

    def leader(self) -> str:
        """Return the operator's process that holds the Lease, as `POD-ID`; empty if none does."""
        lease = self._cluster.api.get("coordination.k8s.io/v1/leases", OPERATOR, OPERATOR_NAMESPACE)
        return str(lease.get("spec", {}).get("holderIdentity") or "")

    def leaders_image(self) -> str:
        """Return the image of the operator that holds the Lease; empty if none does."""
        pod = self._cluster.api.find(PODS, self.leader().rpartition("-")[0] or "none", OPERATOR_NAMESPACE)
        return str(pod["spec"]["containers"][0]["image"]) if pod is not None else ""

    def is_released(self, cluster: str) -> bool:
        """Return whether the stream says that a removed cluster may be shut down."""
        listed = self._cluster.api.get(STREAMS, "orders", NAMESPACE).get("status", {}).get("clusters", ())
        return any((entry["id"], entry["state"]) == (cluster, "Released") for entry in listed)

    def describe(self) -> str:
        """Return the state of the cluster, for messages."""
        parts = []
        for arguments in _SHOWN:
            try:
                lines = self._cluster.kubectl(*arguments).splitlines()
            except KubeError as error:
                lines = [str(error)]
            parts += [f"$ kubectl {' '.join(arguments)}", *lines[-60:]]
        return "\n".join(parts)
