"""The tool `manifest`: print the YAML that an application needs under the operator. Writes nothing.

The mount of the document belongs in the user's own manifests, where Git shows it: the operator does not add items to
the lists of a SparkApplication.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence

import yaml

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.tools.init_job import JobNames, init_job
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.contract.kubernetes_names import (
    MOUNT_PATH,
    NAME_CHARACTERS,
    REPORTER_ROLE,
    REPORTER_VERBS,
    SECRET_CHARACTERS,
    SECRETS_PATH,
    config_map_name,
)
from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.model import SourceOptions

HELP = "print the YAML that a SparkApplication, its service account and app.yaml need under the operator"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_ACCOUNTS = {"kubeflow": "spark-operator-spark", "apache": "spark"}
"""The service account of drivers in the charts of the two Spark operators."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `manifest`."""
    parser.add_argument("app", metavar="APP.YAML", nargs="?", help="the application's file, for its name")
    parser.add_argument(
        "--for",
        dest="operator",
        choices=sorted(_ACCOUNTS),
        required=True,
        help="the Spark operator that runs the application",
    )
    parser.add_argument("--name", help="the SparkApplication's name, if it differs from the application's")
    parser.add_argument("--namespace", default="default", help="the SparkApplication's namespace (default: default)")
    parser.add_argument(
        "--secret", metavar="NAME", action="append", default=[], help="a Secret that its clusters need; may be repeated"
    )
    parser.add_argument(
        "--stream",
        metavar="FILE",
        action="append",
        default=[],
        help="a file with KafkaStreams that it reads, for their Secrets; may be repeated",
    )
    parser.add_argument("--service-account", metavar="NAME", help="the driver's service account, if not the usual one")
    parser.add_argument(
        "--init", action="store_true", help="print a Job instead, which makes the internal topics of APP.YAML"
    )
    parser.add_argument("--image", metavar="IMAGE", help="with --init: the application's image")
    parser.add_argument(
        "--config-map", metavar="NAME", help="with --init: the ConfigMap with app.yaml (default: the name and -config)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the YAML and return the exit code."""
    config = load_config(arguments.app) if arguments.app is not None else None
    if arguments.name is None and config is None:
        raise OptionError("give an app.yaml, or the SparkApplication's name with --name")
    name = arguments.name if arguments.name is not None else config.name if config is not None else ""
    account = arguments.service_account or _ACCOUNTS[arguments.operator]
    secrets = sorted({*arguments.secret, *(secret for path in arguments.stream for secret in _secrets_of(path))})
    for what, text in (
        ("--name", name),
        ("--namespace", arguments.namespace),
        ("--service-account", account),
        ("--config-map", arguments.config_map or name),
        *(("--secret", secret) for secret in secrets),
    ):
        if len(text) > NAME_CHARACTERS or not _NAME.match(text):
            raise OptionError(
                f"{text!r} is not a valid name in Kubernetes (a-z, 0-9, `-` and `.`): give the right name with {what}"
            )
    for secret in secrets:
        if len(secret) > SECRET_CHARACTERS or "." in secret:
            raise OptionError(
                f"the Secret {secret!r} cannot be mounted: Spark names the volume after it, and a volume's name has no"
                f" `.` and at most {SECRET_CHARACTERS} characters. Use a Secret with such a name"
            )
    if arguments.init:
        if config is None or arguments.image is None:
            raise OptionError("--init needs an app.yaml, and the application's image with --image")
        config_map = arguments.config_map or f"{name}-config"
        print(init_job(config, JobNames(name, arguments.namespace, arguments.image, config_map, secrets)).strip("\n"))
        return ExitCode.DONE
    ends = config is not None and all(_ends_for_good(config.parsed_options(sink)) for sink in config.sinks)
    if ends:
        print(_NOTE, file=sys.stderr)
    parts = list(_parts(arguments.operator, name, arguments.namespace, account, secrets, ends=ends))
    if config is not None and (config.file.metadata or "").rstrip("/") == MOUNT_PATH:
        parts = parts[1:]
    print("\n---\n".join(part.strip("\n") for part in parts))
    return ExitCode.DONE


def _ends_for_good(options: SourceOptions) -> bool:
    """Return whether a query ends by itself. Stopping offsets in metadata end one, too; this tool does not see them."""
    return options.record_evaluator is not None or options.bounded


def _secrets_of(path: str) -> Iterator[str]:
    """Yield the names of the Secrets that the KafkaStreams in a file refer to."""
    try:
        with open(path, encoding="utf-8") as file:
            documents = list(yaml.safe_load_all(file))
        streams = [
            document for document in documents if isinstance(document, dict) and document.get("kind") == "KafkaStream"
        ]
        if not streams:
            raise OptionError(
                f"{path} has no KafkaStream: give --stream the file that you apply. A document in the list form has"
                " no Secrets, and is not needed here"
            )
        for stream in streams:
            for cluster in stream["spec"]["clusters"]:
                if "secretRef" in cluster:
                    yield str(cluster["secretRef"]["name"])
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise OptionError(f"{path} cannot be read: {error}") from None
    except (KeyError, TypeError) as error:
        raise OptionError(f"{path} is not a valid KafkaStream ({type(error).__name__}: {error})") from None


def _conf(secrets: Sequence[str]) -> str:
    """Return the keys of `sparkConf` that mount the Secrets at their paths, on driver and executors."""
    return "".join(
        f"\n    spark.kubernetes.{role}.secrets.{secret}: {SECRETS_PATH}/{secret}"
        for secret in secrets
        for role in ("driver", "executor")
    )


def _parts(
    operator: str, name: str, namespace: str, account: str, secrets: Sequence[str], *, ends: bool
) -> Iterator[str]:
    """Yield the YAML documents, each with a comment that explains its use.

    Args:
        ends: the application ends by itself, and must not be run again then.
    """
    yield f"""
# In app.yaml: read the document that the operator renders.
metadata: {MOUNT_PATH}
"""
    spec = _KUBEFLOW if operator == "kubeflow" else _APACHE
    yield spec.format(
        name=_text(name),
        namespace=_text(namespace),
        account=_text(account),
        conf=("\n  sparkConf:" + _conf(secrets)) if operator == "kubeflow" and secrets else _conf(secrets),
        config_map=_text(config_map_name(name)),
        folder=MOUNT_PATH,
        restarts=_RESTARTS[operator] if ends else "",
    )
    yield _ROLE.format(namespace=_text(namespace), role=REPORTER_ROLE, verbs=", ".join(REPORTER_VERBS))
    yield _BINDING.format(
        namespace=_text(namespace),
        role=REPORTER_ROLE,
        binding=_text(f"{REPORTER_ROLE}-{account}"[:NAME_CHARACTERS]),
        account=_text(account),
    )


def _text(name: str) -> str:
    """Return a name as YAML text; one such as `1e3` needs quotes."""
    return name if yaml.safe_load(name) == name else f'"{name}"'


_NOTE = """\
note: this application ends by itself. Under the restartPolicy Always, its Spark operator would run it again and again;
each run would end at once. Take the OnFailure that follows into its manifest."""
_RESTARTS = {
    "kubeflow": """
  restartPolicy:          # not Always: the application ends by itself, and would be run again
    type: OnFailure
    onFailureRetries: 1000
    onFailureRetryInterval: 10
    onSubmissionFailureRetries: 1000
    onSubmissionFailureRetryInterval: 10""",
    "apache": """
  applicationTolerations:
    restartConfig:        # not Always: the application ends by itself, and would be run again
      restartPolicy: OnFailure
      maxRestartAttempts: 1000""",
}
"""The part of a spec that lets a failed application be tried again, and a finished one rest."""
_KUBEFLOW = """
# Merge into the SparkApplication. It needs the webhook of Kubeflow's operator. The driver's pod waits until the
# document is rendered for the first time. Never mount it by subPath: that is not kept up to date.
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata:
  name: {name}
  namespace: {namespace}
spec:{restarts}
  driver:
    serviceAccount: {account}
    configMaps:
      - name: {config_map}
        path: {folder}{conf}
"""
_APACHE = """
# Merge into the SparkApplication. The driver's pod waits until the document is rendered for the first time. Never mount
# it by subPath: that is not kept up to date.
apiVersion: spark.apache.org/v1
kind: SparkApplication
metadata:
  name: {name}
  namespace: {namespace}
spec:{restarts}
  sparkConf:
    spark.kubernetes.authenticate.driver.serviceAccountName: {account}{conf}
  driverSpec:
    podTemplateSpec:
      spec:
        containers:
          - name: spark-kubernetes-driver
            volumeMounts:
              - name: kafkastreams
                mountPath: {folder}
                readOnly: true
        volumes:
          - name: kafkastreams
            configMap:
              name: {config_map}
"""
_ROLE = """
# The driver reports on its own pod: without this right, drains cannot end. The charts of both operators may give it
# already (verbs get and patch on pods); then these two are not needed.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {role}
  namespace: {namespace}
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [{verbs}]
"""
_BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {binding}
  namespace: {namespace}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {role}
subjects:
  - kind: ServiceAccount
    name: {account}
    namespace: {namespace}
"""
