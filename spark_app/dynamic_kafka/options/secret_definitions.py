"""The options about secrets, declared as those in `definitions`; a section of `docs/reference/options.md`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.options.checks import check_absolute_path, check_allowed_servers
from dynamic_kafka.options.option import option


@dataclass(frozen=True, kw_only=True)
class SecretOptions:
    """The servers that may get secrets, and the place of the clusters' own secrets."""

    allowed_servers: str | None = option(
        "allowedServers",
        "text",
        "The servers that may get the secrets among the `kafka.*` options, beside those that the options name"
        " themselves. Metadata from outside needs it where there are such secrets. `*` allows every server: only for"
        " those who trust whoever writes the metadata.",
        "`host:port,host:port`, `*`",
        check=check_allowed_servers,
    )
    secrets_root: str = option(
        "secretsRoot",
        "text",
        "The folder that holds one mounted folder of credentials per cluster.",
        "path",
        default="/etc/kafkastreams-secrets",
        check=check_absolute_path,
    )
