"""The Job that `manifest --init` prints: it runs `init` as a hook of a GitOps tool, before the application starts.

Pure. The operator makes no Job: whoever may create pods can mount any Secret of the namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.contract.kubernetes_names import MOUNT_PATH, SECRETS_PATH, config_map_name
from dynamic_kafka.errors import OptionError

NAME_CHARACTERS = 63
"""The longest name of a Job: its pods carry it as a label."""
FINAL = (
    ExitCode.CONFIGURATION,
    ExitCode.REFUSED,
    ExitCode.MISSING_SOURCE_TOPIC,
    ExitCode.MISSING_INTERNAL_TOPIC,
    ExitCode.MISCONFIGURED_INTERNAL_TOPIC,
)
"""The exit codes after which another attempt would end in the same way."""
_PRE_SYNC = """\
# A hook that makes the internal topics before each sync, with internalTopicsSetup: manual in app.yaml."""
_SYNC = """\
# A hook that makes the internal topics, with internalTopicsSetup: manual in app.yaml. Their home is a cluster of the
# metadata, which the operator renders after the sync has begun: give the SparkApplication a later wave than 1."""
_REST = """
# Add what its driver has: the volumes of the checkpoint and of secrets, and environment variables. Without Argo CD,
# delete the Job and apply it again before the application.
"""


@dataclass(frozen=True)
class JobNames:
    """The names that the Job needs.

    Attributes:
        name: the SparkApplication's.
        config_map: the ConfigMap with the file `app.yaml`.
        secrets: the Secrets of its clusters.
    """

    name: str
    namespace: str
    image: str
    config_map: str
    secrets: Sequence[str] = ()


def init_job(config: AppConfig, names: JobNames) -> str:
    """Return the Job as YAML with comments.

    Raises:
        OptionError: the application declares no internal topics, or the Job's name would be too long.
    """
    declared = config.file.internal_topics
    if declared is None:
        raise OptionError(f"{config.source} declares no `internalTopics`: there is nothing for a Job to set up")
    name = f"{names.name}-init"
    if len(name) > NAME_CHARACTERS:
        raise OptionError(f"{name!r} has more than {NAME_CHARACTERS} characters: give a shorter name with --name")
    rendered = (config.file.metadata or "").rstrip("/") == MOUNT_PATH
    # Before the first sync the operator has rendered no document: a pod that mounts it would wait for it.
    before = rendered and declared.cluster is None
    hook = {"argocd.argoproj.io/hook": "PreSync" if before or not rendered else "Sync"}
    if rendered and not before:
        hook["argocd.argoproj.io/sync-wave"] = "1"
    hook["argocd.argoproj.io/hook-delete-policy"] = "BeforeHookCreation"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": names.namespace, "annotations": hook},
        "spec": {
            "backoffLimit": 4,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": "init",
                            "operator": "In",
                            "values": [int(code) for code in FINAL],
                        },
                    }
                ]
            },
            "template": {"spec": _pod(names, mounts_document=rendered and not before, skips_sources=before)},
        },
    }
    head = (_SYNC if rendered and not before else _PRE_SYNC) + _REST
    return head + str(yaml.safe_dump(job, sort_keys=False, width=200))


def _pod(names: JobNames, *, mounts_document: bool, skips_sources: bool) -> dict[str, Any]:
    folder = f"/etc/{names.name}"
    mounts = [{"name": "app", "mountPath": folder, "readOnly": True}, {"name": "tmp", "mountPath": "/tmp"}]
    volumes: list[dict[str, Any]] = [
        {"name": "app", "configMap": {"name": names.config_map}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if mounts_document:
        mounts.append({"name": "metadata", "mountPath": MOUNT_PATH, "readOnly": True})
        volumes.append({"name": "metadata", "configMap": {"name": config_map_name(names.name)}})
    for secret in names.secrets:
        mounts.append({"name": f"{secret}-volume", "mountPath": f"{SECRETS_PATH}/{secret}", "readOnly": True})
        volumes.append({"name": f"{secret}-volume", "secret": {"secretName": secret}})
    skip = ["--skip-source-topics"] if skips_sources else []
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "init",
                "image": names.image,
                "command": ["dynamic-kafka", "init", f"{folder}/app.yaml", *skip],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
