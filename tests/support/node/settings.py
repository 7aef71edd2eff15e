"""The configuration files of a node's programs. Pure: texts from paths and addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

POD_NETWORK = "10.244.0.0/24"
DOMAIN = "cluster.local"
SANDBOX_IMAGE = "localhost/pause:1"


def containerd_toml(folder: Path, plugins: Path) -> str:
    """Return containerd's configuration: images below `folder`, network plugins in `plugins`."""
    quoted = {name: json.dumps(str(path)) for name, path in (("root", folder / "containerd"), ("plugins", plugins))}
    return f"""\
version = 2
root = {quoted["root"]}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX_IMAGE}"
  # Lowering a score needs a capability that the machine may not give.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {quoted["plugins"]}
    conf_dir = {json.dumps(str(folder / "network"))}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def network_json() -> str:
    """Return the pods' network: a pair of interfaces for each pod, and routes between them."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": POD_NETWORK}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": addresses}]})


def kubelet_yaml(folder: Path, logs: Path, address: str, cgroup: str, *, authority: Path, certificate: Path) -> str:
    """Return the kubelet's configuration.

    Args:
        folder: for the files of pods.
        logs: for the output of containers.
        address: the node's address, at which also DNS answers.
        cgroup: the control group of all pods.
        authority: who signs the certificates of the kubelet's clients.
        certificate: the kubelet's own, with its key.
    """
    content: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "podLogsDir": str(logs),
        "volumePluginDir": str(folder / "volume-plugins"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(certificate),
        "clusterDomain": DOMAIN,
        "clusterDNS": [address],
        "resolvConf": "",  # the box reaches no other names
        "address": address,
        "healthzBindAddress": "127.0.0.1",
        "failSwapOn": False,
        # The disk is the machine's: how full it is, is none of the node's business.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%"}
        | {"imagefs.available": "0%", "imagefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
    }
    return yaml.safe_dump(content, sort_keys=False)


def proxy_yaml(kubeconfig: Path, name: str) -> str:
    """Return kube-proxy's configuration for the node `name`."""
    content = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": POD_NETWORK,
        "hostnameOverride": name,
        "conntrack": {"maxPerCore": 0},  # the machine's limit stays as it is
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }
    return yaml.safe_dump(content, sort_keys=False)


def corefile(kubeconfig: Path, address: str) -> str:
    """Return CoreDNS's configuration: the names of the cluster and no other."""
    return f"""\
{DOMAIN}:53 in-addr.arpa:53 {{
  bind {address}
  errors
  cache 2
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {kubeconfig}
    ttl 2
  }}
}}
"""
