"""Log kopf in by the same kubeconfig as the operator's own calls, or as the operator's pod. Called at the start."""

from __future__ import annotations

import os
from typing import Any

import kopf


def login_with(registry: kopf.OperatorRegistry, kubeconfig: str | None) -> None:
    """Register the only login of kopf, so that it never uses a context that a developer happens to have.

    Args:
        kubeconfig: the file to log in by; None: log in as the service account of the pod.
    """

    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        if kubeconfig is None:
            return kopf.login_with_service_account(**kwargs)
        before = os.environ.get("KUBECONFIG")
        os.environ["KUBECONFIG"] = kubeconfig
        try:
            return kopf.login_with_kubeconfig(**kwargs)
        finally:
            if before is None:
                del os.environ["KUBECONFIG"]
            else:
                os.environ["KUBECONFIG"] = before

    kopf.on.login(registry=registry)(login)
