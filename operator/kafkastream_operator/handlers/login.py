"""kopf's login: by the same kubeconfig as the operator's own calls, or as the pod that it runs in."""

from __future__ import annotations

import os
from typing import Any

import kopf


def login_with(registry: kopf.OperatorRegistry, kubeconfig: str | None) -> None:
    """Have kopf log in so, and in no other way: not by whatever context a developer has at hand."""

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
