"""A process that stands in for a container finds the pod's mounts on this machine."""

from __future__ import annotations

import json

from tests.support.kube.app_container import command, placed

MOUNTS = {"/etc/orders": "/pod/volumes/app", "/etc/orders-more": "/pod/volumes/more", "/data": "/run/data"}


def test_paths_below_a_mount_are_replaced_and_no_others() -> None:
    text = (
        "metadata: /etc/orders\npath: '/data/sink'\nother: /etc/orders-more/x /database /etc/ordersx /my/data s3:/data"
    )
    assert placed(text, MOUNTS) == (
        "metadata: /pod/volumes/app\npath: '/run/data/sink'\nother: /pod/volumes/more/x /database /etc/ordersx /my/data"
        " s3:/run/data"
    )
    assert placed("/etc/orders", {}) == "/etc/orders"


def test_the_pod_has_the_command_of_its_container() -> None:
    container = {
        "args": ["driver", "local:///app.py", "run", "/etc/orders/app.yaml", "driver"],
        "env": [{"name": "AGGREGATE_FILE", "value": "/data/aggregate.json"}],
        "volumeMounts": [{"name": "app", "mountPath": "/etc/orders"}, {"name": "data", "mountPath": "/data"}],
    }
    volumes = [
        {"name": "app", "configMap": {"name": "orders-app"}},
        {"name": "data", "hostPath": {"path": "/run/data"}},
    ]
    pod = {"metadata": {"name": "orders-driver"}, "spec": {"containers": [container], "volumes": volumes}}
    assert json.loads(command(pod)[-1]) == {
        "pod": "orders-driver",
        "arguments": ["run", "/etc/orders/app.yaml", "driver"],
        "variables": ["AGGREGATE_FILE"],
        "mounts": {"/etc/orders": ["app", None], "/data": ["data", "/run/data"]},
    }
