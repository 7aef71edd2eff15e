"""A control plane of three processes on 127.0.0.1: etcd, kube-apiserver, and the controllers that tests need.

As strict as a real one: certificates for everybody, no anonymous requests, RBAC in force. It has no scheduler
and no node, so a pod stays Pending until a test, or `local_node.py`, takes it up.

With the address of a node it serves pods there, too (`tests/support/node`): it listens on all addresses, and runs
kube-controller-manager. It is then to run in a network namespace of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.support.certificates import CertificateAuthority
from tests.support.go import executable
from tests.support.kube.api import Api
from tests.support.kube.errors import KubeError
from tests.support.kube.kubeconfig import Kubeconfig
from tests.support.kube_programs import KUBEBOX, NODE_KUBEBOX
from tests.support.ports import reserve_ports
from tests.support.supervise import Process, last_lines
from tests.support.waiting import wait_until

# The first address of --service-cluster-ip-range: the API server's own Service, by which pods reach it.
_SERVICE_ADDRESS = "10.96.0.1"
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


class LocalPlane:
    """The processes and their certificates; what is not a log is in `folder/data`.

    Attributes:
        admin: the configuration of a member of `system:masters`.
        authority: who signs the certificates of the API server and its clients.
    """

    def __init__(self, folder: Path, node_address: str = "") -> None:
        """Reserve ports and issue certificates; nothing runs yet.

        Args:
            node_address: the address at which pods of a node reach the API server; by default there are none.
        """
        self._node_address = node_address
        self._folder = folder
        self._data = folder / "data"
        etcd, peer, port = reserve_ports(3)
        self._etcd_url, self._peer_url = f"https://127.0.0.1:{etcd}", f"https://127.0.0.1:{peer}"
        self._port = port
        self._etcd, self._api_server, self._controllers = (
            Process(name, folder / f"{name}.log") for name in ("etcd", "kube-apiserver", "controllers")
        )
        self._data.mkdir(mode=0o700)
        # etcd believes whoever its authority signs; so it has one of its own.
        self._etcd_authority = CertificateAuthority(self._data, "etcd-authority")
        self._etcd_pair = self._etcd_authority.issue(self._data / "etcd.pem")
        addresses = [node_address, _SERVICE_ADDRESS] if node_address else []
        self.authority = CertificateAuthority(self._data, "authority", names=_SERVICE_NAMES, addresses=addresses)
        self._server_pair = self.authority.issue(self._data / "server.pem")
        self._token_pair = self.authority.issue(self._data / "tokens.pem")
        self.admin = self.user("admin", "system:masters")
        self._api = Api(self.admin)

    def start(self) -> None:
        """Start what does not run and wait until it is ready. Raises `KubeError` with the end of the log."""
        if not self._etcd.running:
            self._etcd.launch([self._box, "etcd", *self._etcd_arguments()], self._environment())
        self.start_api_server()
        if not self._controllers.running:
            self._controllers.launch([self._box, *self._controllers_arguments()], self._environment())

    def start_api_server(self) -> None:
        """Start it, on the port and the data it had, or end a pause, and wait until it is ready."""
        self._api_server.resume()
        if not self._api_server.running:
            self._api_server.launch([self._box, "kube-apiserver", *self._server_arguments()], self._environment())
        wait_until(self._api.ready, "a ready API server", failed=self.check, error=KubeError)

    def stop_api_server(self) -> None:
        """kill -9: connections break, and new ones are refused."""
        self._api_server.kill()

    def pause_api_server(self) -> None:
        """SIGSTOP: connections stay open and nobody answers."""
        self._api_server.pause()

    def resume_api_server(self) -> None:
        """End a pause."""
        self._api_server.resume()

    def check(self) -> None:
        """Raise `KubeError` when a process has ended that should not."""
        for process in (self._etcd, self._api_server):
            if not process.running:
                raise KubeError(f"{process.log.stem} has ended; its log: {process.log}\n{last_lines(process.log)}")

    def pids(self) -> list[int]:
        """Return the processes that run."""
        return [process.pid for process in (self._etcd, self._api_server, self._controllers) if process.running]

    def close(self) -> None:
        """Kill everything: nobody needs the data any more."""
        for process in (self._controllers, self._api_server, self._etcd):
            process.kill()

    def user(self, name: str, group: str | None = None) -> Kubeconfig:
        """Return a configuration for a user with a certificate."""
        pair = self.authority.issue(self._data / f"{name.replace(':', '-')}.pem", name, group).read_text()
        return Kubeconfig(
            server=f"https://127.0.0.1:{self._port}",
            authority=self.authority.certificate_file.read_text(),
            certificate=pair,
            key=pair,
        )

    @property
    def _box(self) -> str:
        return str(executable(NODE_KUBEBOX if self._node_address else KUBEBOX))

    def _environment(self) -> dict[str, str]:
        # Memory is cheaper than the collector's work, as for the compiler in go.py.
        return {"PATH": os.environ["PATH"], "HOME": str(self._data), "GOGC": "400"}

    def _etcd_arguments(self) -> Sequence[str]:
        authority = self._etcd_authority.certificate_file
        return [
            "--name=test",
            f"--data-dir={self._data}/etcd",
            "--unsafe-no-fsync",  # the data live no longer than the machine is up
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={self._peer_url}",
            f"--initial-advertise-peer-urls={self._peer_url}",
            f"--initial-cluster=test={self._peer_url}",
            f"--cert-file={self._etcd_pair}",
            f"--key-file={self._etcd_pair}",
            "--client-cert-auth",
            f"--trusted-ca-file={authority}",
            f"--peer-cert-file={self._etcd_pair}",
            f"--peer-key-file={self._etcd_pair}",
            "--peer-client-cert-auth",
            f"--peer-trusted-ca-file={authority}",
        ]

    def _server_arguments(self) -> Sequence[str]:
        return [
            *self._addresses(),
            f"--secure-port={self._port}",
            f"--cert-dir={self._data}/generated",
            f"--tls-cert-file={self._server_pair}",
            f"--tls-private-key-file={self._server_pair}",
            f"--client-ca-file={self.authority.certificate_file}",
            "--anonymous-auth=false",
            f"--etcd-servers={self._etcd_url}",
            f"--etcd-cafile={self._etcd_authority.certificate_file}",
            f"--etcd-certfile={self._etcd_pair}",
            f"--etcd-keyfile={self._etcd_pair}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-signing-key-file={self._token_pair}",
            f"--service-account-key-file={self._token_pair}",
        ]

    def _addresses(self) -> Sequence[str]:
        """Return the arguments that differ with and without a node."""
        if not self._node_address:
            return [
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",  # the Service `kubernetes` cannot have a loopback address
                "--authorization-mode=RBAC",
            ]
        kubelet_client = self._data / "kubelet-client.pem"
        self.authority.issue(kubelet_client, "kube-apiserver", "system:masters")
        return [
            "--bind-address=0.0.0.0",
            f"--advertise-address={self._node_address}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--enable-aggregator-routing=true",  # webhooks are called at their pods: we have no route to Services
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={self.authority.certificate_file}",
            f"--kubelet-client-certificate={kubelet_client}",
            f"--kubelet-client-key={kubelet_client}",
        ]

    def _controllers_arguments(self) -> Sequence[str]:
        root = f"--root-ca-file={self.authority.certificate_file}"
        if not self._node_address:
            return ["controllers", f"--kubeconfig={self.admin.write(self._data / 'controllers.kubeconfig')}", root]
        config = self.user("system:kube-controller-manager").write(self._data / "controllers.kubeconfig")
        return [
            "kube-controller-manager",
            f"--kubeconfig={config}",
            root,
            "--secure-port=0",
            "--leader-elect=false",
            "--controllers=*",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._token_pair}",
        ]
