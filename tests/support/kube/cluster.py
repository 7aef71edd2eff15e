"""A Kubernetes cluster for tests: its life, its users, its namespaces.

Where Docker and kind work it is a kind cluster, otherwise processes on 127.0.0.1 (`local_plane.py`); tests do
not see which. Used by the fixture `kube` and by `make cluster-up`.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.certificates import CertificateAuthority
from tests.support.folders import new_folder
from tests.support.go import executable
from tests.support.kube.api import Api, Json
from tests.support.kube.commands import run
from tests.support.kube.kind_plane import KindPlane, kind_is_usable
from tests.support.kube.kubeconfig import Kubeconfig, read_own
from tests.support.kube.local_plane import LocalPlane
from tests.support.kube_programs import HELM, kubectl
from tests.support.servers import Server

_CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC = "rbac.authorization.k8s.io"
_TOKEN_SECONDS = 24 * 3600


class KubeCluster(Server):
    """An API server that is ready in seconds, and whoever is to talk to it.

    Attributes:
        folder: logs; and in `data`, which never stays, keys, configurations and etcd's data.
        kubeconfig: the administrator's configuration, when started.
        api: the administrator's client, when started.
    """

    kubeconfig: Path
    api: Api

    def __init__(self, name: str = "kube", folder: Path | None = None, *, node_address: str = "") -> None:
        """Prepare a cluster, without starting it.

        Args:
            folder: must not exist; by default it is one of this run.
            node_address: the address of a node that is to run pods (`tests/support/node`); by default there is none.
        """
        self.name = name
        if folder is None:
            folder = new_folder("kube", name)
        else:
            folder.mkdir(parents=True)
        self.folder = folder
        self._data = folder / "data"
        local = bool(node_address) or not kind_is_usable()
        self._plane: LocalPlane | KindPlane = LocalPlane(folder, node_address) if local else KindPlane(folder)
        self._numbers = itertools.count(1)
        self._installed: dict[Path, tuple[str, list[str]]] = {}

    # Life

    def start(self) -> Self:
        """Start it and wait until it is ready for pods. Raises `KubeError` with the end of a log."""
        self._plane.start()
        self.kubeconfig = self._plane.admin.write(self._data / "admin.kubeconfig")
        self.api = Api(read_own(self.kubeconfig, self.folder))
        self._wait_for_account("default", "default")
        return self

    def stop_api_server(self) -> None:
        """kill -9: connections break, and new ones are refused. The data stay."""
        self._plane.stop_api_server()

    def start_api_server(self) -> None:
        """Start it again, on the same port, and wait until it is ready."""
        self._plane.start_api_server()

    def pause_api_server(self) -> None:
        """SIGSTOP: connections stay open and nobody answers."""
        self._plane.pause_api_server()

    def resume_api_server(self) -> None:
        """End a pause."""
        self._plane.resume_api_server()

    def pids(self) -> list[int]:
        """Return the processes of the control plane; none when they are in containers."""
        return self._plane.pids()

    def _end(self) -> None:
        self._plane.close()

    def _called(self) -> str:
        return f"the test cluster {self.name}"

    # Content

    def new_namespace(self, prefix: str = "test") -> str:
        """Create a namespace that nobody else uses, ready for pods; its name."""
        name = f"{prefix}-{next(self._numbers)}-{secrets.token_hex(3)}"
        self.api.create("v1/namespaces", {"metadata": {"name": name}})
        self._wait_for_account(name, "default")
        return name

    def delete_namespace(self, name: str) -> None:
        """Have a namespace deleted with all that is in it; does not wait."""
        self.api.delete("v1/namespaces", name)

    def kubectl(self, *arguments: str, config: Path | None = None, stdin: str | None = None) -> str:
        """Run kubectl as the administrator, or with another `config`, and return its output. Raises `KubeError`."""
        return run(str(kubectl()), *arguments, environment=self.environment(config), stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """Run Helm as the administrator, and return its output. Raises `KubeError`."""
        return run(str(executable(HELM)), *arguments, environment=self.environment())

    def install_crds(self, folder: Path) -> None:
        """Apply the CustomResourceDefinitions of `folder` and wait until they are served; once, while they stay so."""
        content = "".join(path.read_text() for path in sorted(folder.iterdir()))
        known, names = self._installed.get(folder, ("", []))
        if known == content and None not in [self.api.find(_CRDS, name) for name in names]:
            return
        applied = self.kubectl("apply", "--server-side", "--force-conflicts", "-o", "name", "-f", str(folder))
        self.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(folder))
        self._installed[folder] = content, [definition.rpartition("/")[2] for definition in applied.split()]

    # Users

    def service_account(
        self, namespace: str, name: str, rules: Sequence[Json] = (), cluster_rules: Sequence[Json] = ()
    ) -> Path:
        """Make a ServiceAccount that has the rights of these rules only, and return its configuration.

        Args:
            rules: a Role's, for `namespace`.
            cluster_rules: a ClusterRole's, for all namespaces.
        """
        self.api.create("v1/serviceaccounts", {"metadata": {"name": name, "namespace": namespace}})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        for kind, given, metadata in (
            ("Role", rules, {"name": name, "namespace": namespace}),
            ("ClusterRole", cluster_rules, {"name": f"{namespace}:{name}"}),
        ):
            if given:
                self.api.create(f"{_RBAC}/v1/{kind.lower()}s", {"metadata": metadata, "rules": list(given)})
                reference = {"apiGroup": _RBAC, "kind": kind, "name": metadata["name"]}
                binding = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
                self.api.create(f"{_RBAC}/v1/{kind.lower()}bindings", binding)
        return self.kubeconfig_of(namespace, name)

    def component(self, name: str, group: str | None = None) -> Path:
        """Return a configuration for a part of Kubernetes that has a certificate. Only for local processes."""
        return self._local.user(name, group).write(self._data / f"{name.replace(':', '-')}.kubeconfig")

    @property
    def authority(self) -> CertificateAuthority:
        """The authority of the API server and its clients. Only for local processes."""
        return self._local.authority

    @property
    def _local(self) -> LocalPlane:
        assert isinstance(self._plane, LocalPlane), "the parts of kind's cluster are kind's"
        return self._plane

    def kubeconfig_of(self, namespace: str, service_account: str) -> Path:
        """Return a configuration for an existing ServiceAccount, with a token for a day."""
        config = self._with_token(self._token(namespace, service_account))
        return config.write(self._data / f"{namespace}.{service_account}.kubeconfig")

    def anonymous(self) -> Api:
        """Return a client without credentials."""
        return Api(self._with_token(""))

    def client(self, kubeconfig: Path) -> Api:
        """Return a client for a configuration of this cluster. Raises `KubeError` for any other."""
        return Api(read_own(kubeconfig, self.folder))

    def environment(self, kubeconfig: Path | None = None) -> dict[str, str]:
        """For a process that is to talk to this cluster and to no other: nothing of the user's own leads elsewhere."""
        ours = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "HELM"))}
        return ours | {"KUBECONFIG": str(kubeconfig or self.kubeconfig), "HOME": str(self._data)}

    def _token(self, namespace: str, service_account: str) -> str:
        address = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        answer = self.api.request("POST", address, {"spec": {"expirationSeconds": _TOKEN_SECONDS}})
        token: str = answer["status"]["token"]
        return token

    def _with_token(self, token: str) -> Kubeconfig:
        admin = self.api.config
        return Kubeconfig(admin.server, admin.authority, token=token, context=admin.context)

    def _wait_for_account(self, namespace: str, name: str) -> None:
        # Until the controller has made it, pods are refused.
        self.api.wait("v1/serviceaccounts", name, namespace, until=lambda found: found is not None, timeout=90)
