"""Whether a cluster may have the Secret that it asks for: `spec.secrets` has to bind it, and to allow its servers.

Pure. `core.resolve` asks for the streams, `core.next_document` and `core.recovery` for what drains or is restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dynamic_kafka.metadata.server_list import foreign_servers
from kafkastream_operator.models.subscription import SecretBinding


class Refusal(NamedTuple):
    """The reason and the message of a condition: why a cluster must not have its Secret."""

    reason: str
    message: str


def secret_problem(cluster: str, content: Mapping[str, Any], bindings: Iterable[SecretBinding]) -> str:
    """Return why a cluster that drains must not have its Secret; "" if it may."""
    by_cluster = {binding.cluster: binding for binding in bindings}
    refusal = binding_problem("a drain", cluster, content, by_cluster.get(cluster))
    return refusal.message if refusal is not None else ""


def binding_problem(
    subject: str, cluster: str, content: Mapping[str, Any], binding: SecretBinding | None
) -> Refusal | None:
    """Return why a cluster must not have its Secret; None if it may.

    Args:
        subject: the stream or drain that asks for it, as the message names it.
    """
    wanted = content.get("secretFolder")
    if wanted is None:
        return None
    if binding is None or binding.name != wanted:
        asks = f"{subject} asks for Secret {wanted!r} on cluster {cluster!r}"
        add = f"{{cluster: {cluster}, name: {wanted}, allowedServers: […]}}"
        text = f"{asks}, which the subscription does not bind: add {add} to spec.secrets"
        if binding is not None:
            text = f"{asks}, and spec.secrets[cluster={cluster}] binds {binding.name!r}: change one of the two"
        return Refusal("SecretNotBound", text)
    foreign = foreign_servers(str(content["bootstrapServers"]), ",".join(binding.allowed_servers))
    if foreign:
        text = (
            f"{subject} would send Secret {wanted!r} to {', '.join(foreign)}, which"
            f" spec.secrets[cluster={cluster}].allowedServers does not name: add them if they are yours"
        )
        return Refusal("ServerNotAllowed", text)
    return None
